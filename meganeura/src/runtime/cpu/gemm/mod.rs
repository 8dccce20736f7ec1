//! The contraction engine: products of `f32` matrices at the speed of the hardware.
//!
//! [`gemm`] computes `C[b, i, j] = Σ_d A[b, i, d] · B[b, d, j]` for operands with any
//! strides, so that a transpose costs no copy, or for operands that are computed while they
//! are read ([`Source`]). The result goes to memory or, tile by tile while it is still in
//! cache, to a function ([`Output::Tiles`]).
//!
//! The order in which products are added depends on the shape only: results are the same
//! for any number of threads.
//!
//! Inside, from the outside in: `split` cuts C among threads, `block` walks one thread's
//! part, `prepare` makes operands readable for micro-kernels (in place, or with `pack`), and
//! `kernel` computes tiles in registers of the widest instruction set there is (`vector`).
//! Products with few rows or columns go through `dot` instead, and `fold` makes deep ones of two sums,
//! each by whom its operands belong to.
//!
//! Epilogues wait for memory more than they compute: optimizers read moments that no cache holds
//! any more, and results go to lines that another core had last. An [`Epilogue`] therefore says
//! what it needs [`Soon`], and micro-kernels fetch that a line at a time between their steps.

mod ahead;
mod block;
mod choice;
mod compound;
mod dot;
mod fold;
mod kernel;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod prepare;
mod problem;
mod round;
mod rounded;
mod space;
mod split;
#[cfg(test)]
mod tests;
pub(super) mod tiles;
mod vector;

pub(super) use choice::{Choice, Form};
pub use compound::{Addresses, Compound};
pub(super) use fold::Fold;
pub use problem::{
    Epilogue, GemmError, HalfMatrix, Matrix, Operand, Output, Problem, Soon, Source, Target, Tile,
};
pub(super) use space::{Matter, NoChoice, sides_from_text, sides_to_text};

use super::pool::Pool;
use crate::ir::Precision;
use block::Destination;
use kernel::Kernels;
use std::sync::OnceLock;

/// Computes `problem` with the threads of `pool`.
///
/// ```
/// use meganeura::runtime::cpu::{Pool, gemm};
/// use meganeura::runtime::cpu::gemm::{Matrix, Operand, Output, Problem, Target};
///
/// // [2, 3] x [3, 2], where the second operand is stored transposed.
/// let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let b = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0];
/// let mut c = [0.0; 4];
/// let a = Operand::Memory(Matrix::new(&a, [3, 1]));
/// let b = Operand::Memory(Matrix::new(&b, [1, 3]));
/// let problem = Problem::new(&[], [2, 2, 3], a, b)?;
/// gemm::gemm(&Pool::new(2), &problem, Output::Store(Target::new(&mut c, [2, 1])))?;
/// assert_eq!(c, [4.0, 2.0, 10.0, 5.0]);
/// # Ok::<(), gemm::GemmError>(())
/// ```
///
/// # Errors
///
/// If the output's memory does not hold the result, or would hold two of its elements at
/// the same place.
pub fn gemm(pool: &Pool, problem: &Problem<'_>, output: Output<'_>) -> Result<(), GemmError> {
    gemm_with(best_kernels(problem.precision), pool, problem, output, None)
}

/// [`gemm`] as was chosen.
pub(super) fn gemm_as(
    choice: &Choice,
    pool: &Pool,
    problem: &Problem<'_>,
    output: Output<'_>,
) -> Result<(), GemmError> {
    gemm_with(
        best_kernels(problem.precision),
        pool,
        problem,
        output,
        Some(choice),
    )
}

/// What the rules choose for a product on so many threads, or what was chosen before if that
/// still makes sense.
pub(super) fn choose(
    chosen: Option<Choice>,
    threads: usize,
    problem: &Problem<'_>,
    form: Form,
) -> Choice {
    let kernels = best_kernels(problem.precision);
    let form = form.of_problem(problem);
    let choice = chosen.unwrap_or_else(|| Choice::by_rules(kernels, threads, problem, form));
    choice.within(kernels, problem, form)
}

/// What could be chosen instead, in one matter.
pub(super) fn others(
    choice: &Choice,
    matter: Matter,
    threads: usize,
    problem: &Problem<'_>,
    form: Form,
) -> Vec<Choice> {
    choice.others(
        matter,
        best_kernels(problem.precision),
        threads,
        problem,
        form.of_problem(problem),
    )
}

/// Whether a product is computed by dot products, which add up in another order.
pub(super) fn by_dots(problem: &Problem<'_>) -> bool {
    dot::suits(problem)
}

/// The name of the instruction set that [`gemm`] uses on this machine.
pub fn instruction_set(precision: Precision) -> &'static str {
    best_kernels(precision).name
}

fn best_kernels(precision: Precision) -> &'static Kernels {
    static EXACT: OnceLock<&'static Kernels> = OnceLock::new();
    static ROUNDED: OnceLock<&'static Kernels> = OnceLock::new();
    let best = match precision {
        Precision::F32 => &EXACT,
        Precision::BF16 => &ROUNDED,
    };
    best.get_or_init(|| kernel::available(precision)[0])
}

/// What products are computed with.
struct Run<'a> {
    kernels: &'static Kernels,
    pool: &'a Pool,
    choice: Choice,
}

impl Run<'_> {
    fn of(&self, problem: &Problem<'_>, destination: Destination<'_>) {
        block::run(self.kernels, self.pool, problem, destination, &self.choice);
    }
}

/// [`gemm`] with the micro-kernels of one instruction set.
fn gemm_with(
    kernels: &'static Kernels,
    pool: &Pool,
    problem: &Problem<'_>,
    output: Output<'_>,
    choice: Option<&Choice>,
) -> Result<(), GemmError> {
    output.check(problem)?;
    let [m, n, _] = problem.size;
    let batches = problem.batch.iter().product::<usize>();
    if batches == 0 || m == 0 || n == 0 {
        return Ok(());
    }
    let form = Form::of(&output).of_problem(problem);
    let choice = match choice {
        Some(choice) => choice.within(kernels, problem, form),
        None => Choice::by_rules(kernels, pool.threads(), problem, form),
    };
    let run = Run {
        kernels,
        pool,
        choice,
    };
    let turned = choice.turned && form.may_turn(problem);
    match output {
        Output::Store(target) => to_memory(problem, target, (form, turned, false), &run),
        Output::Add(target) => to_memory(problem, target, (form, turned, true), &run),
        Output::Tiles(function) if turned => {
            run.of(&problem.transposed(), Destination::Turned(function));
        }
        Output::Tiles(function) => run.of(problem, Destination::Tiles(function)),
    }
    Ok(())
}

/// Computes a (checked) problem into memory.
fn to_memory(
    problem: &Problem<'_>,
    target: Target<'_>,
    (form, turned, accumulate): (Form, bool, bool),
    run: &Run<'_>,
) {
    let [row_stride, column_stride] = target.strides;
    let memory = block::Memory {
        to: target.data.as_mut_ptr(),
        row_stride,
        column_stride,
        batch_strides: target.batch_strides,
        accumulate,
    };
    let scatter = |tile: Tile<'_>| memory.scatter(problem, &tile);
    match form {
        _ if turned => run.of(&problem.transposed(), Destination::Turned(&scatter)),
        Form::Rows => run.of(problem, Destination::Memory(memory)),
        Form::Columns => {
            // The transpose of the product is the product of the transposes, swapped.
            let memory = block::Memory {
                row_stride: column_stride,
                column_stride: 1,
                ..memory
            };
            run.of(&problem.transposed(), Destination::Memory(memory));
        }
        Form::Scattered | Form::Tiles => run.of(problem, Destination::Tiles(&scatter)),
    }
}
