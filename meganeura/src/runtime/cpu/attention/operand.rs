use std::ops::Range;

use crate::runtime::cpu::memory::{Element, Region};
use crate::runtime::cpu::vector::softmax::Loops;
use crate::schedule::kernel::{Access, BufferId};

/// A strided operand: rows for two indices (time and head) of each batch.
pub(super) struct Operand {
    start: *mut f32,
    /// How its elements lie.
    pub element: Element,
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
            start: buffers[access.buffer.index()].at(access.offset),
            element: Element::of(access.dtype),
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
        self.element.step(self.start, offset)
    }
}

/// A row-major result `[batch, time, heads, width]`.
pub(super) struct Target {
    start: *mut f32,
    element: Element,
    time: usize,
    heads: usize,
    /// Columns of a row.
    pub width: usize,
}

// SAFETY: a plain address; who uses it when is the executor's business.
unsafe impl Sync for Target {}

impl Target {
    pub fn new(buffer: BufferId, [time, heads, width]: [usize; 3], buffers: &[Region]) -> Self {
        let region = buffers[buffer.index()];
        Self {
            start: region.base,
            element: Element::of(region.dtype),
            time,
            heads,
            width,
        }
    }

    /// Floats that its rows need while they are added up, so many at a time.
    pub fn room(&self, rows: usize) -> usize {
        match self.element {
            Element::Half => rows * self.width,
            _ => 0,
        }
    }

    /// The start of a row.
    pub fn row(&self, batch: usize, time: usize, head: usize) -> *mut f32 {
        let row = (batch * self.time + time) * self.heads + head;
        self.element.step(self.start, row * self.width)
    }

    /// Some rows of a head while they are added up: where they belong, or in `room` if they are
    /// rounded once they are complete.
    pub fn sums(
        &self,
        [batch, head]: [usize; 2],
        times: &Range<usize>,
        room: *mut f32,
    ) -> Sums<'_> {
        let (start, stride) = match self.element {
            Element::Half => (room, self.width),
            _ => (self.row(batch, times.start, head), self.heads * self.width),
        };
        Sums {
            target: self,
            at: [batch, head],
            times: times.clone(),
            start,
            stride,
        }
    }
}

/// See [`Target::sums`].
pub(super) struct Sums<'a> {
    target: &'a Target,
    at: [usize; 2],
    times: Range<usize>,
    start: *mut f32,
    /// From one place in time to the next.
    pub stride: usize,
}

impl Sums<'_> {
    /// The start of a row.
    pub fn row(&self, time: usize) -> *mut f32 {
        self.start
            .wrapping_add((time - self.times.start) * self.stride)
    }

    /// Columns of a row.
    pub fn width(&self) -> usize {
        self.target.width
    }

    /// Sets all rows to 0.
    ///
    /// # Safety
    /// They must be there and nobody else's.
    pub unsafe fn clear(&self) {
        for time in self.times.clone() {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts_mut(self.row(time), self.width()).fill(0.0) };
        }
    }

    /// Rounds a complete row to where it belongs.
    ///
    /// # Safety
    /// It must be there and nobody else's.
    pub unsafe fn finish_row(&self, time: usize, loops: &Loops) {
        let [batch, head] = self.at;
        if self.target.element == Element::Half {
            let to = self.target.row(batch, time, head);
            // SAFETY: the caller's promise.
            unsafe { (loops.rounded)(to.cast(), self.row(time), self.width()) };
        }
    }

    /// Rounds all rows.
    ///
    /// # Safety
    /// As for one.
    pub unsafe fn finish(&self, loops: &Loops) {
        for time in self.times.clone() {
            // SAFETY: the caller's promise.
            unsafe { self.finish_row(time, loops) };
        }
    }
}
