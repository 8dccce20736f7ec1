//! Products, with what comes before and after them.

use super::*;
use crate::ir::Precision;

pub(super) fn operand(access: Access) -> Operand {
    let mut program = Program::default();
    let value = program.push(Instruction::Load(access));
    Operand { program, value }
}

pub(super) fn product_only(strides: &[usize]) -> Body {
    let mut body = Body::default();
    let value = body.program.push(Instruction::Accumulator);
    let access = access(2, strides, 1);
    body.stores.push(Store { value, access });
    body
}

/// A batched product; either side may lie transposed in memory.
pub(super) fn contract(
    name: &str,
    batch: &[usize],
    m: usize,
    n: usize,
    k: usize,
    transposed: [bool; 2],
) -> Sample {
    let batches: usize = batch.iter().product();
    let strides = |rows: usize, columns: usize, row: usize| {
        let mut strides = super::super::split::row_strides(batch, rows * columns);
        strides.push(row);
        strides
    };
    let left = match transposed[0] {
        false => access(0, &strides(m, k, k), 1),
        true => access(0, &strides(m, k, 1), m),
    };
    let right = match transposed[1] {
        false => access(1, &strides(k, n, n), 1),
        true => access(1, &strides(k, n, 1), k),
    };
    let kernel = ContractKernel {
        batch: batch.to_vec(),
        m: vec![m],
        n: vec![n],
        k: vec![k],
        left: operand(left),
        right: operand(right),
        epilogue: product_only(&strides(m, n, n)),
        precision: Precision::F32,
    };
    let buffers = vec![
        floats(batches * m * k),
        floats(batches * k * n),
        floats(batches * m * n),
    ];
    sample(name, Action::Contract(kernel), buffers)
}

/// The same product of rounded operands.
pub(super) fn rounded(mut sample: Sample) -> Sample {
    if let Action::Contract(kernel) = &mut sample.kernel.action {
        kernel.precision = Precision::BF16;
    }
    sample.kernel.name.push_str(", rounded");
    sample
}

/// A right side that all batches share.
pub(super) fn shared_right() -> Sample {
    let mut sample = contract("shared right side", &[4], 6, 8, 12, [false, false]);
    if let Action::Contract(kernel) = &mut sample.kernel.action
        && let Instruction::Load(access) = &mut kernel.right.program.instructions[0]
    {
        access.strides[0] = 0;
    }
    sample
}

/// A kernel over several axes of rows, columns and depth.
pub(super) fn compound(
    name: &str,
    [batch, m, n, k]: [&[usize]; 4],
    [left, right]: [Operand; 2],
    epilogue: Body,
    buffers: Vec<Contents>,
) -> Sample {
    let kernel = ContractKernel {
        batch: batch.to_vec(),
        m: m.to_vec(),
        n: n.to_vec(),
        k: k.to_vec(),
        left,
        right,
        epilogue,
        precision: Precision::F32,
    };
    sample(name, Action::Contract(kernel), buffers)
}

/// A convolution of images `[n, c, h, w]` with windows of 3 × 2, as a product with the weight
/// on the left: windows are read where they lie.
pub(super) fn convolution([images, channels, height, width]: [usize; 4], outputs: usize) -> Sample {
    let (down, across) = (height - 2, width - 1);
    let (plane, k) = (height * width, channels * 6);
    let image = channels * plane;
    let weight = operand(access(0, &[0, k, 6, 2], 1));
    let windows = operand(access(1, &[image, plane, width, 1, width], 1));
    let places = down * across;
    compound(
        "convolution",
        [&[images], &[outputs], &[down, across], &[channels, 3, 2]],
        [weight, windows],
        product_only(&[outputs * places, places]),
        vec![
            floats(outputs * k),
            floats(images * image),
            floats(images * outputs * places),
        ],
    )
}

/// The gradient of a convolution's weight, with windows of 3 × 2 two rows apart.
pub(super) fn convolution_weight(
    [images, channels, height, width]: [usize; 4],
    outputs: usize,
) -> Sample {
    let (down, across) = ((height - 3) / 2 + 1, width - 1);
    let (plane, places) = (height * width, down * across);
    let image = channels * plane;
    let gradient = operand(access(0, &[places, outputs * places, across], 1));
    let windows = operand(access(1, &[image, 2 * width, 1, plane, width], 1));
    compound(
        "convolution's weight",
        [&[], &[outputs], &[channels, 3, 2], &[images, down, across]],
        [gradient, windows],
        product_only(&[channels * 6]),
        vec![
            floats(images * outputs * places),
            floats(images * image),
            floats(outputs * channels * 6),
        ],
    )
}

/// Heads of an attention, `[batch, head, time, 5]`, side by side as rows of a product whose
/// columns are heads again, and the product cut into halves by its rows.
pub(super) fn heads() -> Sample {
    let (batch, heads, time) = (2, 3, 4);
    let left = operand(access(0, &[heads * time * 5, 5, time * 5], 1));
    let right = operand(access(1, &[1, 15, 45], 3));
    compound(
        "heads",
        [&[], &[batch, time], &[heads, 4], &[heads, 5]],
        [left, right],
        product_only(&[heads * 4]),
        vec![
            floats(batch * heads * time * 5),
            floats(500),
            floats(batch * time * heads * 4),
        ],
    )
}

/// A product of computed sides with bias, activation, residual, and sums over the result.
pub(super) fn fused_contract(k: usize) -> Sample {
    let (m, n) = (18, 10);
    let mut left = Builder::default();
    let x = left.load(access(0, &[m * k, k], 1));
    let zero = left.number(0.0);
    let left_value = left.op(Maximum, &[x, zero]);
    let mut right = Builder::default();
    let w = right.load(access(1, &[k * n, n], 1));
    let scale = right.load(access(3, &[0, 1], 0));
    let right_value = right.op(Multiply, &[w, scale]);
    let mut e = Builder::default();
    let product = e.0.program.push(Instruction::Accumulator);
    let bias = e.load(access(4, &[0, 0], 1));
    let residual = e.load(access(5, &[m * n, n], 1));
    let row = e.0.program.push(Instruction::OuterIndex(1));
    let out = e.op(Add, &[product, bias]);
    let out = e.op(Tanh, &[out]);
    let out = e.op(Add, &[out, residual]);
    let scaled = e.op(Multiply, &[out, row]);
    e.store(scaled, access(2, &[m * n, n], 1));
    e.accumulate(Combine::Sum, out, access(6, &[0, 0], 1));
    e.accumulate(Combine::Maximum, product, access(7, &[1, 0], 0));
    let kernel = ContractKernel {
        batch: vec![2],
        m: vec![m],
        n: vec![n],
        k: vec![k],
        left: Operand {
            program: left.0.program,
            value: left_value,
        },
        right: Operand {
            program: right.0.program,
            value: right_value,
        },
        epilogue: e.0,
        precision: Precision::F32,
    };
    let sizes = [2 * m * k, 2 * k * n, 2 * m * n, k, n, 2 * m * n, n, 2];
    sample(
        "fused product",
        Action::Contract(kernel),
        sizes.map(floats).to_vec(),
    )
}
