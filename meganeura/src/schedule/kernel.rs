//! Kernels as values: what both executors run.
//!
//! A kernel is a little program run once for each *row* of a domain. A value of the program
//! is either *full* (one number for each column of the row) or *row* (one number for the
//! whole row); a [`Instruction::Reduce`] makes the second of the first. Rows are addressed
//! by any number of outer axes, columns by one. So a LayerNorm, forward and backward, is one
//! program.
//!
//! Inside a kernel every value is a float: `u32` buffers convert on load (and back on
//! store), truth values are 0 and 1. Where integers are only copied, load and store say they
//! were floats, so that all bits arrive.

use super::attention::AttentionKernel;
use crate::ir::{Combine, DType, Precision, ScalarOp};

/// A buffer of the plan that a kernel belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

impl BufferId {
    /// The position in the plan's list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A value of a [`Program`]: the instruction at this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The position of its instruction.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Elements of a buffer, one for each row and column:
/// `offset + Σ outer_index[axis] · strides[axis] + column · column_stride`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Where.
    pub buffer: BufferId,
    /// The buffer's element type, or floats where integers are copied as they are.
    pub dtype: DType,
    /// The element at row 0, column 0.
    pub offset: usize,
    /// Elements to step for each outer axis of the domain.
    pub strides: Vec<usize>,
    /// Elements to step for each column; 0 when all columns share one element.
    pub column_stride: usize,
}

/// One step of a [`Program`]. Operands come before their users.
#[derive(Clone, Debug, PartialEq)]
pub enum Instruction {
    /// An element of a buffer; a row value when its column stride is 0.
    Load(Access),
    /// A number; a row value.
    Constant(f32),
    /// The index along an outer axis; a row value.
    OuterIndex(usize),
    /// The column's index; a full value.
    ColumnIndex,
    /// A scalar instruction on as many operands as it takes; full when an operand is.
    Scalar(ScalarOp, Vec<ValueId>),
    /// All columns of a value in one: a row value. A row value counts once for each column.
    Reduce(Combine, ValueId),
    /// The contraction's result; a full value, only in epilogues.
    Accumulator,
}

/// Whether a value differs from column to column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// One number for a row.
    Row,
    /// One number for each column.
    Full,
}

/// Straight-line code for one row.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Program {
    /// The steps, in order.
    pub instructions: Vec<Instruction>,
}

impl Program {
    /// Append a step.
    pub fn push(&mut self, instruction: Instruction) -> ValueId {
        self.instructions.push(instruction);
        ValueId(self.instructions.len() as u32 - 1)
    }

    /// The level of every value.
    pub fn levels(&self) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::with_capacity(self.instructions.len());
        for instruction in &self.instructions {
            levels.push(match instruction {
                Instruction::Load(access) if access.column_stride != 0 => Level::Full,
                Instruction::ColumnIndex | Instruction::Accumulator => Level::Full,
                Instruction::Scalar(_, operands) => operands
                    .iter()
                    .map(|operand| levels[operand.index()])
                    .max()
                    .unwrap_or(Level::Row),
                Instruction::Load(_)
                | Instruction::Constant(_)
                | Instruction::OuterIndex(_)
                | Instruction::Reduce(..) => Level::Row,
            });
        }
        levels
    }

    /// How many reductions must be complete before each value can be computed: values of one
    /// stage can share one loop over the columns.
    pub fn stages(&self) -> Vec<u32> {
        let mut stages: Vec<u32> = Vec::with_capacity(self.instructions.len());
        for instruction in &self.instructions {
            stages.push(match instruction {
                Instruction::Scalar(_, operands) => operands
                    .iter()
                    .map(|operand| stages[operand.index()])
                    .max()
                    .unwrap_or(0),
                Instruction::Reduce(_, operand) => stages[operand.index()] + 1,
                _ => 0,
            });
        }
        stages
    }

    /// The buffers it loads from.
    pub fn loads(&self) -> impl Iterator<Item = &Access> {
        self.instructions
            .iter()
            .filter_map(|instruction| match instruction {
                Instruction::Load(access) => Some(access),
                _ => None,
            })
    }
}

/// A value written out, after the whole program has run for the row. A row value with column
/// stride 0 is written once, with another stride once for each column. The addresses of one
/// store never collide. A store may go where the same kernel loads: it then has the same
/// strides as the load, and the load sees what was there before.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// What.
    pub value: ValueId,
    /// Where to.
    pub access: Access,
}

/// A value combined over all rows (and, when the column stride is 0 and the value full, all
/// columns) that share an address: strides are 0 along the axes that are combined. A row value
/// counts once for its row, at every column where the column stride is not 0. The result is
/// complete when the kernel ends; what the buffer held before does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct Accumulate {
    /// How.
    pub combine: Combine,
    /// What.
    pub value: ValueId,
    /// Where to; floats.
    pub access: Access,
}

/// A program and what it leaves behind.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Body {
    /// The steps for one row.
    pub program: Program,
    /// Results of each row.
    pub stores: Vec<Store>,
    /// Results over rows.
    pub accumulates: Vec<Accumulate>,
}

/// A body run for every row of a domain: elementwise work, reductions, normalizations,
/// losses and their gradients.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopKernel {
    /// Sizes of the outer axes; their product is the number of rows.
    pub outer: Vec<usize>,
    /// The number of columns.
    pub columns: usize,
    /// What is done with each row.
    pub body: Body,
}

impl LoopKernel {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.outer.iter().product()
    }
}

/// One side of a contraction, computed by a program without reductions; mostly one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// How an element comes about.
    pub program: Program,
    /// The value that is contracted.
    pub value: ValueId,
}

impl Operand {
    /// The access, when the operand is floats in memory as they stand, whole or as bf16.
    pub fn as_load(&self) -> Option<&Access> {
        match &self.program.instructions[self.value.index()] {
            Instruction::Load(access) => {
                matches!(access.dtype, DType::F32 | DType::BF16).then_some(access)
            }
            _ => None,
        }
    }
}

/// `accumulator[b.., m, n] = Σₖ left[b.., m, k] · right[b.., k, n]`, then the epilogue.
///
/// Rows, columns and what is contracted may consist of several axes each, so that an operand
/// whose elements no two strides can address is read where it lies: the windows of a
/// convolution, or the heads of an attention side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct ContractKernel {
    /// Sizes of the batch axes.
    pub batch: Vec<usize>,
    /// Sizes of the axes that are the rows of the result; at least one, as below.
    pub m: Vec<usize>,
    /// Sizes of the axes that are the columns of the result.
    pub n: Vec<usize>,
    /// Sizes of the axes that are contracted.
    pub k: Vec<usize>,
    /// Over the axes `[batch.., m.., k..]`, of which the last is the columns.
    pub left: Operand,
    /// Over the axes `[batch.., k.., n..]`, of which the last is the columns.
    pub right: Operand,
    /// Over outer axes `[batch.., rows]` and columns, each of these one axis; without
    /// reductions.
    pub epilogue: Body,
    /// What operands are rounded to before they are multiplied. Sums are floats always.
    pub precision: Precision,
}

/// The fewest rows and columns of a product whose operands are rounded. What is smaller waits for
/// memory rather than computes, and sums over all of a value may have become such products.
const ROUNDED_SIDE: usize = 16;
/// The least depth of a product whose operands are rounded.
const ROUNDED_DEPTH: usize = 16;

impl ContractKernel {
    /// Rows of the result.
    pub fn rows(&self) -> usize {
        self.m.iter().product()
    }

    /// Columns of the result.
    pub fn columns(&self) -> usize {
        self.n.iter().product()
    }

    /// Elements contracted.
    pub fn depth(&self) -> usize {
        self.k.iter().product()
    }

    /// The precision of this product where that is asked for: small products are exact always.
    pub fn worthwhile(&self, asked: Precision) -> Precision {
        let side = self.rows().min(self.columns());
        if side >= ROUNDED_SIDE && self.depth() >= ROUNDED_DEPTH {
            asked
        } else {
            Precision::F32
        }
    }

    /// Outer axes and columns of the left operand's program.
    pub fn left_domain(&self) -> (Vec<usize>, usize) {
        split_last([&self.batch[..], &self.m, &self.k].concat())
    }

    /// Outer axes and columns of the right operand's program.
    pub fn right_domain(&self) -> (Vec<usize>, usize) {
        split_last([&self.batch[..], &self.k, &self.n].concat())
    }

    /// Outer axes and columns of the epilogue.
    pub fn result_domain(&self) -> (Vec<usize>, usize) {
        ([&self.batch[..], &[self.rows()]].concat(), self.columns())
    }
}

fn split_last(mut axes: Vec<usize>) -> (Vec<usize>, usize) {
    let last = axes.pop().unwrap_or(1);
    (axes, last)
}

/// `output[i, :] = table[indices[i], :]`, everything row-major without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherKernel {
    /// Floats, `[rows, width]`.
    pub table: BufferId,
    /// `u32`, `[count]`; an index outside the table gives a row of NaN.
    pub indices: BufferId,
    /// Floats, `[count, width]`.
    pub output: BufferId,
    /// Whether the output is kept as bf16.
    pub rounds: bool,
    /// Rows of the table.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// Indices.
    pub count: usize,
}

/// `output[indices[i], :] += updates[i, :]` from zeros, everything row-major without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterAddKernel {
    /// Floats, `[count, width]`.
    pub updates: BufferId,
    /// `u32`, `[count]`; an index outside the table is left out.
    pub indices: BufferId,
    /// Floats, `[rows, width]`.
    pub output: BufferId,
    /// Rows of the output.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// Indices.
    pub count: usize,
}

/// The archetypes.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Elementwise work and reductions.
    Loop(LoopKernel),
    /// A matrix product with what comes before and after it.
    Contract(ContractKernel),
    /// Rows chosen by indices.
    Gather(GatherKernel),
    /// Rows added at indices.
    ScatterAdd(ScatterAddKernel),
    /// Attention or its gradients.
    Attention(Box<AttentionKernel>),
}

/// One dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// What it computes, for people: the layer and the ops.
    pub name: String,
    /// What is done.
    pub action: Action,
}

impl Kernel {
    /// The buffers it reads, each once, ascending.
    pub fn reads(&self) -> Vec<BufferId> {
        let loads = |program: &Program| {
            program
                .loads()
                .map(|access| access.buffer)
                .collect::<Vec<_>>()
        };
        let mut buffers = match &self.action {
            Action::Loop(kernel) => loads(&kernel.body.program),
            Action::Contract(kernel) => [
                &kernel.left.program,
                &kernel.right.program,
                &kernel.epilogue.program,
            ]
            .into_iter()
            .flat_map(loads)
            .collect(),
            Action::Gather(kernel) => vec![kernel.table, kernel.indices],
            Action::ScatterAdd(kernel) => vec![kernel.updates, kernel.indices],
            Action::Attention(kernel) => kernel.loads().map(|access| access.buffer).collect(),
        };
        buffers.sort_unstable();
        buffers.dedup();
        buffers
    }

    /// The buffers it writes, each once, ascending.
    pub fn writes(&self) -> Vec<BufferId> {
        let body = |body: &Body| -> Vec<BufferId> {
            let stores = body.stores.iter().map(|store| store.access.buffer);
            stores
                .chain(body.accumulates.iter().map(|sum| sum.access.buffer))
                .collect()
        };
        let mut buffers = match &self.action {
            Action::Loop(kernel) => body(&kernel.body),
            Action::Contract(kernel) => body(&kernel.epilogue),
            Action::Gather(kernel) => vec![kernel.output],
            Action::ScatterAdd(kernel) => vec![kernel.output],
            Action::Attention(kernel) => kernel.results(),
        };
        buffers.sort_unstable();
        buffers.dedup();
        buffers
    }

    /// Floating-point operations, counting each scalar instruction as one.
    pub fn flops(&self) -> u64 {
        match &self.action {
            Action::Loop(kernel) => {
                program_flops(&kernel.body.program, kernel.rows(), kernel.columns)
            }
            Action::Contract(kernel) => {
                let rows = kernel.batch.iter().product::<usize>() * kernel.rows();
                let product = 2 * (rows * kernel.columns() * kernel.depth()) as u64;
                product + program_flops(&kernel.epilogue.program, rows, kernel.columns())
            }
            Action::Gather(_) => 0,
            Action::ScatterAdd(kernel) => (kernel.count * kernel.width) as u64,
            Action::Attention(kernel) => kernel.flops(),
        }
    }
}

fn program_flops(program: &Program, rows: usize, columns: usize) -> u64 {
    let levels = program.levels();
    let steps = program
        .instructions
        .iter()
        .zip(&levels)
        .map(|(instruction, level)| match instruction {
            Instruction::Scalar(..) if *level == Level::Full => rows * columns,
            Instruction::Scalar(..) => rows,
            Instruction::Reduce(..) => rows * columns,
            _ => 0,
        });
    steps.sum::<usize>() as u64
}
