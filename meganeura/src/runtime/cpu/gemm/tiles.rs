//! Small products on the calling thread, for kernels that keep their operands in the caches
//! themselves.

use super::ahead::Ahead;
use super::kernel::{Along, Call, Kernels, PANEL};
use super::pack::Lines;
use crate::ir::Precision;

/// The micro-kernels of this machine.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime::cpu) struct Tiles(&'static Kernels);

/// The left side of a product.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime::cpu) enum Left {
    /// Rows are contiguous; from one to the next.
    Rows(*const f32, usize),
    /// Columns are contiguous; from one to the next.
    Columns(*const f32, usize),
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
        Tiles(super::best_kernels(Precision::F32))
    }

    /// Floats that must be readable for so many columns of a right side: whole registers.
    pub fn padded(self, columns: usize) -> usize {
        columns.next_multiple_of(self.0.lanes)
    }

    /// `c[i, j] (+)= Σ_d a[i, d] · b[d, j]` for `[m, n, k]`; `c`'s rows are `c_stride` apart.
    ///
    /// # Safety
    /// The matrices must be there, rows of `b` up to [`Tiles::padded`] columns, and nobody
    /// else may use `c`.
    pub unsafe fn multiply(
        self,
        [m, n, k]: [usize; 3],
        a: Left,
        b: Rows,
        (c, c_stride): (*mut f32, usize),
        accumulate: bool,
    ) {
        let lanes = self.0.lanes;
        let tiles = m.div_ceil(self.0.rows).max(1);
        let height = m.div_ceil(tiles).max(1);
        for row in (0..m).step_by(height) {
            let rows = height.min(m - row);
            let (along, a, a_stride) = match a {
                Left::Rows(from, stride) => (Along::Depth, from.wrapping_add(row * stride), stride),
                Left::Columns(from, stride) => (Along::Rows, from.wrapping_add(row), stride),
            };
            let mut column = 0;
            while column < n {
                let registers = if n - column > lanes { PANEL } else { 1 };
                let columns = (registers * lanes).min(n - column);
                let call = Call {
                    depth: k,
                    a,
                    a_stride,
                    b: b.from.wrapping_add(column),
                    b_stride: b.stride,
                    c: c.wrapping_add(row * c_stride + column),
                    c_stride,
                    columns,
                    accumulate,
                    soon: &[],
                    soon_offset: 0,
                    ahead: [Ahead::NOTHING; 2],
                };
                if let Some(kernel) = self.0.get(along, rows, registers) {
                    // SAFETY: the caller's promise; the set is this machine's.
                    unsafe { kernel(&call) };
                }
                column += columns;
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
        unsafe { (self.0.transpose)(&lines, to, to_stride) };
    }
}
