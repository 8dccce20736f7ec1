//! What kernels mean, in double precision and the plainest way.

use crate::ir::{DType, Precision};
use crate::schedule::kernel::{
    Access, Action, Body, ContractKernel, Instruction, Kernel, Level, LoopKernel, Program, ValueId,
};

#[path = "attention.rs"]
mod attention;

/// What the reference of attention works with.
mod kernel {
    pub(super) use crate::ir::DType;
    pub(super) use crate::schedule::attention::{AttentionKernel, AttentionPass};
    pub(super) use crate::schedule::kernel::Access;
}

/// The contents of buffers, whatever their type.
pub(crate) type Buffers = Vec<Vec<f64>>;

/// Run a kernel. Everything is read before anything is written.
pub(crate) fn run(kernel: &Kernel, buffers: &mut Buffers) {
    let old = buffers.clone();
    match &kernel.action {
        Action::Loop(kernel) => run_loop(kernel, &old, buffers),
        Action::Contract(kernel) => run_contract(kernel, &old, buffers),
        Action::Attention(kernel) => {
            attention::run(kernel, buffers);
            for buffer in kernel.tensors().into_iter().filter(|_| kernel.rounds) {
                for value in &mut buffers[buffer.index()] {
                    *value = rounded(*value);
                }
            }
        }
        Action::Gather(kernel) => {
            for i in 0..kernel.count {
                let row = old[kernel.indices.index()][i] as usize;
                for j in 0..kernel.width {
                    let table = &old[kernel.table.index()];
                    let value = if row < kernel.rows {
                        table[row * kernel.width + j]
                    } else {
                        f64::NAN
                    };
                    let value = if kernel.rounds { rounded(value) } else { value };
                    buffers[kernel.output.index()][i * kernel.width + j] = value;
                }
            }
        }
        Action::ScatterAdd(kernel) => {
            let output = &mut buffers[kernel.output.index()];
            output[..kernel.rows * kernel.width].fill(0.0);
            for i in 0..kernel.count {
                let row = old[kernel.indices.index()][i] as usize;
                if row < kernel.rows {
                    for j in 0..kernel.width {
                        output[row * kernel.width + j] +=
                            old[kernel.updates.index()][i * kernel.width + j];
                    }
                }
            }
        }
    }
}

/// A number as bf16 holds it.
pub(crate) fn rounded(value: f64) -> f64 {
    f64::from(Precision::BF16.round(value as f32))
}

/// Every index of a domain.
fn indices(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &size in sizes {
        all = all
            .iter()
            .flat_map(|index| (0..size).map(move |i| [index.as_slice(), &[i]].concat()))
            .collect();
    }
    all
}

fn position(access: &Access, outer: &[usize], column: usize) -> usize {
    let rows: usize = outer
        .iter()
        .zip(&access.strides)
        .map(|(i, stride)| i * stride)
        .sum();
    access.offset + rows + column * access.column_stride
}

/// The values of a program in one row, each for every column.
fn row_values(
    program: &Program,
    old: &Buffers,
    outer: &[usize],
    columns: usize,
    accumulator: &dyn Fn(usize) -> f64,
) -> Vec<Vec<f64>> {
    let mut values: Vec<Vec<f64>> = Vec::new();
    for instruction in &program.instructions {
        let value = |column: usize| match instruction {
            Instruction::Load(access) => {
                old[access.buffer.index()][position(access, outer, column)]
            }
            Instruction::Constant(value) => f64::from(*value),
            Instruction::OuterIndex(axis) => outer[*axis] as f64,
            Instruction::ColumnIndex => column as f64,
            Instruction::Scalar(op, operands) => {
                let operands: Vec<f64> =
                    operands.iter().map(|o| values[o.index()][column]).collect();
                op.evaluate(&operands)
            }
            Instruction::Reduce(how, operand) => {
                let all = values[operand.index()][..columns].iter();
                all.fold(f64::from(how.identity()), |a, &b| how.combine(a, b))
            }
            Instruction::Accumulator => accumulator(column),
        };
        let width = columns.max(1);
        let row = match instruction {
            // Row values exist even without columns.
            Instruction::Load(_) | Instruction::Scalar(..) if columns == 0 => vec![0.0],
            _ => (0..width).map(value).collect(),
        };
        values.push(row);
    }
    values
}

fn run_body(
    body: &Body,
    outer_sizes: &[usize],
    columns: usize,
    old: &Buffers,
    buffers: &mut Buffers,
    accumulator: &dyn Fn(&[usize], usize) -> f64,
) {
    let levels = body.program.levels();
    for sum in &body.accumulates {
        for outer in indices(outer_sizes) {
            for column in 0..columns.max(1) {
                let at = position(&sum.access, &outer, column);
                buffers[sum.access.buffer.index()][at] = f64::from(sum.combine.identity());
            }
        }
        if outer_sizes.contains(&0) {
            buffers[sum.access.buffer.index()].fill(f64::from(sum.combine.identity()));
        }
    }
    for outer in indices(outer_sizes) {
        let values = row_values(&body.program, old, &outer, columns, &|column| {
            accumulator(&outer, column)
        });
        let times = |value: ValueId, access: &Access| {
            let once = levels[value.index()] == Level::Row && access.column_stride == 0;
            if once { 1 } else { columns }
        };
        for store in &body.stores {
            let row = &values[store.value.index()];
            for (column, &value) in row
                .iter()
                .enumerate()
                .take(times(store.value, &store.access))
            {
                let at = position(&store.access, &outer, column);
                buffers[store.access.buffer.index()][at] = match store.access.dtype {
                    DType::BF16 => rounded(value),
                    _ => value,
                };
            }
        }
        for sum in &body.accumulates {
            let row = &values[sum.value.index()];
            for (column, &value) in row.iter().enumerate().take(times(sum.value, &sum.access)) {
                let at = position(&sum.access, &outer, column);
                let target = &mut buffers[sum.access.buffer.index()][at];
                *target = sum.combine.combine(*target, value);
            }
        }
    }
}

fn run_loop(kernel: &LoopKernel, old: &Buffers, buffers: &mut Buffers) {
    run_body(
        &kernel.body,
        &kernel.outer,
        kernel.columns,
        old,
        buffers,
        &|_, _| 0.0,
    );
}

fn run_contract(kernel: &ContractKernel, old: &Buffers, buffers: &mut Buffers) {
    // An element of a side, whose last axis is the program's columns.
    let element = |program: &Program, value: ValueId, index: &[usize], columns: usize| {
        let (column, outer) = index.split_last().expect("an axis");
        row_values(program, old, outer, columns, &|_| 0.0)[value.index()][*column]
    };
    let rounded = |value: f64| match kernel.precision {
        Precision::F32 => value,
        precision => f64::from(precision.round(value as f32)),
    };
    let (outer, columns) = kernel.result_domain();
    let (rows_at, depth_at, columns_at) =
        (indices(&kernel.m), indices(&kernel.k), indices(&kernel.n));
    let run = kernel.right_domain().1;
    let mut products = Vec::new();
    for index in indices(&outer) {
        let (m, batch) = index.split_last().expect("a row");
        let mut row = vec![0.0; columns];
        for depth in &depth_at {
            let (left, run_of_k) = (&kernel.left, kernel.left_domain().1);
            let at = [batch, &rows_at[*m], depth].concat();
            let left = rounded(element(&left.program, left.value, &at, run_of_k));
            for (sums, at) in row
                .chunks_mut(run.max(1))
                .zip(columns_at.chunks(run.max(1)))
            {
                let at = [batch, depth, &at[0][..at[0].len() - 1]].concat();
                let right = row_values(&kernel.right.program, old, &at, run, &|_| 0.0);
                for (n, sum) in sums.iter_mut().enumerate() {
                    *sum += left * rounded(right[kernel.right.value.index()][n]);
                }
            }
        }
        products.push(row);
    }
    let row_of = |index: &[usize]| {
        index
            .iter()
            .zip(&outer)
            .fold(0, |row, (i, size)| row * size + i)
    };
    run_body(
        &kernel.epilogue,
        &outer,
        columns,
        old,
        buffers,
        &|index, n| products[row_of(index)][n],
    );
}

/// The largest difference between two buffers relative to the norm of the expected one;
/// infinite where one is NaN or infinite and the other not.
#[cfg(feature = "gpu")]
pub(crate) fn difference(actual: &[f64], expected: &[f64]) -> f64 {
    let (mut off, mut norm) = (0.0, 0.0);
    for (a, e) in actual.iter().zip(expected) {
        if e.is_finite() != a.is_finite() || e.is_nan() != a.is_nan() {
            return f64::INFINITY;
        }
        if e.is_finite() {
            off += (a - e) * (a - e);
            norm += e * e;
        } else if !e.is_nan() && a != e {
            return f64::INFINITY;
        }
    }
    f64::sqrt(off / f64::max(norm, 1e-30))
}
