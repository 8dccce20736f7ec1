//! Small products on the calling thread, for kernels that keep their operands in the caches
//! themselves.

mod queue;
mod sweep;

pub(in crate::runtime::cpu) use queue::{Queue, Soon};
pub(in crate::runtime::cpu) use sweep::Span;

use std::cell::RefCell;

use super::kernel::Kernels;
use super::pack::Lines;
use crate::ir::Precision;
use sweep::{Call, Sweeps};

/// Rows of a tile with a depth of its own.
pub(in crate::runtime::cpu) const SPAN: usize = 8;

/// The micro-kernels of this machine.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime::cpu) struct Tiles {
    kernels: &'static Kernels,
    sweeps: &'static Sweeps,
}

/// The left side of a product.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime::cpu) enum Left {
    /// Rows are contiguous; from one to the next.
    Rows(*const f32, usize),
    /// Columns are contiguous; from one to the next.
    Columns(*const f32, usize),
}

impl Left {
    /// All rows but the first few.
    fn skip(self, rows: usize) -> Left {
        match self {
            Left::Rows(from, stride) => Left::Rows(from.wrapping_add(rows * stride), stride),
            Left::Columns(from, stride) => Left::Columns(from.wrapping_add(rows), stride),
        }
    }
}

/// Where rows of a matrix lie, each contiguous.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime::cpu) struct Rows {
    pub from: *const f32,
    /// From one row to the next.
    pub stride: usize,
}

impl Tiles {
    /// The best there are.
    pub fn new() -> Tiles {
        Tiles {
            kernels: super::best_kernels(Precision::F32),
            sweeps: Sweeps::best(),
        }
    }

    /// Floats that must be readable for so many columns of a right side: whole registers.
    pub fn padded(self, columns: usize) -> usize {
        columns.next_multiple_of(self.kernels.lanes)
    }

    /// `c[i, j] (+)= Σ_d a[i, d] · b[d, j]` for `[m, n, k]`; `c`'s rows are `c_stride` apart. Fetches
    /// what comes next in the queue.
    ///
    /// # Safety
    /// The matrices must be there, rows of `b` up to [`Tiles::padded`] columns, and nobody
    /// else may use `c`.
    pub unsafe fn multiply(
        self,
        [m, n, k]: [usize; 3],
        a: Left,
        b: Rows,
        c: (*mut f32, usize),
        accumulate: bool,
        queue: &RefCell<Queue>,
    ) {
        let span = Span {
            first: 0,
            count: k,
            accumulate,
        };
        // SAFETY: the caller's promise.
        unsafe {
            let height = self.sweeps.tallest();
            self.sweep([m, n], height, (&raw const span, 0), (a, b, c), queue);
        }
    }

    /// The same for tiles of [`SPAN`] rows, each with a depth of its own.
    ///
    /// # Safety
    /// As [`Tiles::multiply`], and there must be as many spans as are needed.
    pub unsafe fn multiply_each(
        self,
        size: [usize; 2],
        spans: &[Span],
        a: Left,
        b: Rows,
        c: (*mut f32, usize),
        queue: &RefCell<Queue>,
    ) {
        debug_assert!(size[0] <= spans.len() * SPAN);
        let height = self.sweeps.tallest();
        // SAFETY: the caller's promise.
        unsafe {
            if height == SPAN {
                return self.sweep(size, height, (spans.as_ptr(), 1), (a, b, c), queue);
            }
            for (index, span) in spans.iter().enumerate() {
                let row = index * SPAN;
                let rows = SPAN.min(size[0].saturating_sub(row));
                let (a, c) = (a.skip(row), (c.0.wrapping_add(row * c.1), c.1));
                let span = (&raw const *span, 0);
                self.sweep([rows, size[1]], height, span, (a, b, c), queue);
            }
        }
    }

    /// Tiles of a height, and one for the rows that are left.
    ///
    /// # Safety
    /// As [`Tiles::multiply_each`].
    #[inline]
    unsafe fn sweep(
        self,
        [m, n]: [usize; 2],
        height: usize,
        (spans, span_step): (*const Span, usize),
        (a, b, (c, c_stride)): (Left, Rows, (*mut f32, usize)),
        queue: &RefCell<Queue>,
    ) {
        let mut queue = queue.borrow_mut();
        let along_rows = matches!(a, Left::Columns(..));
        let (Left::Rows(from, a_stride) | Left::Columns(from, a_stride)) = a;
        let mut call = Call {
            tiles: m / height,
            spans,
            span_step,
            a: from,
            a_stride,
            b: b.from,
            b_stride: b.stride,
            c,
            c_stride,
            columns: n,
        };
        let whole = call.tiles * height;
        // SAFETY: the caller's promise; the set is this machine's.
        unsafe {
            if whole > 0
                && let Some(sweep) = self.sweeps.get(along_rows, height)
            {
                sweep(&call, &mut queue);
            }
            if let Some(sweep) = self.sweeps.get(along_rows, m - whole) {
                let (Left::Rows(from, _) | Left::Columns(from, _)) = a.skip(whole);
                call.spans = spans.wrapping_add(call.tiles * span_step);
                (call.tiles, call.a) = (1, from);
                call.c = c.wrapping_add(whole * c_stride);
                sweep(&call, &mut queue);
            }
        }
    }

    /// The transpose of `count` rows of `depth` floats, `stride` apart, with zeros up to whole
    /// registers.
    ///
    /// # Safety
    /// The rows must be there, and `to` as far as [`Tiles::padded`] says.
    pub unsafe fn transpose(
        self,
        (from, stride): (*const f32, usize),
        [count, depth]: [usize; 2],
        (to, to_stride): (*mut f32, usize),
    ) {
        let lines = Lines {
            from,
            line_stride: stride,
            depth_stride: 1,
            count,
            depth,
        };
        // SAFETY: the caller's promise; the set is this machine's.
        unsafe { (self.kernels.transpose)(&lines, to, to_stride) };
    }
}

#[cfg(test)]
mod tests;
