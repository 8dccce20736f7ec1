//! A body whose results over rows are taken out into kernels of their own.

use super::{LowerError, Lowering, count};
use crate::ir::DType;
use crate::schedule::kernel::{
    Access, Accumulate, BufferId, Instruction, Level, LoopKernel, Program, Store, ValueId,
};

/// Values combined over rows: all accumulates keep the same axes.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    /// The domain and the program; only accumulates, no reductions.
    pub kernel: LoopKernel,
    /// Which outer axes the results keep.
    pub kept: Vec<bool>,
    /// Whether the results keep the columns.
    pub keeps_columns: bool,
}

/// Row-major strides over outer axes, with this many elements per row.
pub(super) fn row_strides(outer: &[usize], width: usize) -> Vec<usize> {
    let mut strides = vec![width; outer.len()];
    for axis in (1..outer.len()).rev() {
        strides[axis - 1] = strides[axis] * outer[axis];
    }
    strides
}

impl Lowering<'_> {
    /// Take the accumulates out of a kernel. What remains stores whatever the folds need
    /// besides memory that they can read themselves.
    pub(super) fn split(
        &mut self,
        kernel: &LoopKernel,
    ) -> Result<(LoopKernel, Vec<Fold>), LowerError> {
        let mut rest = kernel.clone();
        let accumulates = std::mem::take(&mut rest.body.accumulates);
        let mut folds: Vec<Fold> = Vec::new();
        for accumulate in accumulates {
            let fold = self.take_out(&mut rest, accumulate)?;
            // Folds over the same axes of the same domain share their loads.
            match folds.iter_mut().find(|other| can_share(other, &fold)) {
                Some(other) => share(other, fold),
                None => folds.push(fold),
            }
        }
        Ok((rest, folds))
    }

    fn take_out(
        &mut self,
        rest: &mut LoopKernel,
        mut accumulate: Accumulate,
    ) -> Result<Fold, LowerError> {
        let is_full = rest.body.program.levels()[accumulate.value.index()] == Level::Full;
        let keeps_columns = accumulate.access.column_stride != 0 && rest.columns != 1;
        if is_full && !keeps_columns && rest.columns != 1 {
            let whole = Instruction::Reduce(accumulate.combine, accumulate.value);
            accumulate.value = rest.body.program.push(whole);
        }
        let kept = (rest.outer.iter().zip(&accumulate.access.strides))
            .map(|(&size, &stride)| size == 1 || stride != 0)
            .collect();
        let columns = if keeps_columns { rest.columns } else { 1 };
        let (program, value) = self.extract(rest, accumulate.value, columns)?;
        let mut fold = LoopKernel {
            outer: rest.outer.clone(),
            columns,
            body: Default::default(),
        };
        fold.body.program = program;
        fold.body.accumulates.push(Accumulate {
            value,
            ..accumulate
        });
        Ok(Fold {
            kernel: fold,
            kept,
            keeps_columns,
        })
    }

    /// A program for one value of a kernel, in which stored scratch stands for what only the
    /// kernel can compute: reductions, and memory that it overwrites.
    fn extract(
        &mut self,
        rest: &mut LoopKernel,
        value: ValueId,
        columns: usize,
    ) -> Result<(Program, ValueId), LowerError> {
        let overwritten = |buffer: BufferId| {
            let stores = &rest.body.stores;
            stores.iter().any(|store| {
                store.access.buffer == buffer || (self.same_place)(store.access.buffer, buffer)
            })
        };
        let mut program = Program::default();
        if cone_loads(&rest.body.program, value)
            .into_iter()
            .any(overwritten)
        {
            let access = self.save(rest, value, columns)?;
            let value = program.push(Instruction::Load(access));
            return Ok((program, value));
        }
        let mut images: Vec<Option<ValueId>> = vec![None; rest.body.program.instructions.len()];
        for index in cone(&rest.body.program, value) {
            let instruction = match rest.body.program.instructions[index].clone() {
                Instruction::Reduce(..) => {
                    Instruction::Load(self.save(rest, ValueId(index as u32), 1)?)
                }
                Instruction::Scalar(op, operands) => {
                    let image =
                        |operand: ValueId| images[operand.index()].expect("operands come first");
                    Instruction::Scalar(op, operands.into_iter().map(image).collect())
                }
                other => other,
            };
            images[index] = Some(program.push(instruction));
        }
        let value = images[value.index()].expect("a value is in its own cone");
        Ok((program, value))
    }

    /// Let the kernel store a value in scratch memory, once.
    fn save(
        &mut self,
        rest: &mut LoopKernel,
        value: ValueId,
        columns: usize,
    ) -> Result<Access, LowerError> {
        let is_scratch =
            |store: &&Store| store.value == value && self.is_scratch(store.access.buffer);
        if let Some(known) = rest.body.stores.iter().find(is_scratch) {
            return Ok(known.access.clone());
        }
        let rows = rest.rows();
        let access = Access {
            buffer: self.scratch(count(&[rows, columns])?),
            dtype: DType::F32,
            offset: 0,
            strides: row_strides(&rest.outer, columns),
            column_stride: usize::from(columns != 1),
        };
        rest.body.stores.push(Store {
            value,
            access: access.clone(),
        });
        Ok(access)
    }

    fn is_scratch(&self, buffer: BufferId) -> bool {
        matches!(self.place(&[buffer]), super::Place::Scratch(_))
    }
}

/// The positions of the instructions that a value is made of, ascending; what lies behind
/// reductions is left out.
fn cone(program: &Program, value: ValueId) -> Vec<usize> {
    let mut wanted = vec![false; value.index() + 1];
    wanted[value.index()] = true;
    for index in (0..wanted.len()).rev() {
        if let (true, Instruction::Scalar(_, operands)) =
            (wanted[index], &program.instructions[index])
        {
            operands
                .iter()
                .for_each(|operand| wanted[operand.index()] = true);
        }
    }
    (0..wanted.len()).filter(|&index| wanted[index]).collect()
}

fn cone_loads(program: &Program, value: ValueId) -> Vec<BufferId> {
    let buffer = |index| match &program.instructions[index] {
        Instruction::Load(access) => Some(access.buffer),
        _ => None,
    };
    cone(program, value)
        .into_iter()
        .filter_map(buffer)
        .collect()
}

fn can_share(a: &Fold, b: &Fold) -> bool {
    a.kept == b.kept && a.keeps_columns == b.keeps_columns && a.kernel.columns == b.kernel.columns
}

/// Append the program of a fold to another's; equal instructions are one.
fn share(into: &mut Fold, from: Fold) {
    let program = &mut into.kernel.body.program;
    let mut images: Vec<ValueId> = Vec::new();
    for instruction in from.kernel.body.program.instructions {
        let instruction = match instruction {
            Instruction::Scalar(op, operands) => {
                let operands = operands
                    .iter()
                    .map(|operand| images[operand.index()])
                    .collect();
                Instruction::Scalar(op, operands)
            }
            other => other,
        };
        let known = program
            .instructions
            .iter()
            .position(|other| *other == instruction);
        images.push(match known {
            Some(index) => ValueId(index as u32),
            None => program.push(instruction),
        });
    }
    for accumulate in from.kernel.body.accumulates {
        let value = images[accumulate.value.index()];
        into.kernel.body.accumulates.push(Accumulate {
            value,
            ..accumulate
        });
    }
}
