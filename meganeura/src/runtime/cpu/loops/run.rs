//! Running compiled kernels.

use std::cell::UnsafeCell;
use std::ops::Range;

use super::super::memory::Element;
use super::super::pool::Pool;
use super::super::vector::Rows;
use super::grid::Grid;
use super::moves::{
    Odometer, ROW, ROWS, count_from, fetch, fill, fold_one, fold_rows, gather, scatter,
};
use super::own::Own;
use super::program::{Code, LANES, Origin, Phase, Slot, Step, Tiling, Work};
use super::tiles::Blocks;

/// A compiled kernel with room to run in.
pub(in super::super) struct LoopProgram {
    pub(super) code: Code,
    pub(super) grid: Grid,
    /// One for each worker.
    pub(super) frames: Vec<Frame>,
    pub(super) partials: *mut f32,
    pub(super) stages: UnsafeCell<Stages>,
    /// Where an epilogue's sums over rows gather.
    pub(super) blocks: Blocks,
    /// How many elements of an epilogue's rows may be worked on as one row, if rows follow each
    /// other.
    pub(super) joins: Option<usize>,
}

/// Reductions of a row whose columns are shared among tasks.
pub(super) struct Stages {
    /// For each task and double, its part.
    pub(super) parts: Vec<f64>,
    /// All parts of each double.
    pub(super) whole: Vec<f64>,
}

/// What a worker has for itself.
pub(super) struct Frame(pub(super) UnsafeCell<State>);

// SAFETY: no two tasks run with one worker index at a time, and a task uses only the frame
// of its worker. The pointers are plain addresses.
unsafe impl Sync for LoopProgram {}
// SAFETY: as above.
unsafe impl Send for LoopProgram {}

pub(super) struct State {
    /// What the slots point to.
    pub(super) table: Own<*mut f32>,
    pub(super) scratch: *mut f32,
    pub(super) cells: Own<f64>,
    /// The row's index along each outer axis.
    pub(super) index: Own<usize>,
    /// Each walk at the start of the row.
    pub(super) starts: Own<*mut f32>,
    /// For each walk, the element at the start of each row of the tile, and of the next.
    pub(super) listed: Vec<Own<usize>>,
    /// The rows of the next tile, as far as they are listed.
    pub(super) next: Range<usize>,
    pub(super) pending: Own<PendingState>,
}

/// Which result a worker's pending sum belongs to.
#[derive(Clone, Copy)]
pub(super) struct PendingState {
    pub(super) address: usize,
    /// Rows in it.
    pub(super) rows: usize,
    pub(super) target: *mut f32,
}

/// The tile that steps work on.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) rows: usize,
    /// Of each row.
    pub(super) columns: usize,
    pub(super) first_column: usize,
    /// The columns of the task.
    pub(super) range: (usize, usize),
}

impl Tile {
    /// A row, before any of its columns.
    pub(super) fn row(range: (usize, usize)) -> Self {
        Tile {
            rows: 1,
            columns: 0,
            first_column: 0,
            range,
        }
    }
}

impl LoopProgram {
    pub(super) fn new(code: Code, workers: usize) -> Self {
        let state = || State {
            table: Own::filled(std::ptr::null_mut(), code.slots.len()),
            scratch: std::ptr::null_mut(),
            cells: Own::from_fn(code.cells.len(), |cell| code.cells[cell]),
            index: Own::filled(0, code.outer.len()),
            starts: Own::filled(std::ptr::null_mut(), code.walks.len()),
            listed: code
                .walks
                .iter()
                .map(|walk| Own::filled(0, if walk.listed { 2 * code.tile_rows() } else { 0 }))
                .collect(),
            next: 0..0,
            pending: Own::filled(
                PendingState {
                    address: 0,
                    rows: 0,
                    target: std::ptr::null_mut(),
                },
                code.sums.len(),
            ),
        };
        let grid = Grid::new(&code);
        let parts = if code.staged {
            grid.tasks() * code.cells.len()
        } else {
            0
        };
        Self {
            stages: UnsafeCell::new(Stages {
                parts: vec![0.0; parts],
                whole: code.cells.clone(),
            }),
            grid,
            frames: (0..workers)
                .map(|_| Frame(UnsafeCell::new(state())))
                .collect(),
            code,
            partials: std::ptr::null_mut(),
            blocks: Blocks::default(),
            joins: None,
        }
    }

    /// Floats of scratch memory for each worker.
    pub(in super::super) fn scratch_elements(&self) -> usize {
        self.code.scratch
    }

    /// Floats of memory shared by the workers.
    pub(in super::super) fn shared_elements(&self) -> usize {
        self.grid.partial_elements.max(self.block_elements())
    }

    /// Gives the program its memory: as many floats as it said, for each worker and shared.
    pub(in super::super) fn bind(&mut self, scratch: &[*mut f32], shared: *mut f32) {
        self.partials = shared;
        for (frame, &scratch) in self.frames.iter_mut().zip(scratch) {
            let state = frame.0.get_mut();
            state.scratch = scratch;
            let cells = state.cells.as_mut_ptr();
            for (pointer, origin) in state.table.iter_mut().zip(&self.code.slots) {
                *pointer = match *origin {
                    Origin::Null | Origin::Walk(_) => std::ptr::null_mut(),
                    Origin::Constant(constant) => {
                        std::ptr::from_ref(&self.code.constants[constant]).cast_mut()
                    }
                    Origin::Scratch(offset) | Origin::ScratchRow(offset) => {
                        scratch.wrapping_add(offset)
                    }
                    Origin::Cell(cell) => cells.wrapping_add(cell).cast(),
                };
            }
        }
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// `bind` was called with memory that is still there, as are the buffers, and nobody
    /// else uses any of it.
    pub(in super::super) unsafe fn run(&self, pool: &Pool) {
        // SAFETY: the caller's promise; the accesses were checked against the buffers, and
        // different tasks write different elements.
        unsafe {
            self.clear();
            let tasks = self.grid.tasks();
            if self.code.staged {
                self.run_stages(pool);
            } else {
                pool.run(tasks, |task, worker| self.task(task, worker));
            }
            self.merge();
        }
    }

    /// Runs one task with a worker's frame.
    fn task(&self, task: usize, worker: usize) {
        let (rows, chunks) = self.grid.task(task);
        // SAFETY: the worker's frame is this task's alone; memory and accesses are as
        // `run`'s caller promised.
        unsafe {
            let state = &mut *self.frames[worker].0.get();
            let range = self.column_range(&chunks);
            self.begin_sums(state, task, range);
            match self.code.tiling {
                Tiling::Wide { columns } => {
                    let mut entered = false;
                    for row in rows {
                        if !entered || !self.follow_row(state) {
                            self.enter_row(state, row);
                            entered = true;
                        }
                        self.row(state, &chunks, columns, range);
                    }
                }
                Tiling::Narrow { rows: height } => {
                    for first in rows.clone().step_by(height) {
                        let count = height.min(rows.end - first);
                        self.tile(state, first, count, rows.end);
                    }
                }
            }
            for index in 0..self.code.sums.len() {
                self.flush(state, index, range);
            }
        }
    }

    pub(super) fn column_range(&self, chunks: &Range<usize>) -> (usize, usize) {
        match self.code.tiling {
            Tiling::Wide { columns } => (
                chunks.start * columns,
                (chunks.end * columns).min(self.code.columns),
            ),
            Tiling::Narrow { .. } => (0, self.code.columns),
        }
    }

    /// All phases of the row that everything points at.
    unsafe fn row(
        &self,
        state: &mut State,
        chunks: &Range<usize>,
        width: usize,
        range: (usize, usize),
    ) {
        let code = &self.code;
        let mut tile = Tile::row(range);
        // SAFETY: the caller's promise.
        unsafe {
            self.advance_sums(state, range);
            for (number, phase) in code.phases.iter().enumerate() {
                self.execute(state, &phase.row, &tile, 1);
                if phase.column.is_empty() {
                    continue;
                }
                for chunk in chunks.clone() {
                    tile.first_column = chunk * width;
                    tile.columns = width.min(code.columns - tile.first_column);
                    if code.chunks() > 1 {
                        self.move_to(state, tile.first_column);
                    } else {
                        self.fetch_next_row(state, number);
                    }
                    self.execute(state, &phase.column, &tile, tile.columns);
                }
            }
            if chunks.start == 0 {
                self.execute(state, &code.last, &tile, 1);
            }
        }
    }

    /// All phases of a few short rows.
    unsafe fn tile(&self, state: &mut State, first: usize, rows: usize, end: usize) {
        let code = &self.code;
        self.enter_tile(state, first, rows, end);
        let tile = Tile {
            rows,
            columns: code.columns,
            first_column: 0,
            range: (0, code.columns),
        };
        // SAFETY: the caller's promise.
        unsafe {
            for Phase { row, column } in &code.phases {
                self.execute(state, row, &tile, rows);
                self.execute(state, column, &tile, rows * code.columns);
            }
            self.execute(state, &code.last, &tile, rows);
        }
    }

    /// Runs steps over `count` elements.
    pub(super) unsafe fn execute(
        &self,
        state: &mut State,
        steps: &[Step],
        tile: &Tile,
        count: usize,
    ) {
        for step in steps {
            let at = |slot: Slot| state.table[usize::from(slot)];
            let (to, [a, b, c]) = (at(step.to), step.from.map(at));
            // SAFETY: the slots were laid out for these steps and this many elements.
            unsafe {
                match step.work {
                    Work::Vector(work, _) => work(to, a, b, c, count),
                    Work::Fused { number, .. } => self.code.fused[number].run(&state.table, count),
                    _ => self.execute_rare(state, step, tile, count),
                }
            }
        }
    }

    /// The steps that are not a plain loop over vectors.
    #[inline(never)]
    unsafe fn execute_rare(&self, state: &mut State, step: &Step, tile: &Tile, count: usize) {
        let to = state.table[usize::from(step.to)];
        let a = state.table[usize::from(step.from[0])];
        // SAFETY: as for `execute`.
        unsafe {
            match step.work {
                Work::Vector(..) | Work::Fused { .. } => {}
                Work::Fetch { walk, ahead } => {
                    let from = a.wrapping_add(ahead);
                    let floats = count * self.code.walks[walk].column_stride;
                    fetch(from, from.wrapping_add(floats));
                }
                Work::Gather {
                    stride,
                    element: Element::Float,
                } => (self.code.moves.gather)(to, &Rows::one(a, count, stride)),
                Work::Gather { stride, element } => gather(to, a, count, stride, element),
                Work::Scatter {
                    stride,
                    element: Element::Float,
                    splat: false,
                } => (self.code.moves.scatter)(a, &Rows::one(to, count, stride)),
                Work::Scatter {
                    stride,
                    element,
                    splat,
                } => scatter(to, a, count, stride, element, splat),
                Work::Columns => {
                    for row in 0..tile.rows {
                        let to = to.add(row * tile.columns);
                        let to = std::slice::from_raw_parts_mut(to, tile.columns);
                        count_from(tile.first_column, to);
                    }
                }
                Work::FirstColumns => {
                    count_from(tile.first_column, std::slice::from_raw_parts_mut(to, LANES));
                }
                Work::OuterIndex(axis) => self.outer_index(state, to, axis, tile.rows),
                Work::Finish(how) => {
                    let cell = a.cast::<f64>();
                    to.write(cell.read() as f32);
                    cell.write(f64::from(how.identity()));
                }
                Work::Expand => {
                    for row in 0..tile.rows {
                        fill(to.add(row * tile.columns), tile.columns, a.add(row).read());
                    }
                }
                Work::FoldRows(how, fold) => {
                    let mut row = 0;
                    if tile.columns < ROW {
                        while row + ROWS <= tile.rows {
                            let from = a.add(row * tile.columns);
                            fold_rows(how, from, tile.columns, to.add(row));
                            row += ROWS;
                        }
                    }
                    for row in row..tile.rows {
                        let from = a.add(row * tile.columns);
                        to.add(row).write(fold_one(how, fold, from, tile.columns));
                    }
                }
                Work::GatherRows {
                    walk,
                    stride,
                    element,
                    full,
                } => {
                    let columns = if full { tile.columns } else { 1 };
                    let (starts, next) = self.listed(state, walk, tile);
                    let walk = &self.code.walks[walk];
                    if element == Element::Float {
                        let rows = Rows {
                            base: walk.base,
                            starts,
                            next,
                            columns,
                            stride,
                            roomy: full,
                        };
                        return (self.code.moves.gather)(to, &rows);
                    }
                    for (row, &start) in starts.iter().enumerate() {
                        let (to, from) = (to.add(row * columns), walk.at(start));
                        if element == Element::Half && stride == 1 {
                            let null = std::ptr::null();
                            (self.code.halves.widen)(to, from, null, null, columns);
                        } else {
                            gather(to, from, columns, stride, element);
                        }
                    }
                }
                Work::Repeat { period } => {
                    let row = Rows::one(a, period, 1);
                    (self.code.moves.repeat)(to, &row, self.code.columns / period);
                }
                Work::RepeatRows { walk, period } => {
                    let (starts, next) = self.listed(state, walk, tile);
                    let rows = Rows {
                        base: self.code.walks[walk].base,
                        starts,
                        next,
                        columns: period,
                        stride: 1,
                        roomy: false,
                    };
                    (self.code.moves.repeat)(to, &rows, tile.columns / period);
                }
                Work::ScatterRows {
                    walk,
                    stride,
                    element,
                    full,
                    splat,
                } => {
                    let columns = if full { tile.columns } else { 1 };
                    let (starts, next) = self.listed(state, walk, tile);
                    let walk = &self.code.walks[walk];
                    if element == Element::Float && !splat {
                        let rows = Rows {
                            base: walk.base,
                            starts,
                            next,
                            columns,
                            stride,
                            roomy: false,
                        };
                        return (self.code.moves.scatter)(a, &rows);
                    }
                    for (row, &start) in starts.iter().enumerate() {
                        let to = walk.at(start);
                        let from = if splat { a } else { a.add(row * columns) };
                        if element == Element::Half && stride == 1 && !splat {
                            let null = std::ptr::null();
                            (self.code.halves.round)(to, from, null, null, columns);
                        } else {
                            scatter(to, from, columns, stride, element, splat);
                        }
                    }
                }
                Work::GatherPairs(walk) => {
                    let row = state.table[usize::from(step.from[1])];
                    let rows = self.pairs_of(state, walk, tile, row);
                    (self.code.moves.gather_pairs)(to, a, &rows);
                }
                Work::ScatterPairs(walk) => {
                    let odd = state.table[usize::from(step.from[1])];
                    let rows = self.pairs_of(state, walk, tile, to);
                    (self.code.moves.scatter_pairs)(a, odd, &rows);
                }
                Work::Accumulate { sum, shape, fold } => {
                    self.accumulate(state, sum, shape, fold, a, tile, count);
                }
            }
        }
    }

    unsafe fn outer_index(&self, state: &mut State, to: *mut f32, axis: usize, rows: usize) {
        let mut index = state.index.to_vec();
        let mut index = Odometer::new(&self.code.outer, &mut index);
        for row in 0..rows {
            // SAFETY: there is a float for each row.
            unsafe { to.add(row).write(index.index[axis] as f32) };
            index.advance();
        }
    }
}
