//! Loop kernels in double precision, with a bound on what rounding may do.

use super::Buffers;
use crate::ir::{Combine, DType, Precision, ScalarOp};
use crate::schedule::kernel::{
    Access, Action, Body, ContractKernel, Instruction, LoopKernel, Operand, Program,
};

/// A number and how far a float computation may be from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) value: f64,
    pub(super) error: f64,
}

/// Half a unit in the last place, relative.
const ROUNDING: f64 = 6e-8;

impl Number {
    pub(super) fn exact(value: f64) -> Self {
        Number { value, error: 0.0 }
    }

    /// An operand as a product takes it. What is not exact may be rounded the other way.
    fn rounded(self, precision: Precision) -> Self {
        if precision == Precision::F32 {
            return self;
        }
        let value = f64::from(precision.round(self.value as f32));
        let error = match self.error {
            0.0 => 0.0,
            error => error + value.abs() / 128.0,
        };
        Number { value, error }
    }

    /// A computed number: what it comes from, plus rounding, unless floats overflow.
    fn computed(value: f64, error: f64, roundings: f64) -> Self {
        let error = error + roundings * ROUNDING * value.abs() + 1e-44;
        let fits = value.is_nan() || value.abs() < 1e38 || (value.is_infinite() && error.is_nan());
        let error = match () {
            () if value.is_infinite() => 0.0,
            () if fits => error,
            () => f64::INFINITY,
        };
        Number { value, error }
    }

    /// As bf16 holds it: whatever a number as near as this may be rounded to.
    fn halved(self) -> Self {
        let round = |value: f64| f64::from(Precision::BF16.round(value as f32));
        let [low, high] = [-1.0, 1.0].map(|side| round(self.value + side * self.error));
        match high - low {
            _ if self.error == 0.0 => Number::exact(round(self.value)),
            width if width.is_finite() => Number {
                value: low + width / 2.0,
                error: width / 2.0,
            },
            _ => Number {
                value: round(self.value),
                error: f64::INFINITY,
            },
        }
    }

    /// Whether it and another inexact number may be one.
    fn meets(self, other: Self) -> bool {
        let reach = self.error + other.error;
        reach > 0.0 && (self.value - other.value).abs() <= reach
    }

    /// Whether a float is close enough.
    pub(super) fn admits(self, float: f32) -> bool {
        let float = f64::from(float);
        self.error.is_nan()
            || self.error.is_infinite()
            || float == self.value
            || (float.is_nan() && self.value.is_nan())
            || (float - self.value).abs() <= self.error
    }
}

fn distance(a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    let distance = (a - b).abs();
    if distance.is_nan() {
        f64::INFINITY
    } else {
        distance
    }
}

/// An operation on inexact operands: each is moved to the ends of its range.
fn scalar(op: ScalarOp, operands: &[Number]) -> Number {
    let mut values: Vec<f64> = operands.iter().map(|operand| operand.value).collect();
    let value = op.evaluate(&values);
    let mut error = 0.0;
    for (i, operand) in operands.iter().enumerate() {
        if operand.error == 0.0 {
            continue;
        }
        let mut worst: f64 = 0.0;
        for step in [-1.0, -0.5, 0.5, 1.0] {
            values[i] = operand.value + step * operand.error;
            worst = worst.max(distance(op.evaluate(&values), value));
        }
        values[i] = operand.value;
        error += worst * 1.5;
    }
    let exact = matches!(
        op,
        ScalarOp::Identity
            | ScalarOp::Negate
            | ScalarOp::Absolute
            | ScalarOp::Maximum
            | ScalarOp::Minimum
            | ScalarOp::Less
            | ScalarOp::LessEqual
            | ScalarOp::Equal
            | ScalarOp::Select
            | ScalarOp::First
            | ScalarOp::Random
    );
    if exact {
        let compares = matches!(op, ScalarOp::Less | ScalarOp::LessEqual | ScalarOp::Equal);
        return match operands {
            // Either answer is right where the operands may be equal: the ends of their ranges
            // need not show it.
            [a, b] if compares && a.meets(*b) => Number { value, error: 1.0 },
            _ => Number { value, error },
        };
    }
    let absolute = match op {
        // A range of several periods has its ends anywhere; the slope is at most 1.
        ScalarOp::Sin | ScalarOp::Cos => 2e-7 + operands[0].error.min(2.0),
        // Tiny floats are no longer exact.
        ScalarOp::Exp | ScalarOp::Sigmoid => 1e-37,
        _ => 0.0,
    };
    Number::computed(value, error + absolute, 10.0)
}

/// Many numbers in one.
pub(super) fn combine(how: Combine, numbers: &[Number]) -> Number {
    let start = f64::from(how.identity());
    let values = numbers.iter().map(|number| number.value);
    let value = values.fold(start, |a, b| how.combine(a, b));
    let errors = numbers.iter().map(|number| number.error);
    match how {
        Combine::Sum => {
            let size: f64 = numbers.iter().map(|number| number.value.abs()).sum();
            let roundings = 8.0 + 2.0 * (numbers.len() as f64).sqrt();
            let size = if size.is_finite() { size } else { 0.0 };
            Number::computed(
                value,
                errors.sum::<f64>() + roundings * ROUNDING * size,
                1.0,
            )
        }
        Combine::Maximum => Number {
            value,
            error: errors.fold(0.0, f64::max),
        },
    }
}

fn read(access: &Access, buffers: &Buffers, index: &[usize], column: usize) -> Number {
    let bits = buffers.0[access.buffer.index()].bits[address(access, index, column)];
    Number::exact(match access.dtype {
        DType::U32 => f64::from(bits as f32),
        _ => f64::from(f32::from_bits(bits)),
    })
}

fn address(access: &Access, index: &[usize], column: usize) -> usize {
    let steps = index.iter().zip(&access.strides);
    access.offset
        + steps.map(|(i, stride)| i * stride).sum::<usize>()
        + column * access.column_stride
}

/// All values of a program for one row: by instruction, then by column.
fn row(
    program: &Program,
    buffers: &Buffers,
    index: &[usize],
    columns: usize,
    product: &dyn Fn(usize) -> Number,
) -> Vec<Vec<Number>> {
    let mut values: Vec<Vec<Number>> = Vec::new();
    for instruction in &program.instructions {
        let value = |column: usize| match instruction {
            Instruction::Load(access) => read(access, buffers, index, column),
            Instruction::Constant(value) => Number::exact(f64::from(*value)),
            Instruction::OuterIndex(axis) => Number::exact(index[*axis] as f64),
            Instruction::ColumnIndex => Number::exact(column as f64),
            Instruction::Scalar(op, operands) => {
                let operands: Vec<Number> = operands
                    .iter()
                    .map(|operand| values[operand.index()][column])
                    .collect();
                scalar(*op, &operands)
            }
            Instruction::Reduce(how, operand) => combine(*how, &values[operand.index()][..columns]),
            Instruction::Accumulator => product(column),
        };
        // Row values exist even where there are no columns.
        let full = program.levels()[values.len()] == crate::schedule::kernel::Level::Full;
        let row = if full {
            (0..columns).map(value).collect()
        } else {
            vec![value(0); columns.max(1)]
        };
        values.push(row);
    }
    values
}

/// Every index of some axes, in order.
pub(super) fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &dim in dims {
        all = all
            .into_iter()
            .flat_map(|index: Vec<usize>| {
                (0..dim).map(move |i| index.iter().copied().chain([i]).collect())
            })
            .collect();
    }
    all
}

/// For each buffer and element, what a kernel leaves there; none where it writes nothing.
pub(super) type Results = Vec<Vec<Option<Number>>>;

/// What an action leaves behind.
pub(super) fn run(action: &Action, buffers: &Buffers) -> Results {
    let mut results = buffers
        .0
        .iter()
        .map(|contents| vec![None; contents.bits.len()])
        .collect();
    match action {
        Action::Loop(LoopKernel {
            outer,
            columns,
            body,
        }) => {
            let nothing = |_: &[usize], _: usize| Number::exact(f64::NAN);
            run_body(body, buffers, outer, *columns, &nothing, &mut results);
        }
        Action::Contract(kernel) => contract(kernel, buffers, &mut results),
        _ => {}
    }
    results
}

fn contract(kernel: &ContractKernel, buffers: &Buffers, results: &mut Results) {
    let (outer, columns) = kernel.result_domain();
    let (rows_at, depth_at, columns_at) =
        (indices(&kernel.m), indices(&kernel.k), indices(&kernel.n));
    let product = |index: &[usize], column: usize| {
        let (m, batch) = index.split_last().expect("a row");
        let at = |parts: [&Vec<usize>; 2]| [batch, parts[0], parts[1]].concat();
        let terms: Vec<Number> = (0..kernel.depth())
            .map(|k| {
                let left = at([&rows_at[*m], &depth_at[k]]);
                let right = at([&depth_at[k], &columns_at[column]]);
                let left = element(&kernel.left, buffers, &left).rounded(kernel.precision);
                let right = element(&kernel.right, buffers, &right).rounded(kernel.precision);
                scalar(ScalarOp::Multiply, &[left, right])
            })
            .collect();
        combine(Combine::Sum, &terms)
    };
    let body = &kernel.epilogue;
    run_body(body, buffers, &outer, columns, &product, results);
}

/// An element of an operand, whose last axis is the program's columns.
fn element(operand: &Operand, buffers: &Buffers, index: &[usize]) -> Number {
    let (column, outer) = index.split_last().expect("at least an axis");
    let mut values: Vec<Number> = Vec::new();
    for instruction in &operand.program.instructions {
        values.push(match instruction {
            Instruction::Load(access) => read(access, buffers, outer, *column),
            Instruction::Constant(value) => Number::exact(f64::from(*value)),
            Instruction::OuterIndex(axis) => Number::exact(outer[*axis] as f64),
            Instruction::ColumnIndex => Number::exact(*column as f64),
            Instruction::Scalar(op, operands) => {
                let operands = operands.iter().map(|operand| values[operand.index()]);
                scalar(*op, &operands.collect::<Vec<_>>())
            }
            Instruction::Reduce(..) | Instruction::Accumulator => Number::exact(f64::NAN),
        });
    }
    values[operand.value.index()]
}

fn run_body(
    body: &Body,
    buffers: &Buffers,
    outer: &[usize],
    columns: usize,
    product: &dyn Fn(&[usize], usize) -> Number,
    results: &mut Results,
) {
    let levels = body.program.levels();
    let mut sums: Vec<std::collections::BTreeMap<usize, Vec<Number>>> =
        vec![Default::default(); body.accumulates.len()];
    for (sums, sum) in sums.iter_mut().zip(&body.accumulates) {
        // A result exists even when nothing is added to it.
        let kept: Vec<usize> = outer
            .iter()
            .zip(&sum.access.strides)
            .map(|(&dim, &stride)| if stride == 0 { 1 } else { dim })
            .collect();
        let columns = if sum.access.column_stride == 0 {
            1
        } else {
            columns
        };
        for index in indices(&kept) {
            for column in 0..columns {
                sums.insert(address(&sum.access, &index, column), Vec::new());
            }
        }
    }
    for index in indices(outer) {
        let at = |column: usize| product(&index, column);
        let values = row(&body.program, buffers, &index, columns, &at);
        for store in &body.stores {
            let of_row = store.access.column_stride == 0;
            let count = if of_row { 1 } else { columns };
            let row = values[store.value.index()].iter().take(count);
            for (column, &value) in row.enumerate() {
                let to = address(&store.access, &index, column);
                results[store.access.buffer.index()][to] = Some(match store.access.dtype {
                    DType::BF16 => value.halved(),
                    _ => value,
                });
            }
        }
        for (sums, sum) in sums.iter_mut().zip(&body.accumulates) {
            let once = sum.access.column_stride == 0
                && levels[sum.value.index()] == crate::schedule::kernel::Level::Row;
            let count = if once { 1 } else { columns };
            let row = values[sum.value.index()].iter().take(count);
            for (column, &value) in row.enumerate() {
                let to = address(&sum.access, &index, column);
                sums.entry(to).or_default().push(value);
            }
        }
    }
    for (sums, sum) in sums.iter().zip(&body.accumulates) {
        for (&to, numbers) in sums {
            results[sum.access.buffer.index()][to] = Some(combine(sum.combine, numbers));
        }
    }
}

/// Compares what a kernel left behind; the worst, in words.
pub(super) fn compare(results: &Results, before: &Buffers, after: &Buffers) -> Result<(), String> {
    for (buffer, expected) in results.iter().enumerate() {
        let contents = &after.0[buffer];
        for (element, number) in expected.iter().enumerate() {
            let bits = contents.bits[element];
            let right = match number {
                None => bits == before.0[buffer].bits[element],
                Some(number) if contents.dtype == DType::U32 => f64::from(bits) == number.value,
                Some(number) => number.admits(f32::from_bits(bits)),
            };
            if !right {
                return Err(format!(
                    "buffer {buffer} element {element}: {} for {number:?}",
                    f32::from_bits(bits)
                ));
            }
        }
    }
    Ok(())
}
