//! Epilogues: a compiled kernel run on tiles of a product.

use std::ops::Range;
use std::sync::Arc;

use super::super::gemm::Soon;
use super::super::memory::Element;
use super::super::pool::Pool;
use super::super::vector::combine;
use super::super::vector::machine::Fused;
use super::grid::share;
use super::moves::{fill, row_address};
use super::program::{Code, Origin, Pending, Slot, Tiling, Walk, Work};
use super::run::{LoopProgram, State, Tile};

/// Rows whose sum is kept by itself, so that sums over all rows do not depend on who worked
/// on which.
pub(in super::super) const BLOCK_ROWS: usize = 64;
/// Columns that are added up at a time.
const CHUNK: usize = 256;
/// Numbers to add up that are worth sharing.
const WORTH_SHARING: usize = 64 * 1024;

/// Sums over the rows of blocks, which make up those over all rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    /// Rows of a product.
    rows: usize,
    /// Blocks of all products.
    count: usize,
}

impl Blocks {
    /// The block of a row, counted over all products.
    fn of(self, row: usize) -> usize {
        row / self.rows * self.rows.div_ceil(BLOCK_ROWS) + row % self.rows / BLOCK_ROWS
    }

    /// Whether a block begins (or the one before has ended) at a row.
    fn begins(self, row: usize) -> bool {
        (row % self.rows).is_multiple_of(BLOCK_ROWS)
    }
}

/// Whether rows that follow each other may be worked on as one, if each begins where the one before
/// ends in the product, too, and how many elements of them at a time.
fn joins(code: &Code) -> Option<usize> {
    let Tiling::Wide { columns: width } = code.tiling else {
        return None;
    };
    let [phase] = &code.phases[..] else {
        return None;
    };
    let by_elements = code.sums.is_empty()
        && code.folds.is_empty()
        && phase.row.is_empty()
        && code.last.is_empty()
        && phase
            .column
            .iter()
            .all(|step| matches!(step.work, Work::Vector(..) | Work::Fused { .. }));
    let follow = code.walks.iter().all(|walk| {
        let steps = [walk.strides.last().copied(), Some(walk.column_stride)];
        steps == [Some(0); 2] || steps == [Some(code.columns), Some(1)]
    });
    let moves = |origin: &Origin| matches!(origin, Origin::ScratchRow(_) | Origin::Cell(_));
    if !by_elements || !follow || code.slots.iter().any(moves) {
        return None;
    }
    let scratch = |slot: &Slot| matches!(code.slots[usize::from(*slot)], Origin::Scratch(_));
    let uses_scratch = phase.column.iter().any(|step| {
        let slots = [step.to, step.from[0], step.from[1], step.from[2]];
        // One loop of several steps has slots of its own.
        let fused = match step.work {
            Work::Fused { number, .. } => Some(&code.fused[number]),
            _ => None,
        };
        let in_loop = |fused: &Arc<Fused>| fused.reads.iter().chain(&fused.writes).any(scratch);
        slots.iter().any(scratch) || fused.is_some_and(in_loop)
    });
    let most = if uses_scratch { width } else { usize::MAX };
    (most >= code.columns).then_some(most)
}

impl LoopProgram {
    /// For an epilogue of products of so many rows.
    pub(super) fn for_tiles(code: Code, workers: usize, product_rows: usize) -> Self {
        let products = code.rows.checked_div(product_rows).unwrap_or(0);
        let blocks = Blocks {
            rows: product_rows.max(1),
            count: products * product_rows.div_ceil(BLOCK_ROWS),
        };
        let joins = joins(&code);
        let mut program = Self::new(code, workers);
        program.blocks = blocks;
        program.joins = joins;
        program
    }

    /// Floats for the sums of all blocks.
    pub(super) fn block_elements(&self) -> usize {
        self.code.sums.len() * self.blocks.count * self.code.columns
    }

    /// Whether the columns of a row may be worked on apart from each other: values are, and
    /// sums are those of each column.
    pub(in super::super) fn columns_apart(&self) -> bool {
        let mut sums = self.code.sums.iter();
        !self.code.reduces()
            && !self.code.rows_stay_whole
            && sums.all(|sum| {
                let by_column = matches!(sum.pending, Pending::Row(_));
                by_column && sum.strides.iter().all(|&stride| stride == 0)
            })
    }

    /// Whether an epilogue adds up columns, for which tiles must not cross blocks of
    /// [`BLOCK_ROWS`].
    pub(in super::super) fn adds_up(&self) -> bool {
        !self.code.sums.is_empty()
    }

    /// Runs an epilogue on a tile of the product: some rows and columns, the first of its
    /// rows at `product`, the next `stride` floats further.
    ///
    /// # Safety
    /// As for `run`, but that other workers may run the same on other tiles; the tile is
    /// there, and the columns are apart.
    pub(in super::super) unsafe fn run_tile(
        &self,
        worker: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        product: *mut f32,
        stride: usize,
    ) {
        let Tiling::Wide { columns: width } = self.code.tiling else {
            return;
        };
        // SAFETY: the caller's promise.
        unsafe {
            let state = &mut *self.frames[worker].0.get();
            if let (Some(most), true) = (self.joins, stride == columns.len())
                && columns == (0..self.code.columns)
            {
                return self.run_joined(state, rows, product, most);
            }
            self.begin_block(state, rows.start, &columns);
            // Tiles that are no wider than a chunk move from row to row as a whole.
            let whole = columns.len() <= width;
            let range = (columns.start, columns.end);
            let mut tile = Tile {
                rows: 1,
                columns: columns.len(),
                first_column: columns.start,
                range,
            };
            for (number, row) in rows.clone().enumerate() {
                if !whole || number == 0 || !self.step_row(state) {
                    self.enter_row(state, row);
                    if whole {
                        self.move_to(state, columns.start);
                    }
                }
                let product = product.add(number * stride);
                state.table[usize::from(self.code.product)] = product;
                for phase in &self.code.phases {
                    self.execute(state, &phase.row, &tile, 1);
                    if whole {
                        self.execute(state, &phase.column, &tile, tile.columns);
                        continue;
                    }
                    for first in columns.clone().step_by(width) {
                        tile.first_column = first;
                        tile.columns = width.min(columns.end - first);
                        self.move_to(state, first);
                        state.table[usize::from(self.code.product)] =
                            product.add(first - columns.start);
                        self.execute(state, &phase.column, &tile, tile.columns);
                    }
                }
                if columns.start == 0 {
                    self.execute(state, &self.code.last, &tile, 1);
                }
            }
            self.end_block(state, rows.end, &columns);
        }
    }

    /// Runs an epilogue on whole rows that follow each other everywhere, so many elements in one go.
    ///
    /// # Safety
    /// As for `run_tile`; rows may be joined.
    unsafe fn run_joined(
        &self,
        state: &mut State,
        rows: Range<usize>,
        product: *mut f32,
        most: usize,
    ) {
        let columns = self.code.columns;
        let tile = Tile {
            rows: 1,
            columns,
            first_column: 0,
            range: (0, columns),
        };
        let length = self.code.outer.last().copied().unwrap_or(1);
        let mut row = rows.start;
        while row < rows.end {
            let count = (rows.end - row).min(length - row % length);
            let count = count.min(most / columns);
            self.enter_row(state, row);
            let product = product.wrapping_add((row - rows.start) * columns);
            state.table[usize::from(self.code.product)] = product;
            for phase in &self.code.phases {
                // SAFETY: the caller's promise.
                unsafe { self.execute(state, &phase.column, &tile, count * columns) };
            }
            row += count;
        }
    }

    /// Lists where the memory of some rows begins that a tile reads or writes along its
    /// columns.
    pub(in super::super) fn soon(&self, rows: Range<usize>, column: usize, list: &mut Vec<Soon>) {
        let once =
            |walk: &&Walk| walk.column_stride == 1 && !walk.again && walk.element == Element::Float;
        for walk in self.code.walks.iter().filter(once) {
            if walk.strides.iter().all(|&stride| stride == 0) {
                continue;
            }
            let at = |row: usize| row_address(&self.code.outer, &walk.strides, row);
            let soon = |address: usize| Soon {
                from: walk.at(column + address),
                written: walk.written,
            };
            match walk.strides[..] {
                [stride] => list.extend(rows.clone().map(|row| soon(row * stride))),
                _ => list.extend(rows.clone().map(|row| soon(at(row)))),
            }
        }
    }

    /// Empties the sums of some columns where a tile is the first of its block.
    unsafe fn begin_block(&self, state: &mut State, row: usize, columns: &Range<usize>) {
        if self.code.sums.is_empty() || !self.blocks.begins(row) {
            return;
        }
        for sum in &self.code.sums {
            if let Pending::Row(room) = sum.pending {
                // SAFETY: the scratch row has room for all columns.
                unsafe {
                    let to = state.scratch.add(room + columns.start);
                    fill(to, columns.len(), sum.combine.identity());
                }
            }
        }
    }

    /// Keeps the sums of some columns where a tile is the last of its block.
    unsafe fn end_block(&self, state: &mut State, row: usize, columns: &Range<usize>) {
        if self.code.sums.is_empty() || row == 0 || !self.blocks.begins(row) {
            return;
        }
        let block = self.blocks.of(row - 1);
        for (index, sum) in self.code.sums.iter().enumerate() {
            if let Pending::Row(room) = sum.pending {
                let at = index * self.blocks.count + block;
                // SAFETY: the scratch row and the block's sums have room for all columns, and
                // nobody else has this block of these columns.
                unsafe {
                    let from = state.scratch.add(room + columns.start);
                    let to = self.partials.add(at * self.code.columns + columns.start);
                    to.copy_from_nonoverlapping(from, columns.len());
                }
            }
        }
    }

    /// Combines the sums of all blocks, in order.
    ///
    /// # Safety
    /// As for `run`; tiles have covered the whole product.
    pub(in super::super) unsafe fn add_blocks(&self, pool: &Pool) {
        let columns = self.code.columns;
        let sums = self.code.sums.len();
        if sums == 0 {
            return;
        }
        let numbers = self.block_elements();
        let most = columns.div_ceil(CHUNK).max(1);
        let tasks = if numbers < WORTH_SHARING { 1 } else { most };
        pool.run(tasks, |task, _| {
            let chosen = share(columns, tasks, task);
            for first in chosen.clone().step_by(CHUNK) {
                let part = first..chosen.end.min(first + CHUNK);
                // SAFETY: the caller's promise; tasks have columns of their own.
                (0..sums).for_each(|sum| unsafe { self.add_columns(sum, part.clone()) });
            }
        });
    }

    unsafe fn add_columns(&self, index: usize, columns: Range<usize>) {
        let sum = &self.code.sums[index];
        let mut totals = [f64::from(sum.combine.identity()); CHUNK];
        for block in 0..self.blocks.count {
            let at = (index * self.blocks.count + block) * self.code.columns + columns.start;
            for (offset, total) in totals[..columns.len()].iter_mut().enumerate() {
                // SAFETY: each block has a number for each column.
                let part = unsafe { self.partials.add(at + offset).read() };
                *total = combine(sum.combine, *total, f64::from(part));
            }
        }
        for (column, total) in columns.zip(totals) {
            // SAFETY: the result's addresses were checked.
            unsafe {
                sum.output
                    .add(column * sum.column_stride)
                    .write(total as f32)
            };
        }
    }
}
