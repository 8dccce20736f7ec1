//! How the rows and columns of a kernel are shared out. Everything here depends on the
//! kernel only, never on the number of threads, so that neither do the results.

use std::ops::Range;

use super::super::memory::Element;
use super::program::{Code, Pending, Tiling, Work};

/// Nanoseconds of work that are worth a task of their own.
const TASK: f64 = 15_000.0;
/// More tasks than this only cost.
const TASKS: usize = 64;

/// The tasks: a rectangle of rows and columns each.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) row_tasks: usize,
    pub(super) column_tasks: usize,
    /// Rows that must stay in one task.
    unit: usize,
    rows: usize,
    chunks: usize,
    /// For each accumulate, the floats of partial results, or none where a task has the
    /// results it adds to for itself.
    pub(super) partials: Vec<Option<Partials>>,
    /// Floats for all partial results.
    pub(super) partial_elements: usize,
}

/// The partial results of an accumulate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partials {
    /// The first.
    pub(super) start: usize,
    /// How many there are of them.
    pub(super) copies: usize,
    /// Whether each task has one, or each range of rows.
    pub(super) by_task: bool,
}

impl Grid {
    /// Shares out a kernel.
    pub(super) fn new(code: &Code) -> Self {
        let tasks = ((cost(code) / TASK) as usize).clamp(1, TASKS);
        let mut grid = Grid {
            row_tasks: 1,
            column_tasks: 1,
            unit: code.tile_rows(),
            rows: code.rows,
            chunks: code.chunks(),
            partials: Vec::new(),
            partial_elements: 0,
        };
        let wide = matches!(code.tiling, Tiling::Wide { .. });
        let columns_apart = wide && !code.reduces() && !code.rows_stay_whole;
        let cells = code
            .sums
            .iter()
            .any(|sum| matches!(sum.pending, Pending::Cell(_)));
        let group = rows_of_one_address(code);
        if code.staged {
            grid.column_tasks = tasks.min(grid.chunks).max(1);
        } else if columns_apart && !code.sums.is_empty() && !cells && grid.chunks >= tasks.min(8) {
            grid.column_tasks = tasks.min(grid.chunks);
        } else if wide && !code.sums.is_empty() && code.rows / group >= tasks.min(16) {
            grid.unit = group;
            grid.row_tasks = tasks.min(code.rows / group);
        } else if !code.sums.is_empty() {
            let span: usize = code.sums.iter().map(|sum| sum.span).sum();
            let room = (code.rows * code.columns / 8).max(1 << 16);
            let most = (room / span.max(1)).max(1);
            grid.row_tasks = tasks.min(grid.units()).min(most).max(1);
            if columns_apart && code.rows == 1 {
                grid.column_tasks = tasks.min(grid.chunks).min(most).max(1);
            }
        } else {
            grid.row_tasks = tasks.min(grid.units()).max(1);
            if columns_apart && grid.row_tasks < tasks {
                let share = tasks.div_ceil(grid.row_tasks);
                grid.column_tasks = share.min(grid.chunks).max(1);
            }
        }
        grid.place_partials(code, group);
        grid
    }

    fn units(&self) -> usize {
        self.rows.div_ceil(self.unit)
    }

    fn place_partials(&mut self, code: &Code, group: usize) {
        let whole_groups = self.unit == group && matches!(code.tiling, Tiling::Wide { .. });
        for sum in &code.sums {
            let cell = matches!(sum.pending, Pending::Cell(_));
            let rows_apart = self.row_tasks == 1 || whole_groups;
            let columns_apart = self.column_tasks == 1 || !cell;
            if rows_apart && columns_apart {
                self.partials.push(None);
                continue;
            }
            let copies = if cell { self.tasks() } else { self.row_tasks };
            self.partials.push(Some(Partials {
                start: self.partial_elements,
                copies,
                by_task: cell,
            }));
            self.partial_elements += (copies * sum.span).next_multiple_of(16);
        }
    }

    /// The number of tasks.
    pub(super) fn tasks(&self) -> usize {
        self.row_tasks * self.column_tasks
    }

    /// The rows and the pieces of columns of a task.
    pub(super) fn task(&self, task: usize) -> (Range<usize>, Range<usize>) {
        let units = share(self.units(), self.row_tasks, task / self.column_tasks);
        let chunks = share(self.chunks, self.column_tasks, task % self.column_tasks);
        let rows = units.start * self.unit..(units.end * self.unit).min(self.rows);
        (rows, chunks)
    }
}

/// One of `shares` nearly equal parts of `0..total`.
pub(in super::super) fn share(total: usize, shares: usize, index: usize) -> Range<usize> {
    let at = |index: usize| (total as u128 * index as u128 / shares as u128) as usize;
    at(index)..at(index + 1)
}

/// How many rows in a row share their addresses in every accumulate: all axes behind the
/// leading ones along which nothing is accumulated.
fn rows_of_one_address(code: &Code) -> usize {
    let kept = |axis: &usize| code.sums.iter().all(|sum| sum.strides[*axis] != 0);
    let leading = (0..code.outer.len()).take_while(kept).count();
    let group: usize = code.outer[leading..].iter().product();
    group.max(1)
}

/// About how many nanoseconds a kernel takes on one thread.
fn cost(code: &Code) -> f64 {
    let steps = |all: usize| all as f64 * 5.0;
    let columns = code.phases.iter().flat_map(|phase| &phase.column);
    let element: f64 = columns.clone().map(|step| weight(&step.work)).sum();
    let row_steps = code
        .phases
        .iter()
        .map(|phase| phase.row.len())
        .sum::<usize>();
    let per_row = steps(row_steps + code.last.len() + code.walks.len());
    let per_chunk = steps(columns.count());
    let tiles = (code.rows / code.tile_rows()) as f64;
    (code.rows * code.columns) as f64 * element
        + tiles * (per_row + per_chunk * code.chunks() as f64)
}

/// Nanoseconds for one element of a step.
fn weight(work: &Work) -> f64 {
    match work {
        Work::Vector(..) => 0.08,
        Work::Fetch { .. } => 0.02,
        Work::FirstColumns => 0.0,
        Work::Fused { steps, .. } => 0.03 * *steps as f64,
        Work::Expand | Work::Columns | Work::FoldRows(..) => 0.2,
        Work::Repeat { .. } | Work::RepeatRows { .. } => 0.1,
        Work::GatherPairs(_) | Work::ScatterPairs(_) => 0.3,
        Work::GatherRows {
            stride: ..3,
            element: Element::Float,
            ..
        } => 0.2,
        Work::ScatterRows {
            stride: 1..3,
            element: Element::Float,
            splat: false,
            ..
        } => 0.25,
        _ => 0.6,
    }
}
