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
//! Products with few rows or columns go through `dot` instead.
//!
//! Epilogues wait for memory more than they compute: optimizers read moments that no cache holds
//! any more, and results go to lines that another core had last. An [`Epilogue`] therefore says
//! what it needs [`Soon`], and micro-kernels fetch that a line at a time between their steps.

mod ahead;
mod block;
mod compound;
mod dot;
mod kernel;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod prepare;
mod problem;
mod round;
mod rounded;
mod split;
#[cfg(test)]
mod tests;
pub(super) mod tiles;
mod vector;

pub use compound::{Addresses, Compound};
pub use problem::{
    Epilogue, GemmError, HalfMatrix, Matrix, Operand, Output, Problem, Soon, Source, Target, Tile,
};

use super::pool::Pool;
use crate::ir::Precision;
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
    gemm_with(best_kernels(problem.precision), pool, problem, output)
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

/// [`gemm`] with the micro-kernels of one instruction set.
fn gemm_with(
    kernels: &'static Kernels,
    pool: &Pool,
    problem: &Problem<'_>,
    output: Output<'_>,
) -> Result<(), GemmError> {
    output.check(problem)?;
    let [m, n, _] = problem.size;
    let batches = problem.batch.iter().product::<usize>();
    if batches == 0 || m == 0 || n == 0 {
        return Ok(());
    }
    match output {
        Output::Store(target) => to_memory(kernels, pool, problem, target, false),
        Output::Add(target) => to_memory(kernels, pool, problem, target, true),
        Output::Tiles(function) if block::suits_turned(kernels, problem) => {
            let destination = block::Destination::Turned(function);
            block::run(kernels, pool, &problem.transposed(), destination);
        }
        Output::Tiles(function) => {
            block::run(kernels, pool, problem, block::Destination::Tiles(function));
        }
    }
    Ok(())
}

/// Computes a (checked) problem into memory.
fn to_memory(
    kernels: &'static Kernels,
    pool: &Pool,
    problem: &Problem<'_>,
    target: Target<'_>,
    accumulate: bool,
) {
    let [row_stride, column_stride] = target.strides;
    let memory = block::Memory {
        to: target.data.as_mut_ptr(),
        row_stride,
        column_stride,
        batch_strides: target.batch_strides,
        accumulate,
    };
    if column_stride == 1 && block::suits_turned(kernels, problem) {
        let scatter = |tile: Tile<'_>| memory.scatter(problem, &tile);
        let destination = block::Destination::Turned(&scatter);
        block::run(kernels, pool, &problem.transposed(), destination);
    } else if column_stride == 1 {
        block::run(kernels, pool, problem, block::Destination::Memory(memory));
    } else if row_stride == 1 {
        // The transpose of the product is the product of the transposes, swapped.
        let memory = block::Memory {
            row_stride: column_stride,
            column_stride: 1,
            ..memory
        };
        let problem = problem.transposed();
        block::run(kernels, pool, &problem, block::Destination::Memory(memory));
    } else {
        let scatter = |tile: Tile<'_>| memory.scatter(problem, &tile);
        block::run(kernels, pool, problem, block::Destination::Tiles(&scatter));
    }
}
