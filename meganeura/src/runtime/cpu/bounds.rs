//! What must hold of a kernel so that running it touches its buffers only.

use super::memory::Region;
use crate::ir::DType;
use crate::schedule::attention::{AttentionKernel, AttentionPass};
use crate::schedule::kernel::{
    Access, Action, Body, BufferId, ContractKernel, GatherKernel, Instruction, Kernel, Operand,
    Program, ScatterAddKernel, ValueId,
};

/// Checks a kernel against its buffers; what is wrong with it.
pub(super) fn check(kernel: &Kernel, buffers: &[Region]) -> Result<(), String> {
    match &kernel.action {
        Action::Loop(kernel) => {
            let domain = Domain::new(&kernel.outer, kernel.columns, buffers)?;
            domain.body(&kernel.body, Place::Loop)
        }
        Action::Contract(kernel) => contract(kernel, buffers),
        Action::Gather(kernel) => gather(kernel, buffers),
        Action::ScatterAdd(kernel) => scatter_add(kernel, buffers),
        Action::Attention(kernel) => attention(kernel, buffers),
    }
}

fn contract(kernel: &ContractKernel, buffers: &[Region]) -> Result<(), String> {
    if [&kernel.m, &kernel.n, &kernel.k]
        .iter()
        .any(|axes| axes.is_empty())
    {
        return Err("rows, columns and depth need an axis each".to_owned());
    }
    let operand = |operand: &Operand, (outer, columns): (Vec<usize>, usize)| {
        let domain = Domain::new(&outer, columns, buffers)?;
        domain.program(&operand.program, Place::Operand)?;
        exists(&operand.program, operand.value)
    };
    operand(&kernel.left, kernel.left_domain())?;
    operand(&kernel.right, kernel.right_domain())?;
    let (outer, columns) = kernel.result_domain();
    Domain::new(&outer, columns, buffers)?.body(&kernel.epilogue, Place::Epilogue)
}

fn gather(kernel: &GatherKernel, buffers: &[Region]) -> Result<(), String> {
    dense(kernel.table, &[kernel.rows, kernel.width], buffers)?;
    dense(kernel.indices, &[kernel.count], buffers)?;
    dense(kernel.output, &[kernel.count, kernel.width], buffers)?;
    halves(kernel.output, kernel.rounds, buffers)?;
    apart(kernel.output, &[kernel.table, kernel.indices], buffers)
}

fn scatter_add(kernel: &ScatterAddKernel, buffers: &[Region]) -> Result<(), String> {
    dense(kernel.updates, &[kernel.count, kernel.width], buffers)?;
    dense(kernel.indices, &[kernel.count], buffers)?;
    dense(kernel.output, &[kernel.rows, kernel.width], buffers)?;
    halves(kernel.output, false, buffers)?;
    apart(kernel.output, &[kernel.updates, kernel.indices], buffers)
}

fn attention(kernel: &AttentionKernel, buffers: &[Region]) -> Result<(), String> {
    let AttentionKernel {
        queries,
        keys,
        heads,
        width,
        value_width,
        ..
    } = *kernel;
    if kernel.group == 0 || !heads.is_multiple_of(kernel.group) {
        return Err(format!("{heads} heads are no groups of {}", kernel.group));
    }
    let key_heads = kernel.key_heads();
    let access = |access: &Access, first: usize, second: usize, columns: usize| {
        let outer = [&kernel.batch[..], &[first, second]].concat();
        Domain::new(&outer, columns, buffers)?.access(access)
    };
    access(&kernel.query, queries, heads, width)?;
    access(&kernel.key, keys, key_heads, width)?;
    if let Some(value) = &kernel.value {
        access(value, keys, key_heads, value_width)?;
    }
    if let Some(mask) = &kernel.mask {
        access(mask, heads, queries, keys)?;
    }
    let result = |buffer: Option<BufferId>, sizes: [usize; 3], rounds| match buffer {
        None => Ok(()),
        Some(buffer) => {
            halves(buffer, rounds, buffers)?;
            dense(buffer, &[&kernel.batch[..], &sizes].concat(), buffers)?;
            let loads = kernel.loads().map(|access| access.buffer);
            apart(buffer, &loads.collect::<Vec<_>>(), buffers)
        }
    };
    match &kernel.pass {
        AttentionPass::Forward { output, normalizer } => {
            if output.is_some() && kernel.value.is_none() {
                return Err("there are no values to mix".to_owned());
            }
            result(*output, [queries, heads, value_width], kernel.rounds)?;
            result(*normalizer, [queries, heads, 1], false)
        }
        AttentionPass::Backward {
            upstream,
            normalizer,
            sums,
            query,
            key,
            value,
        } => {
            if kernel.value.is_none() {
                return Err("there are no values".to_owned());
            }
            access(upstream, queries, heads, value_width)?;
            access(normalizer, queries, heads, 1)?;
            access(sums, queries, heads, 1)?;
            result(*query, [queries, heads, width], kernel.rounds)?;
            result(*key, [keys, key_heads, width], kernel.rounds)?;
            result(*value, [keys, key_heads, value_width], kernel.rounds)
        }
    }
}

fn dense(buffer: BufferId, dims: &[usize], buffers: &[Region]) -> Result<(), String> {
    let region = region(buffer, buffers)?;
    let elements = dims
        .iter()
        .try_fold(1usize, |all, &dim| all.checked_mul(dim));
    match elements {
        Some(elements) if elements <= region.elements => Ok(()),
        _ => Err(format!(
            "buffer {} has {} elements, the kernel needs {dims:?}",
            buffer.0, region.elements
        )),
    }
}

/// Whether a buffer holds halves if a kernel takes it to, and only then.
fn halves(buffer: BufferId, expected: bool, buffers: &[Region]) -> Result<(), String> {
    let dtype = region(buffer, buffers)?.dtype;
    match (dtype == DType::BF16) == expected {
        true => Ok(()),
        false => Err(format!(
            "buffer {} holds {dtype}, which the kernel does not take it for",
            buffer.0
        )),
    }
}

fn apart(output: BufferId, inputs: &[BufferId], buffers: &[Region]) -> Result<(), String> {
    let output = region(output, buffers)?;
    for &input in inputs {
        if region(input, buffers)?.overlaps(output) {
            return Err(format!("the output overlaps the input buffer {}", input.0));
        }
    }
    Ok(())
}

fn region(buffer: BufferId, buffers: &[Region]) -> Result<Region, String> {
    let region = buffers.get(buffer.index()).copied();
    region.ok_or_else(|| format!("there is no buffer {}", buffer.0))
}

fn exists(program: &Program, value: ValueId) -> Result<(), String> {
    if value.index() < program.instructions.len() {
        Ok(())
    } else {
        Err(format!("there is no value {}", value.0))
    }
}

/// Where a program stands; not every instruction is allowed everywhere.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Loop,
    Operand,
    Epilogue,
}

/// The domain of a program.
struct Domain<'a> {
    outer: &'a [usize],
    columns: usize,
    rows: usize,
    buffers: &'a [Region],
}

impl<'a> Domain<'a> {
    fn new(outer: &'a [usize], columns: usize, buffers: &'a [Region]) -> Result<Self, String> {
        let rows = outer
            .iter()
            .try_fold(1usize, |all, &dim| all.checked_mul(dim));
        let elements = rows.and_then(|rows| rows.checked_mul(columns.max(1)));
        match (rows, elements) {
            (Some(rows), Some(_)) => Ok(Self {
                outer,
                columns,
                rows,
                buffers,
            }),
            _ => Err(format!("the domain {outer:?} × {columns} is too large")),
        }
    }

    fn body(&self, body: &Body, place: Place) -> Result<(), String> {
        self.program(&body.program, place)?;
        for store in &body.stores {
            exists(&body.program, store.value)?;
            self.access(&store.access)?;
        }
        for sum in &body.accumulates {
            exists(&body.program, sum.value)?;
            self.result(&sum.access)?;
            for load in body.program.loads() {
                let output = region(sum.access.buffer, self.buffers)?;
                if region(load.buffer, self.buffers)?.overlaps(output) {
                    return Err("a result over rows overlaps what the kernel reads".to_owned());
                }
            }
            if matches!(sum.access.dtype, DType::U32 | DType::BF16) {
                return Err("an accumulated result must be floats".to_owned());
            }
        }
        Ok(())
    }

    fn program(&self, program: &Program, place: Place) -> Result<(), String> {
        for (position, instruction) in program.instructions.iter().enumerate() {
            let before = |value: ValueId| {
                if value.index() < position {
                    Ok(())
                } else {
                    Err(format!("value {position} uses value {}", value.0))
                }
            };
            match instruction {
                Instruction::Load(access) => self.access(access)?,
                Instruction::OuterIndex(axis) if *axis >= self.outer.len() => {
                    return Err(format!("there is no outer axis {axis}"));
                }
                Instruction::Scalar(op, operands) => {
                    if operands.len() != op.arity() {
                        return Err(format!("{op:?} with {} operands", operands.len()));
                    }
                    operands.iter().try_for_each(|&value| before(value))?;
                }
                Instruction::Reduce(_, value) => {
                    before(*value)?;
                    if place != Place::Loop {
                        return Err("a reduction in an operand or an epilogue".to_owned());
                    }
                }
                Instruction::Accumulator if place != Place::Epilogue => {
                    return Err("an accumulator outside an epilogue".to_owned());
                }
                Instruction::Constant(_)
                | Instruction::OuterIndex(_)
                | Instruction::ColumnIndex
                | Instruction::Accumulator => {}
            }
        }
        Ok(())
    }

    fn strides(&self, access: &Access) -> Result<(), String> {
        if access.strides.len() == self.outer.len() {
            return Ok(());
        }
        Err(format!(
            "an access with {} strides for {} outer axes",
            access.strides.len(),
            self.outer.len()
        ))
    }

    fn access(&self, access: &Access) -> Result<(), String> {
        let region = region(access.buffer, self.buffers)?;
        self.strides(access)?;
        halves(access.buffer, access.dtype == DType::BF16, self.buffers)?;
        if self.rows == 0 {
            return Ok(());
        }
        self.reach(access, region)
    }

    /// A result over rows: it exists even where there are no rows along a combined axis.
    fn result(&self, access: &Access) -> Result<(), String> {
        let region = region(access.buffer, self.buffers)?;
        self.strides(access)?;
        halves(access.buffer, false, self.buffers)?;
        let mut axes = self.outer.iter().zip(&access.strides);
        if axes.any(|(&dim, &stride)| dim == 0 && stride != 0) {
            return Ok(());
        }
        self.reach(access, region)
    }

    fn reach(&self, access: &Access, region: Region) -> Result<(), String> {
        if self.columns == 0 && access.column_stride != 0 {
            return Ok(());
        }
        let axes = self.outer.iter().zip(&access.strides);
        let last = axes
            .map(|(&dim, &stride)| dim.saturating_sub(1).checked_mul(stride))
            .chain([self
                .columns
                .saturating_sub(1)
                .checked_mul(access.column_stride)])
            .try_fold(access.offset, |sum, step| sum.checked_add(step?));
        match last {
            Some(last) if last < region.elements => Ok(()),
            _ => Err(format!(
                "an access reaches beyond buffer {}: {} elements, offset {}, strides {:?} and {} over {:?} × {}",
                access.buffer.0,
                region.elements,
                access.offset,
                access.strides,
                access.column_stride,
                self.outer,
                self.columns
            )),
        }
    }
}
