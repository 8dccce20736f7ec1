//! How a product is cut: among threads, and into blocks that fit the caches.

use super::kernel::{Kernels, PANEL};
use super::problem::Problem;
use std::ops::Range;

/// Depth is cut into blocks of about this many elements: long enough to make loading and storing C
/// cheap, short enough that a block of B of a useful width stays in the second-level cache.
const DEPTH: usize = 384;
/// The same where the depth is folded: half of 1024 in one go, so that sums wait only once.
const FOLDED_DEPTH: usize = 512;
/// Depth is cut at multiples of this.
pub(super) const DEPTH_UNIT: usize = 16;
/// How many floats of B a thread works with at a time: five eighths of a MiB of second-level cache, which 288
/// columns of a folded depth of 512 and 512 columns of 288 are less than.
const BLOCK_OF_B: usize = 160 * 1024;
/// The widest block of columns, and with it the widest tile of an epilogue.
pub(super) const WIDEST: usize = 512;
/// Partial sums that wait for more depth: one MiB.
const PARTIAL_SUMS: usize = 256 * 1024;
/// Cycles that a row of a block costs beside its elements, mostly in epilogues.
const ROW: f64 = 60.0;
/// Cycles to write a float to a line that another core has fetched: between 2 where the cores
/// share a last-level cache and 7 where they do not.
const MEETING: f64 = 2.5;
/// How much of a unit is lost since threads do not run at quite the same speed.
const UNEVEN: f64 = 0.05;
/// How much longer a multiply-add takes in the half of a panel that is left where columns are cut
/// there.
const HALF_A_PANEL: f64 = 1.4;
/// About how many floats the hardware fetches ahead of what a thread works on.
const FETCHED_AHEAD: f64 = 256.0;
/// Below this many multiplications (about two microseconds) more threads do not help.
const WORTH_SHARING: usize = 128 * 1024;
/// As many multiplications as an element of the result takes beside its own, mostly in epilogues.
const ELEMENT: usize = 16;

/// Whether products of a size are worth more than one thread.
pub(super) fn worth_sharing(batches: usize, [m, n, k]: [usize; 3]) -> bool {
    let sizes = [batches, m, n];
    let each = k.saturating_add(ELEMENT);
    sizes
        .iter()
        .fold(each, |work, &size| work.saturating_mul(size))
        >= WORTH_SHARING
}

/// Cuts a range into `parts` of nearly equal length, with cuts at multiples of `unit`.
pub(super) fn part(length: usize, unit: usize, parts: usize, index: usize) -> Range<usize> {
    let units = length.div_ceil(unit);
    let at = |index: usize| (units * index / parts * unit).min(length);
    at(index)..at(index + 1)
}

/// The depth of a product's sums.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depth {
    /// The longest sum.
    length: usize,
    folded: bool,
}

impl Depth {
    pub fn of(problem: &Problem<'_>) -> Depth {
        let depth = problem.size[2];
        match problem.fold {
            Some(_) => Depth {
                length: part(depth, DEPTH_UNIT, 2, 1).len().max(depth / 2),
                folded: true,
            },
            None => Depth::whole(depth),
        }
    }

    /// All in one sum.
    pub fn whole(depth: usize) -> Depth {
        Depth {
            length: depth,
            folded: false,
        }
    }

    /// How many blocks; at least one, so that a product without depth stores zeros.
    pub fn blocks(self, kernels: &Kernels) -> usize {
        let most = if self.folded { FOLDED_DEPTH } else { DEPTH };
        self.length.div_ceil(most * kernels.steps()).max(1)
    }
}

/// How many columns to work with at a time.
pub(super) fn column_block(kernels: &Kernels, depth: Depth) -> usize {
    let depth = depth
        .length
        .div_ceil(depth.blocks(kernels) * kernels.steps());
    let depth = depth.max(1);
    let panel = kernels.panel();
    (BLOCK_OF_B / depth / panel * panel).clamp(panel, WIDEST)
}

/// A way to cut every matrix of C, in rows and in columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::cpu) struct Grid {
    pub rows: usize,
    pub columns: usize,
    /// Whether neighbouring units share rows (else columns): threads begin with neighbours.
    pub row_by_row: bool,
}

impl Grid {
    /// The batch, row part and column part of a unit.
    pub fn place(&self, unit: usize) -> [usize; 3] {
        let [first, second] = match self.row_by_row {
            true => [self.columns, self.rows],
            false => [self.rows, self.columns],
        };
        let (inner, outer) = (unit % first, unit / first % second);
        let [row, column] = match self.row_by_row {
            true => [outer, inner],
            false => [inner, outer],
        };
        [unit / (first * second), row, column]
    }
}

/// What the cost of a cut depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub batches: usize,
    pub size: [usize; 3],
    pub depth: Depth,
    /// Rows are cut at multiples of this.
    pub row_unit: usize,
    /// Cycles to prepare an element of A for one block of columns.
    pub prepare_a: f64,
    /// Cycles to prepare an element of B for one block of rows.
    pub prepare_b: f64,
    /// Cycles to fetch an element of B that needs no preparation.
    pub fetch_b: f64,
    /// Up to how many rows B needs no preparation.
    pub direct_rows: usize,
    /// Whether sums wait in a thread's own memory.
    pub keeps_sums: bool,
    /// Whether C is the transpose of what is stored.
    pub turned: bool,
}

/// Cuts C so that `threads` threads end at the same time, prepare little twice, and write
/// memory far from each other's.
pub(super) fn grid(kernels: &Kernels, threads: usize, costs: &Costs) -> Grid {
    let mut best = Grid {
        rows: costs.rows_at_least(kernels),
        columns: 1,
        row_by_row: false,
    };
    let mut least = f64::INFINITY;
    for grid in grids(kernels, threads, costs) {
        let cost = costs.estimate(kernels, threads, grid);
        if cost < least {
            (best, least) = (grid, cost);
        }
    }
    best
}

/// The ways to cut C that are worth a thought; none where more threads do not help.
pub(super) fn grids<'a>(
    kernels: &Kernels,
    threads: usize,
    costs: &'a Costs,
) -> impl Iterator<Item = Grid> + use<'a> {
    let (lanes, rows_at_least) = (kernels.lanes, costs.rows_at_least(kernels));
    let [m, n, _] = costs.size;
    let most = match threads > 1 && worth_sharing(costs.batches, costs.size) {
        true => (4 * threads).min(m.div_ceil(costs.row_unit)),
        false => 0,
    };
    let rows = (0..9).flat_map(|log| [1 << log, 3 << log]);
    let rows = rows.take_while(move |&rows| rows <= most);
    let rows = rows.map(move |rows: usize| rows.max(rows_at_least));
    rows.flat_map(move |rows| {
        [1, 2, 4].into_iter().flat_map(move |rounds| {
            let columns = (rounds * threads).div_ceil(costs.batches * rows);
            let columns = columns.clamp(1, n.div_ceil(lanes));
            [true, false].map(|row_by_row| Grid {
                rows,
                columns,
                row_by_row,
            })
        })
    })
}

impl Costs {
    /// In how many parts rows must be cut for a thread's sums to be no more than enough.
    pub fn rows_at_least(&self, kernels: &Kernels) -> usize {
        let [m, n, _] = self.size;
        let sums = m * column_block(kernels, self.depth).min(n);
        match self.keeps_sums {
            true => sums.div_ceil(PARTIAL_SUMS).max(1),
            false => 1,
        }
    }

    /// Estimates the cycles until the last thread ends.
    pub fn estimate(&self, kernels: &Kernels, threads: usize, grid: Grid) -> f64 {
        let [m, n, k] = self.size;
        let lanes = kernels.lanes;
        let rows = m.div_ceil(self.row_unit).div_ceil(grid.rows) * self.row_unit;
        let rows = rows.min(m) as f64;
        let registers = n.div_ceil(lanes).div_ceil(grid.columns);
        let columns = (registers * lanes) as f64;
        let left = (registers % PANEL) as f64;
        let multiplied = columns + left * (HALF_A_PANEL - 1.0) * lanes as f64;
        let depth = k as f64;
        let steps = kernels.steps();
        let blocks = (columns / column_block(kernels, self.depth) as f64).ceil();
        let prepare_b = if rows <= self.direct_rows as f64 {
            self.fetch_b
        } else {
            self.prepare_b
        };
        let unit = rows * multiplied * depth / (steps * lanes) as f64
            + rows * depth * blocks * self.prepare_a
            + columns * depth * prepare_b
            + rows * blocks * ROW
            + 500.0;
        let rounds = (self.batches * grid.rows * grid.columns).div_ceil(threads) as f64;
        // The shorter the last unit, the sooner everybody has ended.
        (rounds + UNEVEN) * unit + self.meeting(threads, grid)
    }

    /// Cycles until a thread has taken the lines it writes from the others. Cut one way, each
    /// thread's part of C is contiguous; cut the other way, rows alternate between threads, and
    /// what one fetches ahead of its part of a row belongs to the next.
    fn meeting(&self, threads: usize, grid: Grid) -> f64 {
        let [m, n, _] = self.size;
        // Threads begin with neighbouring units: in how many parts that cuts rows and columns.
        let outer = match grid.row_by_row {
            true => self.batches * grid.rows,
            false => self.batches * grid.columns,
        };
        let outer_parts = outer.min(threads) / self.batches.min(threads);
        let inner_parts = threads.div_ceil(outer);
        let [row_parts, column_parts] = match grid.row_by_row {
            true => [outer_parts, inner_parts],
            false => [inner_parts, outer_parts],
        };
        let (run, parts) = match self.turned {
            false => (n, column_parts),
            true => (m, row_parts),
        };
        if parts <= 1 {
            return 0.0;
        }
        let run = run as f64 / parts as f64;
        let written = (self.batches * m * n) as f64 / threads as f64;
        written * MEETING * (FETCHED_AHEAD / run).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_range() {
        for (length, unit, parts) in [
            (0, 1, 3),
            (10, 1, 3),
            (100, 16, 3),
            (100, 16, 20),
            (5, 8, 2),
        ] {
            let mut end = 0;
            for index in 0..parts {
                let part = part(length, unit, parts, index);
                assert_eq!(part.start, end);
                assert!(part.start.is_multiple_of(unit) || part.is_empty());
                end = part.end;
            }
            assert_eq!(end, length);
        }
    }

    fn costs([m, n, k]: [usize; 3]) -> Costs {
        Costs {
            batches: 1,
            size: [m, n, k],
            depth: Depth::whole(k),
            row_unit: 1,
            prepare_a: 0.1,
            prepare_b: 0.5,
            fetch_b: 0.1,
            direct_rows: 64,
            keeps_sums: true,
            turned: false,
        }
    }

    #[test]
    fn few_panels_are_left_whole() {
        for kernels in super::super::kernel::available(crate::ir::Precision::F32) {
            let panel = kernels.panel();
            for (rows, panels) in [(256, 3), (288, 9), (768, 9), (1024, 9)] {
                // Half of them would end inside a panel.
                let columns = panels * panel;
                let grid = grid(kernels, 2, &costs([rows, columns, 288]));
                for index in 0..grid.columns {
                    let part = part(columns, kernels.lanes, grid.columns, index);
                    let whole = part.len().is_multiple_of(panel);
                    assert!(whole, "{}, {rows} x {columns}: {grid:?}", kernels.name);
                }
            }
        }
    }

    #[test]
    fn threads_write_memory_far_from_each_others() {
        let kernels = super::super::best_kernels(crate::ir::Precision::F32);
        for size in [[256, 1024, 1024], [784, 128, 64], [1024, 288, 288]] {
            let grid = grid(kernels, 2, &costs(size));
            let units = grid.rows * grid.columns;
            let rows_of = |units: std::ops::Range<usize>| {
                let rows = units.map(|unit| grid.place(unit)[1]);
                rows.collect::<std::collections::BTreeSet<_>>()
            };
            let (first, second) = (rows_of(0..units / 2), rows_of(units / 2..units));
            assert!(first.is_disjoint(&second), "{size:?}: {grid:?}");
        }
        // With one block of rows, columns are all there is to cut.
        let one_block = Costs {
            row_unit: 64,
            ..costs([64, 128, 16])
        };
        assert!(grid(kernels, 2, &one_block).columns > 1);
    }

    #[test]
    fn every_part_is_some_unit() {
        for row_by_row in [false, true] {
            let grid = Grid {
                rows: 3,
                columns: 2,
                row_by_row,
            };
            let places: Vec<_> = (0..12).map(|unit| grid.place(unit)).collect();
            let mut sorted = places.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 12);
            assert!(places.iter().all(|&[batch, row, column]| {
                batch < 2 && row < grid.rows && column < grid.columns
            }));
        }
    }
}
