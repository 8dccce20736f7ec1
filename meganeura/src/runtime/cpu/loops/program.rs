//! A loop kernel in the form that runs: steps over tiles.

use std::sync::Arc;

use super::super::memory::{Element, Region};
use super::super::vector::machine::Fused;
use super::super::vector::{Form, RowMoves, VectorFn};
use crate::ir::Combine;

/// An entry of the table of pointers that steps index.
pub(super) type Slot = u16;

/// The slot that no step reads or writes.
pub(super) const NO_SLOT: Slot = 0;

/// Lanes of a vector of the loops in machine code.
pub(super) const LANES: usize = 16;

/// One step over a tile (or over the rows of a tile).
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) work: Work,
    /// Where the result goes.
    pub(super) to: Slot,
    /// The operands.
    pub(super) from: [Slot; 3],
}

/// What a step does. `n` is the number of elements: of columns times rows in a tile, or of
/// rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A loop over n elements.
    Vector(VectorFn, Form),
    /// So many loops in one.
    Fused { number: usize, steps: usize },
    /// Asks for the next row of a walk, for so many elements ahead.
    Fetch { walk: usize, ahead: usize },
    /// n elements, this many apart, made dense floats.
    Gather { stride: usize, element: Element },
    /// The opposite; a splat is repeated.
    Scatter {
        stride: usize,
        element: Element,
        splat: bool,
    },
    /// The index of each column. A loop in machine code counts on from those of
    /// `FirstColumns`, which are the first operand then.
    Columns,
    /// The indices of the first [`LANES`] columns.
    FirstColumns,
    /// The index of the row, or of each row of the tile, along an axis.
    OuterIndex(usize),
    /// The double of a fold as a float; the double starts anew.
    Finish(Combine),
    /// One float of each row repeated for each of its columns.
    Expand,
    /// The columns of each row combined.
    FoldRows(Combine, VectorFn),
    /// The elements of each row of a walk made dense; of one column if it is not `full`.
    GatherRows {
        walk: usize,
        stride: usize,
        element: Element,
        full: bool,
    },
    /// So many floats again and again for all columns of a row.
    Repeat { period: usize },
    /// So many floats of each row of a walk, again and again for all columns.
    RepeatRows { walk: usize, period: usize },
    /// The opposite of `GatherRows`.
    ScatterRows {
        walk: usize,
        stride: usize,
        element: Element,
        full: bool,
        splat: bool,
    },
    /// Rows of two walks that take turns in memory, the first of which is this one, made dense
    /// apart: in `to` and in the first of `from`. The second is the slot of the walk.
    GatherPairs(usize),
    /// The opposite, from the first two of `from`; `to` is the slot of the walk.
    ScatterPairs(usize),
    /// Adds to an accumulate, row by row. The float of a row or of the tile may stand for
    /// all its columns.
    Accumulate {
        sum: usize,
        shape: Shape,
        fold: VectorFn,
    },
}

/// How many floats a value has in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One for each row and column.
    Full,
    /// One for each row.
    Row,
    /// One.
    Uniform,
}

/// Steps between two barriers of a row: first those on rows, then those on its columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase {
    pub(super) row: Vec<Step>,
    pub(super) column: Vec<Step>,
}

/// What a slot points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Nothing.
    Null,
    /// A constant.
    Constant(usize),
    /// The worker's scratch memory at this element.
    Scratch(usize),
    /// The same, moving along with the columns.
    ScratchRow(usize),
    /// A buffer, moving along with rows and columns.
    Walk(usize),
    /// A double of the worker.
    Cell(usize),
}

/// A pointer into a buffer that follows rows and columns.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub(super) slot: Slot,
    /// Row 0, column 0.
    pub(super) base: *mut f32,
    pub(super) element: Element,
    /// The buffer.
    pub(super) region: Region,
    /// Elements to step for each outer axis.
    pub(super) strides: Vec<usize>,
    /// Elements to step for each column.
    pub(super) column_stride: usize,
    /// Whether the address of every row of a tile is listed.
    pub(super) listed: bool,
    /// Elements to the next row where rows are dense and differ: worth fetching ahead.
    pub(super) ahead: Option<usize>,
    /// Whether another one before it goes the same way.
    pub(super) again: bool,
    /// Whether this or another one that goes the same way is written to.
    pub(super) written: bool,
}

impl Walk {
    /// The address of an element, so many after row 0, column 0.
    pub(super) fn at(&self, elements: usize) -> *mut f32 {
        self.element.step(self.base, elements)
    }

    /// Elements from a row to the next along the last outer axis.
    #[inline]
    pub(super) fn along(&self) -> usize {
        self.strides.last().copied().unwrap_or(0)
    }
}

/// An accumulate.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub(super) combine: Combine,
    pub(super) strides: Vec<usize>,
    pub(super) column_stride: usize,
    /// The result at row 0, column 0.
    pub(super) output: *mut f32,
    /// Elements from the first of the result to its last.
    pub(super) span: usize,
    /// Where a worker keeps what it has not yet added to the result.
    pub(super) pending: Pending,
    /// The elementwise combination, stream with stream.
    pub(super) merge: VectorFn,
}

/// What a worker has not yet added to a result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    /// A row of floats in scratch memory: each column has a result of its own.
    Row(usize),
    /// A double for each column (of a short row), from this one on.
    Columns(usize),
    /// A double: all columns have one result.
    Cell(usize),
}

/// A reduction of a single row into a double.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub(super) cell: usize,
    /// When it happens.
    pub(super) phase: usize,
    pub(super) combine: Combine,
}

/// How the domain is cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tiling {
    /// One row at a time, this many columns at a time.
    Wide { columns: usize },
    /// This many rows at a time, all columns.
    Narrow { rows: usize },
}

/// Rows of halves, side by side, to floats and back.
#[derive(Clone, Copy, Debug)]
pub(super) struct HalfMoves {
    pub(super) widen: VectorFn,
    pub(super) round: VectorFn,
}

/// The compiled steps and everything they refer to.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) outer: Vec<usize>,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) tiling: Tiling,
    pub(super) phases: Vec<Phase>,
    /// Steps on rows once all phases are over.
    pub(super) last: Vec<Step>,
    pub(super) slots: Vec<Origin>,
    pub(super) walks: Vec<Walk>,
    pub(super) sums: Vec<Sum>,
    pub(super) constants: Vec<f32>,
    /// Steps that are one loop.
    pub(super) fused: Vec<Arc<Fused>>,
    /// The value each double starts from.
    pub(super) cells: Vec<f64>,
    /// The reductions of single rows.
    pub(super) folds: Vec<Fold>,
    /// Whether the columns of a row are shared among tasks in every phase, since there are
    /// few rows, but long ones.
    pub(super) staged: bool,
    /// What points to the product of a contraction.
    pub(super) product: Slot,
    /// Floats of scratch memory that a worker needs.
    pub(super) scratch: usize,
    /// Whether a row store may be read as a row load by other columns of the row.
    pub(super) rows_stay_whole: bool,
    /// How rows of a tile go from memory and back.
    pub(super) moves: RowMoves,
    /// How they do where memory holds halves.
    pub(super) halves: HalfMoves,
}

// SAFETY: the pointers are plain addresses; the executor sees to it that they are valid and
// that no two tasks write the same element.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// Pieces that a row is cut into.
    pub(super) fn chunks(&self) -> usize {
        match self.tiling {
            Tiling::Wide { columns } => self.columns.div_ceil(columns),
            Tiling::Narrow { .. } => usize::from(self.columns > 0),
        }
    }

    /// Whether a row is one tile, whose steps happen once.
    pub(super) fn rows_are_tiles(&self) -> bool {
        matches!(self.tiling, Tiling::Wide { .. }) && self.chunks() == 1 && !self.staged
    }

    /// Rows of a tile.
    pub(super) fn tile_rows(&self) -> usize {
        match self.tiling {
            Tiling::Wide { .. } => 1,
            Tiling::Narrow { rows } => rows,
        }
    }

    /// Whether a phase must be complete before another begins.
    pub(super) fn reduces(&self) -> bool {
        self.phases.len() > 1
    }
}
