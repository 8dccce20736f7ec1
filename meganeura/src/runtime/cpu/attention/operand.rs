//! Operands and results in memory. All that attention reads and writes there goes through here.

use std::ops::Range;

use crate::ir::bf16;
use crate::runtime::cpu::gemm::tiles::{self, Soon, Tiles};
use crate::runtime::cpu::memory::{Element, Region};
use crate::runtime::cpu::vector::softmax::{Loops, Numbers, Rows};
use crate::schedule::kernel::{Access, BufferId};

/// Floats of a cache line.
const LINE: usize = 16;
/// Lines that the first-level cache has room for before one may drive out another.
const SETS: usize = 64;
/// Rows are copied as they are.
static ONE: f32 = 1.0;

/// Rows of a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    pub from: *mut f32,
    /// From one row to the next.
    pub stride: usize,
}

impl Matrix {
    /// From a row on.
    pub fn row(self, row: usize) -> *mut f32 {
        self.from.wrapping_add(row * self.stride)
    }

    /// All rows but the first few.
    pub fn skip(self, rows: usize) -> Matrix {
        Matrix {
            from: self.row(rows),
            ..self
        }
    }

    /// As the right side of a product, from a row on.
    pub fn right(self, row: usize) -> tiles::Rows {
        tiles::Rows {
            from: self.row(row),
            stride: self.stride,
        }
    }

    /// Makes the first floats of some rows 0.
    ///
    /// # Safety
    /// They must be there and nobody else's.
    pub unsafe fn clear(self, rows: Range<usize>, width: usize) {
        for row in rows {
            // SAFETY: the caller's promise.
            unsafe { self.row(row).write_bytes(0, width) };
        }
    }
}

/// A strided operand: rows for two indices (time and head) of each batch.
pub(super) struct Operand {
    start: *mut f32,
    element: Element,
    batch: Vec<usize>,
    batch_strides: Vec<usize>,
    /// From one place in time to the next (of a mask: from one head).
    time: usize,
    /// From one head to the next (of a mask: from one query).
    head: usize,
    /// From one column to the next.
    column: usize,
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
    fn row(&self, batch: usize, time: usize, head: usize) -> *const f32 {
        let (mut rest, mut offset) = (batch, time * self.time + head * self.head);
        for (&size, &stride) in self.batch.iter().zip(&self.batch_strides).rev() {
            offset += rest % size * stride;
            rest /= size;
        }
        self.element.step(self.start, offset)
    }

    /// Whether products may read rows of `width` floats where they lie: they read whole registers,
    /// and rows that are a large power of two apart would drive each other out of a cache.
    pub fn in_place(&self, tiles: Tiles, width: usize) -> bool {
        let lines = self.time.div_ceil(LINE);
        let apart = 1 << lines.trailing_zeros().min(SETS.trailing_zeros());
        self.column == 1
            && matches!(self.element, Element::Float)
            && width == tiles.padded(width)
            && apart <= width.div_ceil(LINE).max(2)
    }

    /// Rows of a head: where they lie, or copied to scratch memory.
    ///
    /// # Safety
    /// The operand and `to` must be there.
    pub unsafe fn rows(
        &self,
        (loops, tiles): (&Loops, Tiles),
        at: [usize; 2],
        times: &Range<usize>,
        width: usize,
        to: *mut f32,
    ) -> Matrix {
        if self.in_place(tiles, width) {
            let from = self.row(at[0], times.start, at[1]);
            return Matrix {
                from: from.cast_mut(),
                stride: self.time,
            };
        }
        let matrix = Matrix {
            from: to,
            stride: tiles.padded(width),
        };
        // SAFETY: the caller's promise.
        unsafe { self.copy(loops, at, times, width, matrix) };
        matrix
    }

    /// Rows of a head, to be fetched.
    pub fn soon(&self, [batch, head]: [usize; 2], times: Range<usize>, width: usize) -> Soon {
        let apart = self.column == 1 && matches!(self.element, Element::Float);
        let rows = if apart { times.len() } else { 0 };
        Soon::rows(self.row(batch, times.start, head), self.time, rows, width)
    }

    /// Copies rows of a head.
    unsafe fn copy(
        &self,
        loops: &Loops,
        [batch, head]: [usize; 2],
        times: &Range<usize>,
        width: usize,
        Matrix { from: to, stride }: Matrix,
    ) {
        let from = self.row(batch, times.start, head);
        let rows = Rows {
            from,
            from_stride: self.time,
            to,
            to_stride: stride,
            count: times.len(),
            width,
        };
        // SAFETY: the caller's promise.
        unsafe {
            if self.column == 1 {
                let copy = match self.element {
                    Element::Half => loops.widen,
                    _ => loops.copy,
                };
                return copy(&rows, &raw const ONE, 0);
            }
            for index in 0..rows.count {
                let to = to.add(index * stride);
                for i in 0..width {
                    let at = index * self.time + i * self.column;
                    *to.add(i) = match self.element {
                        Element::Half => bf16::widen(*from.cast::<u16>().add(at)),
                        _ => *from.add(at),
                    };
                }
            }
        }
    }

    /// The numbers of a head that has one for each place in time.
    ///
    /// # Safety
    /// The operand must be there.
    pub unsafe fn numbers(
        &self,
        [batch, head]: [usize; 2],
        times: &Range<usize>,
    ) -> impl Iterator<Item = f32> {
        let from = self.row(batch, times.start, head);
        // SAFETY: the caller's promise.
        (0..times.len()).map(move |index| unsafe { *from.add(index * self.time) })
    }

    /// Of a mask: copies what some queries have for some keys, with a row for each key.
    ///
    /// # Safety
    /// The operand and `to` must be there.
    pub unsafe fn turn(
        &self,
        tiles: Tiles,
        [batch, head]: [usize; 2],
        queries: &Range<usize>,
        keys: &Range<usize>,
        (to, stride): (*mut f32, usize),
    ) {
        let from = self.row(batch, head, queries.start);
        // SAFETY: the caller's promise.
        unsafe {
            let from = from.add(keys.start * self.column);
            if self.column == 1 {
                let size = [queries.len(), keys.len()];
                return tiles.transpose((from, self.head), size, (to, stride));
            }
            for lane in 0..queries.len() {
                let from = from.add(lane * self.head);
                for key in 0..keys.len() {
                    *to.add(key * stride + lane) = *from.add(key * self.column);
                }
            }
        }
    }
}

/// A row-major result `[batch, time, heads, width]`.
pub(super) struct Target {
    start: *mut f32,
    element: Element,
    time: usize,
    heads: usize,
    width: usize,
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

    /// The start of a row.
    fn row(&self, [batch, head]: [usize; 2], time: usize) -> *mut f32 {
        let row = (batch * self.time + time) * self.heads + head;
        self.element.step(self.start, row * self.width)
    }

    /// Whether products may add to rows where they lie.
    pub fn in_place(&self) -> bool {
        matches!(self.element, Element::Float)
    }

    /// Rows of a head, to be fetched.
    pub fn soon(&self, at: [usize; 2], times: Range<usize>) -> Soon {
        let rows = if self.in_place() { times.len() } else { 0 };
        let stride = self.heads * self.width;
        Soon::rows(self.row(at, times.start), stride, rows, self.width)
    }

    /// Rows of a head where they lie, or in scratch memory, from where [`Target::store`] writes them.
    pub fn rows(&self, at: [usize; 2], first: usize, scratch: Matrix) -> Matrix {
        match self.in_place() {
            true => Matrix {
                from: self.row(at, first),
                stride: self.heads * self.width,
            },
            false => scratch,
        }
    }

    fn copy(&self, loops: &Loops) -> unsafe fn(&Rows, *const f32, usize) {
        match self.element {
            Element::Half => loops.round,
            _ => loops.copy,
        }
    }

    /// Writes rows of a head, unless they lie where they belong.
    ///
    /// # Safety
    /// They must be there and nobody else's, and the rows of the matrix.
    pub unsafe fn store(
        &self,
        loops: &Loops,
        at: [usize; 2],
        times: &Range<usize>,
        Matrix { from, stride }: Matrix,
    ) {
        if !self.in_place() {
            let rows = self.copied(at, times, (from, stride));
            // SAFETY: the caller's promise.
            unsafe { self.copy(loops)(&rows, &raw const ONE, 0) };
        }
    }

    /// Writes rows of a head, each times a factor; zeros where that is 0.
    ///
    /// # Safety
    /// They must be there and nobody else's, and as many rows `stride` apart.
    pub unsafe fn store_each(
        &self,
        loops: &Loops,
        at: [usize; 2],
        times: &Range<usize>,
        (from, stride, factors): (*const f32, usize, &Numbers),
    ) {
        let rows = self.copied(at, times, (from, stride));
        // SAFETY: the caller's promise.
        unsafe {
            self.copy(loops)(&rows, factors.0.as_ptr(), 1);
            for (time, &factor) in times.clone().zip(&factors.0) {
                if factor == 0.0 {
                    let end = self.element.step(self.row(at, time), self.width);
                    let row = self.row(at, time).cast::<u8>();
                    row.write_bytes(0, end as usize - row as usize);
                }
            }
        }
    }

    fn copied(
        &self,
        at: [usize; 2],
        times: &Range<usize>,
        (from, from_stride): (*const f32, usize),
    ) -> Rows {
        Rows {
            from,
            from_stride,
            to: self.row(at, times.start),
            to_stride: self.heads * self.width,
            count: times.len(),
            width: self.width,
        }
    }

    /// Writes the number of a place in time.
    ///
    /// # Safety
    /// It must be there and nobody else's.
    pub unsafe fn number(&self, at: [usize; 2], time: usize, value: f32) {
        // SAFETY: the caller's promise.
        unsafe { *self.row(at, time) = value };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

    /// Queries, keys and values of so many heads as a projection leaves them, and a gradient of as
    /// many heads.
    fn in_place(width: usize, heads: usize, dtype: DType, column_stride: usize) -> [bool; 2] {
        let region = Region {
            base: std::ptr::null_mut(),
            elements: 0,
            dtype,
        };
        [3 * heads * width, heads * width].map(|row| {
            let access = Access {
                buffer: BufferId(0),
                dtype,
                offset: 0,
                strides: vec![256 * row, row, width],
                column_stride,
            };
            Operand::new(&access, &[4], &[region]).in_place(Tiles::new(), width)
        })
    }

    #[test]
    fn rows_are_read_where_they_lie_if_they_are_not_a_power_of_two_apart() {
        for (width, heads, expected) in [
            // The `gpt` workload: 54 and 18 cache lines apart.
            (48, 6, [true, true]),
            // 36 and 12, 72 and 24, 144 and 48: fours, eights and sixteens.
            (32, 6, [false, false]),
            (64, 6, [false, false]),
            (128, 6, [false, false]),
            // 60 and 20 of rows of four lines, 36 and 12 of rows of four.
            (64, 5, [true, true]),
            (64, 3, [true, true]),
            (64, 1, [true, true]),
            // A head of many lines finds room with what is between.
            (128, 1, [true, true]),
            (64, 8, [false, false]),
            (64, 16, [false, false]),
        ] {
            let found = in_place(width, heads, DType::F32, 1);
            assert_eq!(found, expected, "{heads} heads of {width}");
        }
        assert_eq!(in_place(48, 6, DType::BF16, 1), [false, false]);
        assert_eq!(in_place(48, 6, DType::F32, 2), [false, false]);
        if Tiles::new().padded(1) > 4 {
            assert_eq!(in_place(20, 6, DType::F32, 1), [false, false]);
        }
    }
}
