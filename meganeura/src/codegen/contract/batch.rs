//! Fewer batch axes for the same product.

use crate::codegen::simplify::{self, body_accesses, program_accesses};
use crate::schedule::kernel::{Access, ContractKernel};

/// Fewer batch axes: those of size 1 go, neighbours merge, and where all batches share the
/// right side the last becomes rows.
pub(super) fn merge_batch(kernel: &mut ContractKernel) {
    for axis in (0..kernel.batch.len()).rev() {
        if kernel.batch[axis] == 1 && !uses_index(kernel, axis) {
            remove_axis(kernel, axis);
        }
    }
    for axis in (0..kernel.batch.len().saturating_sub(1)).rev() {
        let size = kernel.batch[axis + 1];
        let fits = accesses(kernel)
            .iter()
            .all(|a| a.strides[axis] == a.strides[axis + 1] * size);
        if fits && !uses_index(kernel, axis) && !uses_index(kernel, axis + 1) {
            kernel.batch[axis + 1] *= kernel.batch[axis];
            remove_axis(kernel, axis);
        }
    }
    while let Some(axis) = kernel.batch.len().checked_sub(1) {
        let &[m] = &kernel.m[..] else {
            return;
        };
        let shared =
            program_accesses(&mut kernel.right.program).all(|access| access.strides[axis] == 0);
        let fits = program_accesses(&mut kernel.left.program)
            .chain(body_accesses(&mut kernel.epilogue))
            .all(|access| access.strides[axis] == access.strides[axis + 1] * m);
        if !shared || !fits || uses_index(kernel, axis) || uses_index(kernel, axis + 1) {
            return;
        }
        kernel.m = vec![m * kernel.batch[axis]];
        remove_axis(kernel, axis);
    }
}

fn accesses(kernel: &mut ContractKernel) -> Vec<&mut Access> {
    program_accesses(&mut kernel.left.program)
        .chain(program_accesses(&mut kernel.right.program))
        .chain(body_accesses(&mut kernel.epilogue))
        .collect()
}

fn uses_index(kernel: &ContractKernel, axis: usize) -> bool {
    let programs = [
        &kernel.left.program,
        &kernel.right.program,
        &kernel.epilogue.program,
    ];
    programs
        .into_iter()
        .any(|program| simplify::uses_index(program, axis))
}

/// Drop a batch axis; when it merged into another, that one has the strides to keep.
fn remove_axis(kernel: &mut ContractKernel, axis: usize) {
    kernel.batch.remove(axis);
    for access in accesses(kernel) {
        access.strides.remove(axis);
    }
    let programs = [
        &mut kernel.left.program,
        &mut kernel.right.program,
        &mut kernel.epilogue.program,
    ];
    for program in programs {
        simplify::renumber(program, axis);
    }
}
