//! Fewer axes for the same addresses: shorter index arithmetic, and longer columns.

use crate::schedule::kernel::{Access, Accumulate, Body, Instruction, LoopKernel, Program};

/// Every access of a program.
pub(super) fn program_accesses(program: &mut Program) -> impl Iterator<Item = &mut Access> {
    program
        .instructions
        .iter_mut()
        .filter_map(|instruction| match instruction {
            Instruction::Load(access) => Some(access),
            _ => None,
        })
}

/// Every access of a body.
pub(super) fn body_accesses(body: &mut Body) -> Vec<&mut Access> {
    let stores = body.stores.iter_mut().map(|store| &mut store.access);
    let sums = body
        .accumulates
        .iter_mut()
        .map(|sum: &mut Accumulate| &mut sum.access);
    program_accesses(&mut body.program)
        .chain(stores)
        .chain(sums)
        .collect()
}

/// Whether a program computes with its index along an outer axis.
pub(super) fn uses_index(program: &Program, axis: usize) -> bool {
    let used = |instruction: &Instruction| *instruction == Instruction::OuterIndex(axis);
    program.instructions.iter().any(used)
}

/// Outer axes as they are numbered once one is removed.
pub(super) fn renumber(program: &mut Program, removed: usize) {
    for instruction in &mut program.instructions {
        if let Instruction::OuterIndex(axis) = instruction
            && *axis > removed
        {
            *axis -= 1;
        }
    }
}

/// Remove outer axes of size 1 and merge neighbours that step through all memory as one.
/// `mergeable` may forbid the merge of an axis with the next.
pub(super) fn merge_outer(
    outer: &mut Vec<usize>,
    body: &mut Body,
    mergeable: &dyn Fn(&Body, usize) -> bool,
) {
    for axis in (0..outer.len()).rev() {
        if outer[axis] == 1 && !uses_index(&body.program, axis) {
            remove_axis(outer, body, axis);
        }
    }
    for axis in (0..outer.len().saturating_sub(1)).rev() {
        let size = outer[axis + 1];
        let fits = body_accesses(body)
            .iter()
            .all(|access| access.strides[axis] == access.strides[axis + 1] * size);
        let named = uses_index(&body.program, axis) || uses_index(&body.program, axis + 1);
        if fits && !named && mergeable(body, axis) {
            outer[axis + 1] *= outer[axis];
            remove_axis(outer, body, axis);
        }
    }
}

fn remove_axis(outer: &mut Vec<usize>, body: &mut Body, axis: usize) {
    outer.remove(axis);
    for access in body_accesses(body) {
        access.strides.remove(axis);
    }
    renumber(&mut body.program, axis);
}

/// Merge the last outer axis into the columns where all memory allows it. Only for programs
/// that do not look at whole rows.
pub(super) fn merge_columns(kernel: &mut LoopKernel) {
    while let Some(last) = kernel.outer.len().checked_sub(1) {
        let columns = kernel.columns;
        let program = &kernel.body.program;
        let named =
            uses_index(program, last) || program.instructions.contains(&Instruction::ColumnIndex);
        let fits = body_accesses(&mut kernel.body)
            .iter()
            .all(|access| match columns {
                // A single column is as good as none: the axis takes its place.
                1 => true,
                _ => access.strides[last] == access.column_stride * columns,
            });
        if named || !fits {
            return;
        }
        for access in body_accesses(&mut kernel.body) {
            let stride = access.strides.pop().unwrap_or_default();
            if columns == 1 {
                access.column_stride = stride;
            }
        }
        kernel.columns *= kernel.outer.pop().unwrap_or(1);
    }
}
