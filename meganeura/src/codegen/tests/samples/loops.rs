//! Elementwise work, reductions, sums over rows.

use super::*;

pub(super) fn elementwise() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[32, 8], 1));
    let y = b.load(access(1, &[32, 8], 1));
    let half = b.number(0.5);
    let y = b.op(Multiply, &[y, half]);
    let sum = b.op(Add, &[x, y]);
    let out = b.op(Tanh, &[sum]);
    b.store(out, access(2, &[32, 8], 1));
    b.looped(
        "elementwise",
        &[3, 4],
        8,
        vec![floats(96), floats(96), floats(96)],
    )
}

/// A transposed operand, a broadcast one, offsets, indices.
pub(super) fn strided() -> Sample {
    let mut b = Builder::default();
    let x = b.load(Access {
        offset: 2,
        ..access(0, &[1, 5], 15)
    });
    let bias = b.load(access(1, &[0, 0], 1));
    let scale = b.load(access(2, &[1, 0], 0));
    let row = b.0.program.push(Instruction::OuterIndex(1));
    let column = b.0.program.push(Instruction::ColumnIndex);
    let x = b.op(Multiply, &[x, scale]);
    let x = b.op(Add, &[x, bias]);
    let place = b.op(Multiply, &[row, column]);
    let out = b.op(Add, &[x, place]);
    b.store(out, access(3, &[21, 7], 1));
    b.looped(
        "strided",
        &[5, 3],
        7,
        vec![floats(120), floats(7), floats(5), floats(105)],
    )
}

pub(super) fn integers() -> Sample {
    let mut b = Builder::default();
    let word = |access: Access| Access {
        dtype: DType::U32,
        ..access
    };
    let labels = b.load(word(access(0, &[1], 0)));
    let column = b.0.program.push(Instruction::ColumnIndex);
    let hit = b.op(ScalarOp::Equal, &[labels, column]);
    b.store(hit, access(1, &[4], 1));
    let next = b.op(Add, &[labels, column]);
    b.store(next, word(access(2, &[4], 1)));
    let buffers = vec![words(&[2, 0, 3]), floats(12), words(&[9; 12])];
    b.looped("one hot", &[3], 4, buffers)
}

/// A row value and a full value side by side, without reductions.
pub(super) fn row_store() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[4], 1));
    let r = b.load(access(1, &[1], 0));
    let double = b.op(Add, &[r, r]);
    let out = b.op(Add, &[x, double]);
    b.store(out, access(2, &[4], 1));
    b.store(double, access(3, &[1], 0));
    b.looped(
        "row store",
        &[6],
        4,
        vec![floats(24), floats(6), floats(24), floats(6)],
    )
}

pub(super) fn softmax_body(output: u32, columns: usize) -> Builder {
    let mut b = Builder::default();
    let x = b.load(access(0, &[columns], 1));
    let largest = b.reduce(Combine::Maximum, x);
    let shifted = b.op(Subtract, &[x, largest]);
    let e = b.op(Exp, &[shifted]);
    let sum = b.reduce(Combine::Sum, e);
    let out = b.op(Divide, &[e, sum]);
    b.store(out, access(output, &[columns], 1));
    b
}

pub(super) fn softmax(rows: usize, columns: usize) -> Sample {
    let buffers = vec![floats(rows * columns), floats(rows * columns)];
    softmax_body(1, columns).looped("softmax", &[rows], columns, buffers)
}

pub(super) fn in_place_softmax() -> Sample {
    let mut sample =
        softmax_body(1, 24).looped("softmax in place", &[6], 24, vec![floats(144), floats(144)]);
    sample.aliases.push((0, 1));
    sample
}

/// Mean and reciprocal deviation of rows, and the normalized rows.
pub(super) fn normalize(b: &mut Builder, x: ValueId, columns: usize) -> (ValueId, ValueId) {
    let share = b.number(1.0 / columns as f32);
    let sum = b.reduce(Combine::Sum, x);
    let mean = b.op(Multiply, &[sum, share]);
    let centered = b.op(Subtract, &[x, mean]);
    let square = b.op(Multiply, &[centered, centered]);
    let sum = b.reduce(Combine::Sum, square);
    let variance = b.op(Multiply, &[sum, share]);
    let epsilon = b.number(1e-5);
    let variance = b.op(Add, &[variance, epsilon]);
    let scale = b.op(ReciprocalSqrt, &[variance]);
    (b.op(Multiply, &[centered, scale]), scale)
}

pub(super) fn layer_norm(rows: usize, columns: usize) -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[columns], 1));
    let weight = b.load(access(1, &[0], 1));
    let (normal, scale) = normalize(&mut b, x, columns);
    let out = b.op(Multiply, &[normal, weight]);
    b.store(out, access(2, &[columns], 1));
    b.store(scale, access(3, &[1], 0));
    let full = floats(rows * columns);
    b.looped(
        "layer norm",
        &[rows],
        columns,
        vec![full.clone(), floats(columns), full, floats(rows)],
    )
}

/// The gradients of a LayerNorm: of its input by rows, of weight and bias over rows.
pub(super) fn layer_norm_backward(rows: usize, columns: usize) -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[columns], 1));
    let weight = b.load(access(1, &[0], 1));
    let gradient = b.load(access(2, &[columns], 1));
    let (normal, scale) = normalize(&mut b, x, columns);
    let share = b.number(1.0 / columns as f32);
    let weighted = b.op(Multiply, &[gradient, weight]);
    let along = b.op(Multiply, &[weighted, normal]);
    let along = b.reduce(Combine::Sum, along);
    let along = b.op(Multiply, &[along, share]);
    let mean = b.reduce(Combine::Sum, weighted);
    let mean = b.op(Multiply, &[mean, share]);
    let part = b.op(Multiply, &[normal, along]);
    let rest = b.op(Subtract, &[weighted, mean]);
    let rest = b.op(Subtract, &[rest, part]);
    let out = b.op(Multiply, &[rest, scale]);
    b.store(out, access(3, &[columns], 1));
    let of_weight = b.op(Multiply, &[gradient, normal]);
    b.accumulate(Combine::Sum, of_weight, access(4, &[0], 1));
    b.accumulate(Combine::Sum, gradient, access(5, &[0], 1));
    let full = floats(rows * columns);
    let row = floats(columns);
    let buffers = vec![
        full.clone(),
        row.clone(),
        full.clone(),
        full,
        row.clone(),
        row,
    ];
    b.looped("layer norm backward", &[rows], columns, buffers)
}

/// A mean over everything, and the largest element.
pub(super) fn total(rows: usize, columns: usize) -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[columns], 1));
    let share = b.number(1.0 / (rows * columns) as f32);
    let square = b.op(Multiply, &[x, x]);
    let part = b.op(Multiply, &[square, share]);
    b.accumulate(Combine::Sum, part, access(1, &[0], 0));
    b.accumulate(Combine::Maximum, x, access(2, &[0], 0));
    b.looped(
        "total",
        &[rows],
        columns,
        vec![floats(rows * columns), floats(1), floats(1)],
    )
}

/// Sums that keep an axis between two that go.
pub(super) fn middle_axes() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[160, 40, 8], 1));
    b.accumulate(Combine::Sum, x, access(1, &[0, 8, 0], 1));
    b.accumulate(Combine::Sum, x, access(2, &[0, 1, 0], 0));
    b.looped(
        "middle axes",
        &[3, 4, 5],
        8,
        vec![floats(480), floats(32), floats(4)],
    )
}

pub(super) fn maximum_over_rows() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[6], 1));
    b.accumulate(Combine::Maximum, x, access(1, &[0], 1));
    let mut data = floats(1800);
    data.values[6 * 17 + 2] = f64::NAN;
    b.looped("maximum over rows", &[300], 6, vec![data, floats(6)])
}

pub(super) fn empty_rows() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[4], 1));
    b.store(x, access(1, &[4], 1));
    b.accumulate(Combine::Sum, x, access(2, &[0], 1));
    b.looped("no rows", &[0], 4, vec![floats(4), floats(4), floats(4)])
}

pub(super) fn empty_columns() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[0], 1));
    let sum = b.reduce(Combine::Sum, x);
    let largest = b.reduce(Combine::Maximum, x);
    b.store(sum, access(1, &[1], 0));
    b.store(largest, access(2, &[1], 0));
    b.looped("no columns", &[3], 0, vec![floats(1), floats(3), floats(3)])
}

/// A kernel that overwrites what a sum over rows reads.
pub(super) fn overwritten() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[8], 1));
    let square = b.op(Multiply, &[x, x]);
    b.store(square, access(0, &[8], 1));
    b.accumulate(Combine::Sum, x, access(1, &[0], 1));
    b.looped("overwritten", &[20], 8, vec![floats(160), floats(8)])
}
