//! Loop kernels: compiled once into steps over tiles that stay in the cache.

mod again;
mod compile;
mod fuse;
mod grid;
mod moves;
mod own;
mod program;
mod registers;
mod run;
mod schedule;
mod simplify;
mod stages;
mod sums;
mod tiles;
mod walks;

use super::memory::Region;
use super::vector::InstructionSet;
use crate::schedule::kernel::LoopKernel;

pub(super) use grid::share;
pub(super) use run::LoopProgram;
pub(super) use tiles::BLOCK_ROWS;

/// Makes a kernel ready to run on so many workers. Its accesses have been checked.
pub(super) fn compile(
    kernel: &LoopKernel,
    buffers: &[Region],
    set: InstructionSet,
    workers: usize,
) -> LoopProgram {
    let domain = simplify::simplify(kernel);
    let tiling = compile::tiling(&domain, set);
    let code = compile::compile(&domain, buffers, set, tiling);
    LoopProgram::new(code, workers)
}

/// Makes an epilogue ready to run on tiles of products of so many rows.
pub(super) fn compile_epilogue(
    kernel: &LoopKernel,
    product_rows: usize,
    buffers: &[Region],
    set: InstructionSet,
    workers: usize,
) -> LoopProgram {
    let domain = simplify::simplify_rows(kernel);
    let code = compile::compile(&domain, buffers, set, compile::WIDE);
    LoopProgram::for_tiles(code, workers, product_rows)
}
