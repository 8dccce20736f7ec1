//! Small products on the calling thread, for kernels that keep their operands in the caches
//! themselves.

use std::cell::RefCell;

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
    /// The last of them comes first.
    areas: [Soon; Queue::ROOM],
    count: usize,
    /// The logarithm of the multiply-adds of a register between two rows.
    pace: u32,
    /// Those since the last row.
    since: usize,
}

impl Queue {
    const ROOM: usize = 8;

    /// Fetches a row after each `2^pace` multiply-adds of a register.
    pub fn new(pace: u32) -> Self {
        let nothing = Soon {
            from: std::ptr::null(),
            stride: 0,
            rows: 0,
            width: 0,
        };
        Self {
            areas: [nothing; Queue::ROOM],
            count: 0,
            pace,
            since: 0,
        }
    }

    /// Fetches this before what is there, of which the last is forgotten if there is no more room.
    pub fn push(&mut self, soon: Soon) {
        if soon.rows == 0 {
            return;
        }
        if self.count == Queue::ROOM {
            self.areas.rotate_left(1);
            self.count -= 1;
        }
        self.areas[self.count] = soon;
        self.count += 1;
    }

    /// What a product of so many steps, each of so many multiply-adds, fetches as wide as its tile,
    /// a power of two.
    fn take(&mut self, steps: usize, each: usize, width: usize) -> Ahead {
        self.since += steps * each;
        let Some(last) = self.count.checked_sub(1) else {
            self.since = 0;
            return Ahead::NOTHING;
        };
        let area = &mut self.areas[last];
        let pieces = (area.width + width - 1) >> width.trailing_zeros();
        let mut rows = (self.since >> self.pace).min(area.rows);
        if rows * pieces > steps {
            rows = steps / pieces;
        }
        self.since = (self.since - (rows << self.pace)).min(1 << self.pace);
        let ahead = Ahead::rows(area.from, area.stride, rows, [pieces, width]);
        area.from = area.from.wrapping_add(rows * area.stride);
        area.rows -= rows;
        if area.rows == 0 {
            self.count = last;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_gives_the_last_area_first_at_its_pace() {
        let data = [0.0_f32; 400];
        let area = |first: usize, rows, width| Soon {
            from: data[first..].as_ptr(),
            stride: 100,
            rows,
            width,
        };
        let places = |mut ahead: Ahead| {
            let next = std::iter::from_fn(|| ahead.next());
            next.map(|place| (place as usize - data.as_ptr() as usize) / 4)
                .collect::<Vec<_>>()
        };
        let mut queue = Queue::new(7);
        assert!(places(queue.take(48, 14, 16)).is_empty());
        queue.push(area(0, 3, 48));
        queue.push(area(50, 2, 16));
        // Too little work for a row, then enough for one, then for more than are left.
        assert!(places(queue.take(9, 14, 16)).is_empty());
        assert_eq!(places(queue.take(1, 2, 16)), [50]);
        assert_eq!(places(queue.take(48, 14, 16)), [150]);
        // No more places than there are steps.
        assert_eq!(places(queue.take(5, 100, 16)), [0, 16, 32]);
        assert_eq!(places(queue.take(48, 28, 32)), [100, 132, 200, 232]);
        assert!(places(queue.take(48, 28, 32)).is_empty());
        for row in 0..4 * Queue::ROOM {
            queue.push(area(row, 1, 16));
        }
        assert_eq!(places(queue.take(48, 14, 16)), [4 * Queue::ROOM - 1]);
    }
}
