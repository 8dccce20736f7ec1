//! Products that are cut along their depth, as [`crate::plan::depth`] says.

use super::memory::Region;
use crate::schedule::kernel::{Access, BufferId, ContractKernel, Instruction, Operand};

use crate::plan::depth::stride;
pub(super) use crate::plan::depth::{folds, parts};

/// What the products of a plan have in common.
pub(super) struct Common<'a> {
    /// Whether a buffer is written in every run.
    pub rewritten: &'a dyn Fn(BufferId) -> bool,
    /// Room for the parts of a result, one product at a time.
    pub parts: Region,
}

/// The same product with its parts as the first axis of the batch.
pub(super) fn cut(kernel: &ContractKernel, parts: usize) -> ContractKernel {
    let batch = kernel.batch.len();
    let operand = |operand: &Operand, depth: usize| {
        let mut operand = operand.clone();
        for instruction in &mut operand.program.instructions {
            if let Instruction::Load(access) = instruction {
                *access = cut_access(access, depth, kernel.k[0] / parts);
            }
        }
        operand
    };
    let mut k = kernel.k.clone();
    k[0] /= parts;
    ContractKernel {
        batch: [&[parts], &kernel.batch[..]].concat(),
        k,
        left: operand(&kernel.left, batch + kernel.m.len()),
        right: operand(&kernel.right, batch),
        ..kernel.clone()
    }
}

/// An access with an axis in front that steps over `length` elements of another.
fn cut_access(access: &Access, axis: usize, length: usize) -> Access {
    let stride = stride(access, axis) * length;
    Access {
        strides: [&[stride], &access.strides[..]].concat(),
        ..access.clone()
    }
}
