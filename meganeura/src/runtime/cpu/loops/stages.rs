//! Few and long rows: all tasks share the columns of one row, phase by phase.

use super::super::pool::Pool;
use super::super::vector::combine;
use super::program::Tiling;
use super::run::{LoopProgram, Tile};

impl LoopProgram {
    /// Runs every phase of every row.
    ///
    /// # Safety
    /// As for `run`.
    pub(super) unsafe fn run_stages(&self, pool: &Pool) {
        let tasks = self.grid.tasks();
        for row in 0..self.code.rows {
            for (number, phase) in self.code.phases.iter().enumerate() {
                if phase.column.is_empty() {
                    continue;
                }
                // SAFETY: the caller's promise; a task has columns and parts of its own.
                pool.run(tasks, |task, worker| unsafe {
                    self.stage(row, number, task, worker);
                });
                // SAFETY: no task runs.
                unsafe { self.join(number) };
            }
            // SAFETY: no task runs.
            unsafe { self.end_row(row) };
        }
    }

    /// One phase of a task's columns.
    unsafe fn stage(&self, row: usize, number: usize, task: usize, worker: usize) {
        let Tiling::Wide { columns: width } = self.code.tiling else {
            return;
        };
        let (_, chunks) = self.grid.task(task);
        let range = self.column_range(&chunks);
        // SAFETY: the worker's frame and the task's parts are this call's alone.
        unsafe {
            let state = &mut *self.frames[worker].0.get();
            self.begin_sums(state, task, range);
            self.enter_row(state, row);
            let mut tile = Tile::row(range);
            self.advance_sums(state, range);
            self.row_steps(state, &tile, number);
            for chunk in chunks {
                tile.first_column = chunk * width;
                tile.columns = width.min(self.code.columns - tile.first_column);
                self.move_to(state, tile.first_column);
                let steps = &self.code.phases[number].column;
                self.execute(state, steps, &tile, tile.columns);
            }
            let parts = (*self.stages.get()).parts.as_mut_ptr();
            for fold in self.code.folds.iter().filter(|fold| fold.phase == number) {
                let part = parts.add(task * self.code.cells.len() + fold.cell);
                part.write(state.cells[fold.cell]);
                state.cells[fold.cell] = f64::from(fold.combine.identity());
            }
            for index in 0..self.code.sums.len() {
                self.flush(state, index, range);
            }
        }
    }

    /// The row steps up to a phase, from the reductions before it.
    unsafe fn row_steps(
        &self,
        state: &mut super::run::State,
        tile: &super::run::Tile,
        number: usize,
    ) {
        // SAFETY: nobody writes to the whole reductions meanwhile.
        unsafe {
            let whole = &(*self.stages.get()).whole;
            for fold in &self.code.folds {
                if fold.phase < number {
                    state.cells[fold.cell] = whole[fold.cell];
                }
            }
            for phase in &self.code.phases[..=number] {
                self.execute(state, &phase.row, tile, 1);
            }
        }
    }

    /// Joins the parts of a phase's reductions, in order.
    unsafe fn join(&self, number: usize) {
        // SAFETY: no task runs.
        let stages = unsafe { &mut *self.stages.get() };
        let cells = self.code.cells.len();
        for fold in self.code.folds.iter().filter(|fold| fold.phase == number) {
            let parts = stages.parts.chunks_exact(cells).map(|part| part[fold.cell]);
            let start = f64::from(fold.combine.identity());
            stages.whole[fold.cell] = parts.fold(start, |a, b| combine(fold.combine, a, b));
        }
    }

    /// What is left to do once the reductions of a row are known.
    unsafe fn end_row(&self, row: usize) {
        // SAFETY: no task runs.
        unsafe {
            let state = &mut *self.frames[0].0.get();
            self.begin_sums(state, 0, (0, 0));
            self.enter_row(state, row);
            let tile = Tile::row((0, 0));
            self.row_steps(state, &tile, self.code.phases.len() - 1);
            self.execute(state, &self.code.last, &tile, 1);
            for index in 0..self.code.sums.len() {
                self.flush(state, index, (0, 0));
            }
        }
    }
}
