//! What is decided before a product is computed: a value, which rules propose.
//!
//! No choice changes which products are added in which order, so results are the same bit by bit
//! whatever is chosen. What would change that (blocks of depth, sums by lanes) depends on sizes
//! and layouts alone and is no choice.

use super::dot;
use super::kernel::Kernels;
use super::prepare;
use super::problem::{Operand, Output, Problem};
use super::split::{self, Costs, Grid};

/// The depth from which on turning the result around does not matter.
const ENOUGH_DEPTH: usize = 256;
/// How much longer a multiply-add takes where each has to fetch an element of A of its own, since there
/// is but one register of columns.
const ALONE: f64 = 1.2;

/// What the place of a result leaves to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::cpu) enum Form {
    /// Memory whose rows are contiguous.
    Rows,
    /// Memory whose columns are: what is computed is the transpose.
    Columns,
    /// Memory that is neither.
    Scattered,
    /// Tiles, which are handed on.
    Tiles,
}

impl Form {
    /// The form of an output.
    pub fn of(output: &Output<'_>) -> Self {
        match output {
            Output::Tiles(_) => Form::Tiles,
            Output::Store(target) | Output::Add(target) => Form::of_memory(target.strides),
        }
    }

    /// The form of memory with these strides of rows and columns.
    pub fn of_memory(strides: [usize; 2]) -> Self {
        match strides {
            [_, 1] => Form::Rows,
            [1, _] => Form::Columns,
            _ => Form::Scattered,
        }
    }

    /// The form that a problem leaves of an output: folded, results come as tiles.
    pub fn of_problem(self, problem: &Problem<'_>) -> Self {
        match self {
            Form::Rows | Form::Columns if problem.fold.is_some() => Form::Scattered,
            form => form,
        }
    }

    /// Whether the result's transpose may be computed and turned around: not where one of them is
    /// computed by dot products, which add up in another order.
    pub fn may_turn(self, problem: &Problem<'_>) -> bool {
        matches!(self, Form::Rows | Form::Tiles)
            && problem.row_unit == 1
            && problem.fold.is_none()
            && !dot::suits(problem)
            && !dot::suits(&problem.transposed())
    }
}

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::cpu) struct Choice {
    /// Whether its transpose is computed, and turned around afterwards. Left and right, rows and
    /// columns then are those of the transpose.
    pub turned: bool,
    /// Whether left and right operand are copied even where they could be read in place.
    pub copied: [bool; 2],
    /// How many columns are worked on at a time.
    pub columns: usize,
    /// How the result is cut among threads.
    pub grid: Grid,
}

impl Choice {
    /// What the rules say.
    pub(super) fn by_rules(
        kernels: &Kernels,
        threads: usize,
        problem: &Problem<'_>,
        form: Form,
    ) -> Self {
        let turned = form.may_turn(problem) && suits_turned(kernels, problem);
        Self::if_turned(turned, kernels, threads, problem, form)
    }

    /// What the rules say of a product that is or is not turned around.
    pub(super) fn if_turned(
        turned: bool,
        kernels: &Kernels,
        threads: usize,
        problem: &Problem<'_>,
        form: Form,
    ) -> Self {
        let problem = computed(turned, problem, form);
        let costs = costs(turned, kernels, &problem, form);
        let grid = split::grid(kernels, threads, &costs);
        let m = problem.size[0];
        let rows = m.div_ceil(problem.row_unit).div_ceil(grid.rows) * problem.row_unit;
        Self {
            turned,
            copied: [
                !prepare::suits_direct_a(&problem.a, kernels, problem.size),
                rows.min(m) > prepare::direct_rows(&problem.b, kernels),
            ],
            columns: split::column_block(kernels, split::Depth::of(&problem)),
            grid,
        }
    }
}

/// The product that is computed for another: itself or its transpose.
pub(super) fn computed<'a>(turned: bool, problem: &Problem<'a>, form: Form) -> Problem<'a> {
    match turned || form == Form::Columns {
        true => problem.transposed(),
        false => *problem,
    }
}

/// What the cost of cutting a product depends on.
pub(super) fn costs(turned: bool, kernels: &Kernels, problem: &Problem<'_>, form: Form) -> Costs {
    Costs {
        batches: problem.batch.iter().product(),
        size: problem.size,
        depth: split::Depth::of(problem),
        row_unit: problem.row_unit,
        prepare_a: prepare::cost_of_a(&problem.a, kernels, problem.size),
        prepare_b: prepare::cost_of_b(&problem.b, kernels, problem.size),
        fetch_b: prepare::cost_of_direct_b(&problem.b, kernels, problem.size),
        direct_rows: prepare::direct_rows(&problem.b, kernels),
        keeps_sums: match form {
            Form::Rows | Form::Columns => turned,
            Form::Scattered | Form::Tiles => {
                turned || split::Depth::of(problem).blocks(kernels) > 1 || problem.fold.is_some()
            }
        },
        turned,
    }
}

/// Whether the transpose of a product is cheaper: windows of a convolution are read in long
/// runs on one side and have to be turned around on the other, and few columns leave lanes empty.
fn suits_turned(kernels: &Kernels, problem: &Problem<'_>) -> bool {
    let computed = |operand: &Operand<'_>| matches!(operand, Operand::Computed { .. });
    let [m, n, k] = problem.size;
    let computed = computed(&problem.a) || computed(&problem.b);
    let few = n < kernels.lanes && m > n;
    if k < ENOUGH_DEPTH || !(computed || few) {
        return false;
    }
    let cost = |problem: &Problem<'_>| {
        let [m, n, k] = problem.size;
        let blocks = n.div_ceil(split::column_block(kernels, split::Depth::of(problem))) as f64;
        let a = prepare::cost_of_a(&problem.a, kernels, problem.size) * blocks;
        let b = match m <= prepare::direct_rows(&problem.b, kernels) {
            true => prepare::cost_of_direct_b(&problem.b, kernels, problem.size),
            false => prepare::cost_of_b(&problem.b, kernels, problem.size),
        };
        let registers = (m * k * n.div_ceil(kernels.lanes)) as f64;
        let alone = if n <= kernels.lanes { ALONE } else { 1.0 };
        registers * alone + (m * k) as f64 * a + (n * k) as f64 * b
    };
    let turning = 2.0 * (m * n) as f64;
    cost(&problem.transposed()) + turning < 0.8 * cost(problem)
}
