//! Kernels with as few axes as they can have.

use super::kernel::{Access, Accumulate, Body, Instruction, Level, LoopKernel, Program, ValueId};
use crate::ir::{Combine, DType};

/// The same kernel with as few axes as its accesses allow: longer rows mean less overhead.
pub(super) fn simplify(mut kernel: LoopKernel) -> LoopKernel {
    copy_words(&mut kernel.body);
    drop_unit_axes(&mut kernel);
    let mut axis = 0;
    while axis + 1 < kernel.outer.len() {
        if merges(&kernel, axis) {
            merge(&mut kernel, axis);
        } else {
            axis += 1;
        }
    }
    while flattens(&kernel) {
        flatten(&mut kernel);
    }
    kernel
}

/// Integers that are only copied keep all of their bits: they are loaded and stored as if they
/// were floats, which nothing is done with.
fn copy_words(body: &mut Body) {
    let computed = used_in_steps(body);
    let instructions = &mut body.program.instructions;
    for store in body
        .stores
        .iter_mut()
        .filter(|store| store.access.dtype == DType::U32)
    {
        let index = store.value.index();
        let words = match &instructions[index] {
            Instruction::Load(access) => Instruction::Load(Access {
                dtype: DType::F32,
                ..access.clone()
            }),
            _ => continue,
        };
        store.access.dtype = DType::F32;
        if computed[index] {
            store.value = ValueId(instructions.len() as u32);
            instructions.push(words);
        } else {
            instructions[index] = words;
        }
    }
}

/// For each value, whether anything but a store of integers uses it.
fn used_in_steps(body: &Body) -> Vec<bool> {
    let mut used = vec![false; body.program.instructions.len()];
    for instruction in &body.program.instructions {
        match instruction {
            Instruction::Scalar(_, operands) => operands
                .iter()
                .for_each(|operand| used[operand.index()] = true),
            Instruction::Reduce(_, operand) => used[operand.index()] = true,
            _ => {}
        }
    }
    let stores = body.stores.iter();
    let stored = stores.filter(|store| store.access.dtype != DType::U32);
    let stored = stored.map(|store| store.value);
    let summed = body.accumulates.iter().map(|sum| sum.value);
    stored
        .chain(summed)
        .for_each(|value| used[value.index()] = true);
    used
}

fn accesses(kernel: &mut LoopKernel) -> Vec<&mut Access> {
    let Body {
        program,
        stores,
        accumulates,
    } = &mut kernel.body;
    let loads = program
        .instructions
        .iter_mut()
        .filter_map(|instruction| match instruction {
            Instruction::Load(access) => Some(access),
            _ => None,
        });
    let stores = stores.iter_mut().map(|store| &mut store.access);
    loads
        .chain(stores)
        .chain(accumulates.iter_mut().map(|sum| &mut sum.access))
        .collect()
}

fn indexes_outer(program: &Program) -> bool {
    program
        .instructions
        .iter()
        .any(|instruction| matches!(instruction, Instruction::OuterIndex(_)))
}

fn drop_unit_axes(kernel: &mut LoopKernel) {
    if indexes_outer(&kernel.body.program) {
        return;
    }
    for axis in (0..kernel.outer.len())
        .rev()
        .filter(|&axis| kernel.outer[axis] == 1)
        .collect::<Vec<_>>()
    {
        kernel.outer.remove(axis);
        for access in accesses(kernel) {
            access.strides.remove(axis);
        }
    }
}

fn merges(kernel: &LoopKernel, axis: usize) -> bool {
    let mut copy = kernel.clone();
    let inner = kernel.outer[axis + 1];
    !indexes_outer(&kernel.body.program)
        && accesses(&mut copy)
            .iter()
            .all(|access| access.strides[axis] == access.strides[axis + 1] * inner)
}

fn merge(kernel: &mut LoopKernel, axis: usize) {
    kernel.outer[axis] *= kernel.outer.remove(axis + 1);
    for access in accesses(kernel) {
        access.strides.remove(axis);
    }
}

/// Whether the innermost outer axis and the columns are one run of columns.
fn flattens(kernel: &LoopKernel) -> bool {
    let Some(axis) = kernel.outer.len().checked_sub(1) else {
        return false;
    };
    let program = &kernel.body.program;
    let by_column = |(index, instruction): (usize, &Instruction)| match instruction {
        Instruction::ColumnIndex => true,
        Instruction::OuterIndex(index) => *index == axis,
        Instruction::Reduce(combine, _) => !only_summed_on(kernel, index, *combine, axis),
        _ => false,
    };
    let levels = program.levels();
    // What counts once for each row would count too little if there were fewer.
    let by_row = |sum: &Accumulate| {
        levels[sum.value.index()] == Level::Row
            && sum.access.strides[axis] == 0
            && !matches!(
                program.instructions[sum.value.index()],
                Instruction::Reduce(..)
            )
    };
    let mut copy = kernel.clone();
    let columns = kernel.columns;
    // A lone column has no stride: it takes that of the rows.
    let follows =
        |access: &Access| columns == 1 || access.strides[axis] == access.column_stride * columns;
    !program.instructions.iter().enumerate().any(by_column)
        && !kernel.body.accumulates.iter().any(by_row)
        && accesses(&mut copy).iter().all(|access| follows(access))
}

/// Whether the rows of a reduction are only combined with each other along an axis, in the
/// same way: then they may as well be one row.
fn only_summed_on(kernel: &LoopKernel, index: usize, combine: Combine, axis: usize) -> bool {
    let Body {
        program,
        stores,
        accumulates,
    } = &kernel.body;
    let is_it = |value: &ValueId| value.index() == index;
    let used = program
        .instructions
        .iter()
        .any(|instruction| match instruction {
            Instruction::Scalar(_, operands) => operands.iter().any(is_it),
            Instruction::Reduce(_, operand) => is_it(operand),
            _ => false,
        });
    let mut sums = accumulates.iter().filter(|sum| is_it(&sum.value));
    !used
        && !stores.iter().any(|store| is_it(&store.value))
        && sums.all(|sum| {
            sum.combine == combine && sum.access.strides[axis] == 0 && sum.access.column_stride == 0
        })
}

fn flatten(kernel: &mut LoopKernel) {
    let lone = kernel.columns == 1;
    kernel.columns *= kernel.outer.pop().expect("there is an axis to flatten");
    for access in accesses(kernel) {
        let stride = access.strides.pop().expect("as many strides as axes");
        if lone {
            access.column_stride = stride;
        }
    }
}
