use crate::runtime::cpu::memory::Region;
use crate::schedule::kernel::{Access, BufferId};

/// A strided operand: rows for two indices (time and head) of each batch.
pub(super) struct Operand {
    start: *const f32,
    batch: Vec<usize>,
    batch_strides: Vec<usize>,
    /// From one place in time to the next (of a mask: from one head).
    pub time: usize,
    /// From one head to the next (of a mask: from one query).
    head: usize,
    /// From one column to the next.
    pub column: usize,
}

impl Operand {
    /// An access over outer axes `[batch.., first, second]`.
    pub fn new(access: &Access, batch: &[usize], buffers: &[Region]) -> Self {
        let axes = batch.len();
        Self {
            start: buffers[access.buffer.index()]
                .base
                .wrapping_add(access.offset),
            batch: batch.to_vec(),
            batch_strides: access.strides[..axes].to_vec(),
            time: access.strides[axes],
            head: access.strides[axes + 1],
            column: access.column_stride,
        }
    }

    /// The start of a row.
    pub fn row(&self, batch: usize, time: usize, head: usize) -> *const f32 {
        let (mut rest, mut offset) = (batch, time * self.time + head * self.head);
        for (&size, &stride) in self.batch.iter().zip(&self.batch_strides).rev() {
            offset += rest % size * stride;
            rest /= size;
        }
        self.start.wrapping_add(offset)
    }
}

/// A row-major result `[batch, time, heads, width]`.
pub(super) struct Target {
    start: *mut f32,
    time: usize,
    heads: usize,
    /// Columns of a row.
    pub width: usize,
}

// SAFETY: a plain address; who uses it when is the executor's business.
unsafe impl Sync for Target {}

impl Target {
    pub fn new(buffer: BufferId, [time, heads, width]: [usize; 3], buffers: &[Region]) -> Self {
        Self {
            start: buffers[buffer.index()].base,
            time,
            heads,
            width,
        }
    }

    /// From one place in time to the next.
    pub fn stride(&self) -> usize {
        self.heads * self.width
    }

    /// The start of a row.
    pub fn row(&self, batch: usize, time: usize, head: usize) -> *mut f32 {
        let row = (batch * self.time + time) * self.heads + head;
        self.start.wrapping_add(row * self.width)
    }

    /// Sets rows of a head to 0.
    ///
    /// # Safety
    /// They must be there and nobody else's.
    pub unsafe fn clear(&self, batch: usize, times: &std::ops::Range<usize>, head: usize) {
        for time in times.clone() {
            let row = self.row(batch, time, head);
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts_mut(row, self.width).fill(0.0) };
        }
    }
}
