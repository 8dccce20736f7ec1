//! Small products on the calling thread, for kernels that keep their operands in the caches
//! themselves.

use std::cell::RefCell;
use std::collections::VecDeque;

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

/// Rows of memory that are soon needed.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime::cpu) struct Soon {
    pub from: *const f32,
    /// From one row to the next.
    pub stride: usize,
    pub rows: usize,
    pub width: usize,
}

/// What products fetch between their steps, a few lines at a time so that these do not queue up.
#[derive(Debug)]
pub(in crate::runtime::cpu) struct Queue {
    areas: VecDeque<Soon>,
    /// Multiply-adds of a register between two rows.
    pace: usize,
    /// Those since the last row.
    since: usize,
}

impl Queue {
    pub fn new(pace: usize) -> Self {
        Self {
            areas: VecDeque::new(),
            pace,
            since: 0,
        }
    }

    /// Fetches this, too, after what is there.
    pub fn push(&mut self, soon: Soon) {
        if soon.rows > 0 {
            self.areas.push_back(soon);
        }
    }

    /// Fetches this first.
    pub fn push_front(&mut self, soon: Soon) {
        if soon.rows > 0 {
            self.areas.push_front(soon);
        }
    }

    /// What a product of so many steps, each of so many multiply-adds, fetches as wide as its tile.
    fn take(&mut self, steps: usize, each: usize, width: usize) -> Ahead {
        let Some(area) = self.areas.front_mut() else {
            self.since = 0;
            return Ahead::NOTHING;
        };
        self.since += steps * each;
        let pieces = area.width.div_ceil(width);
        let rows = (self.since / self.pace).min(area.rows).min(steps / pieces);
        self.since = (self.since - rows * self.pace).min(self.pace);
        let ahead = Ahead::rows(area.from, area.stride, rows, [pieces, width]);
        area.from = area.from.wrapping_add(rows * area.stride);
        area.rows -= rows;
        if area.rows == 0 {
            self.areas.pop_front();
        }
        ahead
    }
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
        (c, c_stride): (*mut f32, usize),
        accumulate: bool,
        queue: &RefCell<Queue>,
    ) {
        let mut queue = queue.borrow_mut();
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
                    ahead: [
                        queue.take(k, rows * registers, registers * lanes),
                        Ahead::NOTHING,
                    ],
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
