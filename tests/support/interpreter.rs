//! A plan run in double precision, one element at a time: slow, plain, and no part of the
//! library, so that executors and the scheduler can be held to it.

use std::collections::HashMap;

use meganeura::ir::{Array, DType, Precision, ScalarOp};
use meganeura::plan::{Plan, Role};
use meganeura::schedule::kernel::{
    Access, Action, Body, ContractKernel, Instruction, Kernel, Level, Operand, Program,
};

#[path = "../../meganeura/src/codegen/tests/attention.rs"]
mod attention;

/// What the interpreter of attention works with.
mod kernel {
    pub use meganeura::ir::DType;
    pub use meganeura::schedule::attention::{AttentionKernel, AttentionPass};
    pub use meganeura::schedule::kernel::Access;
}

type Buffers = Vec<Vec<f64>>;

/// A contraction's results for one row.
type Accumulator<'a> = &'a dyn Fn(&[usize], &Buffers) -> Vec<f64>;

/// Run a plan once on named inputs and variables; gives outputs by name and the variables'
/// new values by name.
pub fn interpret(plan: &Plan, leaves: &HashMap<String, Array>) -> HashMap<String, Vec<f64>> {
    let mut buffers: Buffers = plan
        .buffers
        .iter()
        .map(|buffer| vec![if buffer.gaps { 0.0 } else { f64::NAN }; buffer.elements])
        .collect();
    for (buffer, data) in plan.buffers.iter().zip(&mut buffers) {
        let name = match &buffer.role {
            Role::Input(name) => name,
            Role::Variable(index) => &plan.variables[*index].name,
            _ => continue,
        };
        data.clone_from(&leaves[name].data);
    }
    for kernel in &plan.kernels {
        run(kernel, &mut buffers);
    }
    let named = plan
        .buffers
        .iter()
        .zip(buffers)
        .filter_map(|(buffer, data)| match &buffer.role {
            Role::Output(name) => Some((name.clone(), data)),
            Role::Variable(index) => Some((plan.variables[*index].name.clone(), data)),
            _ => None,
        });
    named.collect()
}

fn run(kernel: &Kernel, buffers: &mut Buffers) {
    match &kernel.action {
        Action::Loop(kernel) => body(&kernel.body, &kernel.outer, kernel.columns, buffers, None),
        Action::Contract(kernel) => contract(kernel, buffers),
        Action::Attention(kernel) => {
            attention::run(kernel, buffers);
            for buffer in kernel.tensors().into_iter().filter(|_| kernel.rounds) {
                let values = &mut buffers[buffer.index()];
                values.iter_mut().for_each(|value| *value = rounded(*value));
            }
        }
        Action::Gather(kernel) => {
            for i in 0..kernel.count {
                let row = buffers[kernel.indices.index()][i] as usize;
                for j in 0..kernel.width {
                    let value = buffers[kernel.table.index()][row * kernel.width + j];
                    let value = if kernel.rounds { rounded(value) } else { value };
                    buffers[kernel.output.index()][i * kernel.width + j] = value;
                }
            }
        }
        Action::ScatterAdd(kernel) => {
            buffers[kernel.output.index()] = vec![0.0; kernel.rows * kernel.width];
            for i in 0..kernel.count {
                let row = buffers[kernel.indices.index()][i] as usize;
                for j in 0..kernel.width {
                    let update = buffers[kernel.updates.index()][i * kernel.width + j];
                    buffers[kernel.output.index()][row * kernel.width + j] += update;
                }
            }
        }
    }
}

/// A number as bf16 holds it.
fn rounded(value: f64) -> f64 {
    f64::from(Precision::BF16.round(value as f32))
}

/// Every index of a domain, in row-major order.
fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    dims.iter().fold(vec![Vec::new()], |all, &dim| {
        all.iter()
            .flat_map(|index| (0..dim).map(move |i| [&index[..], &[i]].concat()))
            .collect()
    })
}

fn address(access: &Access, row: &[usize], column: usize) -> usize {
    let steps: usize = row
        .iter()
        .zip(&access.strides)
        .map(|(index, stride)| index * stride)
        .sum();
    access.offset + steps + column * access.column_stride
}

/// All values of a program for one row: one number each, or one for each column.
fn row_values(
    program: &Program,
    row: &[usize],
    columns: usize,
    buffers: &Buffers,
    accumulator: Option<&[f64]>,
) -> Vec<Vec<f64>> {
    let mut values: Vec<Vec<f64>> = Vec::new();
    for (instruction, level) in program.instructions.iter().zip(program.levels()) {
        let width = if level == Level::Full { columns } else { 1 };
        let pick = |value: &Vec<f64>, column: usize| {
            if value.len() == 1 {
                value[0]
            } else {
                value[column]
            }
        };
        let value = match instruction {
            Instruction::Load(access) => (0..width)
                .map(|column| buffers[access.buffer.index()][address(access, row, column)])
                .collect(),
            Instruction::Constant(value) => vec![f64::from(*value)],
            Instruction::OuterIndex(axis) => vec![row[*axis] as f64],
            Instruction::ColumnIndex => (0..columns).map(|column| column as f64).collect(),
            Instruction::Accumulator => accumulator.expect("only in epilogues").to_vec(),
            Instruction::Scalar(op, operands) => {
                let apply = |column| {
                    let operands: Vec<f64> = operands
                        .iter()
                        .map(|operand| pick(&values[operand.index()], column))
                        .collect();
                    ScalarOp::evaluate(*op, &operands)
                };
                (0..width).map(apply).collect()
            }
            Instruction::Reduce(combine, operand) => {
                let elements = (0..columns).map(|column| pick(&values[operand.index()], column));
                vec![elements.fold(f64::from(combine.identity()), |a, b| combine.combine(a, b))]
            }
        };
        values.push(value);
    }
    values
}

fn body(
    body: &Body,
    outer: &[usize],
    columns: usize,
    buffers: &mut Buffers,
    accumulator: Option<Accumulator<'_>>,
) {
    let before = buffers.clone();
    let levels = body.program.levels();
    let mut begun = vec![std::collections::HashSet::new(); body.accumulates.len()];
    for row in indices(outer) {
        let given = accumulator.map(|accumulator| accumulator(&row, &before));
        let values = row_values(&body.program, &row, columns, &before, given.as_deref());
        for store in &body.stores {
            let value = &values[store.value.index()];
            let count = if store.access.column_stride == 0 {
                1
            } else {
                columns
            };
            for column in 0..count {
                let element = if value.len() == 1 {
                    value[0]
                } else {
                    value[column]
                };
                let element = match store.access.dtype {
                    DType::BF16 => rounded(element),
                    _ => element,
                };
                buffers[store.access.buffer.index()][address(&store.access, &row, column)] =
                    element;
            }
        }
        for (sum, begun) in body.accumulates.iter().zip(&mut begun) {
            let value = &values[sum.value.index()];
            let full = levels[sum.value.index()] == Level::Full;
            let count = if full || sum.access.column_stride != 0 {
                columns
            } else {
                1
            };
            for column in 0..count {
                let element = if full { value[column] } else { value[0] };
                let at = address(&sum.access, &row, column);
                let target = &mut buffers[sum.access.buffer.index()][at];
                let old = if begun.insert(at) {
                    f64::from(sum.combine.identity())
                } else {
                    *target
                };
                *target = sum.combine.combine(old, element);
            }
        }
    }
}

fn contract(kernel: &ContractKernel, buffers: &mut Buffers) {
    let rounded = |value: f64| match kernel.precision {
        Precision::F32 => value,
        precision => f64::from(precision.round(value as f32)),
    };
    let (rows_at, depth_at, columns_at) =
        (indices(&kernel.m), indices(&kernel.k), indices(&kernel.n));
    // All columns of an operand's last axis.
    let side = |operand: &Operand, row: &[usize], columns: usize, buffers: &Buffers| {
        let values = row_values(&operand.program, row, columns, buffers, None);
        let value = values[operand.value.index()].clone();
        let mut value = match value.len() {
            1 => vec![value[0]; columns],
            _ => value,
        };
        value.iter_mut().for_each(|value| *value = rounded(*value));
        value
    };
    let element = |operand: &Operand, index: &[usize], columns: usize, buffers: &Buffers| {
        let (column, outer) = index.split_last().expect("an axis");
        side(operand, outer, columns, buffers)[*column]
    };
    let accumulator = |row: &[usize], buffers: &Buffers| {
        let (m, batch) = row.split_last().expect("a row of a contraction");
        let mut sums = vec![0.0; kernel.columns()];
        for depth in &depth_at {
            let at = [batch, &rows_at[*m][..], &depth[..]].concat();
            let left = element(&kernel.left, &at, kernel.left_domain().1, buffers);
            let run = kernel.right_domain().1;
            for (sums, at) in sums
                .chunks_mut(run.max(1))
                .zip(columns_at.chunks(run.max(1)))
            {
                let outer = [batch, &depth[..], &at[0][..at[0].len() - 1]].concat();
                let right = side(&kernel.right, &outer, run, buffers);
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum += left * right;
                }
            }
        }
        sums
    };
    let (outer, columns) = kernel.result_domain();
    body(
        &kernel.epilogue,
        &outer,
        columns,
        buffers,
        Some(&accumulator),
    );
}
