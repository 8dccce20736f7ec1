//! Kernels of every archetype, with data.

use crate::ir::{Combine, DType, ScalarOp};
use crate::schedule::attention::{AttentionKernel, AttentionPass};
use crate::schedule::kernel::{
    Access, Accumulate, Action, Body, BufferId, ContractKernel, GatherKernel, Instruction, Kernel,
    LoopKernel, Operand, Program, ScatterAddKernel, Store, ValueId,
};
use ScalarOp::{Add, Divide, Exp, Maximum, Multiply, ReciprocalSqrt, Subtract, Tanh};

/// A kernel and the buffers it works on.
pub(crate) struct Sample {
    pub kernel: Kernel,
    pub buffers: Vec<Contents>,
    /// Pairs of buffers that lie in the same place.
    pub aliases: Vec<(u32, u32)>,
}

/// The type and first contents of a buffer.
#[derive(Clone)]
pub(crate) struct Contents {
    pub dtype: DType,
    pub values: Vec<f64>,
}

impl Sample {
    pub fn same_place(&self, a: BufferId, b: BufferId) -> bool {
        let pair = (a.0.min(b.0), a.0.max(b.0));
        a == b || self.aliases.contains(&pair)
    }
}

/// Smoothly irregular floats between −1 and 1.
pub(crate) fn floats(count: usize) -> Contents {
    let values = (0..count)
        .map(|i| (i as f64 * 12.9898 + 0.3).sin())
        .map(|x| f64::from(x as f32));
    Contents {
        dtype: DType::F32,
        values: values.collect(),
    }
}

fn words(values: &[u32]) -> Contents {
    Contents {
        dtype: DType::U32,
        values: values.iter().map(|&value| f64::from(value)).collect(),
    }
}

pub(crate) fn access(buffer: u32, strides: &[usize], column_stride: usize) -> Access {
    Access {
        buffer: BufferId(buffer),
        dtype: DType::F32,
        offset: 0,
        strides: strides.to_vec(),
        column_stride,
    }
}

/// Builds a body.
#[derive(Default)]
pub(crate) struct Builder(pub Body);

impl Builder {
    pub fn load(&mut self, access: Access) -> ValueId {
        self.0.program.push(Instruction::Load(access))
    }

    pub fn number(&mut self, value: f32) -> ValueId {
        self.0.program.push(Instruction::Constant(value))
    }

    pub fn op(&mut self, op: ScalarOp, operands: &[ValueId]) -> ValueId {
        self.0
            .program
            .push(Instruction::Scalar(op, operands.to_vec()))
    }

    pub fn reduce(&mut self, how: Combine, value: ValueId) -> ValueId {
        self.0.program.push(Instruction::Reduce(how, value))
    }

    pub fn store(&mut self, value: ValueId, access: Access) {
        self.0.stores.push(Store { value, access });
    }

    pub fn accumulate(&mut self, combine: Combine, value: ValueId, access: Access) {
        self.0.accumulates.push(Accumulate {
            combine,
            value,
            access,
        });
    }

    pub fn looped(
        self,
        name: &str,
        outer: &[usize],
        columns: usize,
        buffers: Vec<Contents>,
    ) -> Sample {
        let kernel = LoopKernel {
            outer: outer.to_vec(),
            columns,
            body: self.0,
        };
        sample(name, Action::Loop(kernel), buffers)
    }
}

pub(crate) fn sample(name: &str, action: Action, buffers: Vec<Contents>) -> Sample {
    Sample {
        kernel: Kernel {
            name: name.to_owned(),
            action,
        },
        buffers,
        aliases: Vec::new(),
    }
}

/// All samples; the first is a loop.
pub(crate) fn samples() -> Vec<Sample> {
    let mut all = vec![elementwise(), strided(), integers(), row_store()];
    for (rows, columns) in [(5, 12), (5, 7), (40, 8), (2, 3000), (1, 1), (70, 300)] {
        all.push(softmax(rows, columns));
        all.push(layer_norm(rows, columns));
        all.push(layer_norm_backward(rows, columns));
    }
    all.extend([
        in_place_softmax(),
        total(50, 9),
        total(1, 5000),
        total(3000, 1),
        middle_axes(),
    ]);
    all.extend([
        maximum_over_rows(),
        empty_rows(),
        empty_columns(),
        overwritten(),
    ]);
    for (m, n, k) in [
        (5, 7, 9),
        (64, 48, 32),
        (1, 1, 1),
        (33, 4, 20),
        (3, 70, 5),
        (130, 72, 40),
    ] {
        all.push(contract("product", &[], m, n, k, [false, false]));
    }
    all.push(contract("large tiles", &[8], 384, 260, 20, [false, false]));
    all.push(contract(
        "large tiles, ragged",
        &[16],
        257,
        131,
        9,
        [false, true],
    ));
    for width in [8, 3, 1] {
        all.extend([attention(width, false), attention(width, true)]);
    }
    for transposed in [[true, false], [false, true], [true, true]] {
        all.push(contract("transposed", &[2, 3], 9, 12, 10, transposed));
    }
    all.extend([
        contract("nothing", &[], 4, 4, 0, [false, false]),
        shared_right(),
        fused_contract(12),
        fused_contract(2050),
    ]);
    all.extend([
        convolution([2, 3, 8, 9], 5),
        convolution([1, 4, 4, 7], 8),
        convolution_weight([3, 2, 7, 6], 6),
        convolution_weight([40, 1, 10, 9], 4),
        heads(),
    ]);
    for width in [3, 8] {
        all.extend([gather(width), scatter_add(width)]);
    }
    all
}

fn elementwise() -> Sample {
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
fn strided() -> Sample {
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

fn integers() -> Sample {
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
fn row_store() -> Sample {
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

fn softmax_body(output: u32, columns: usize) -> Builder {
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

fn softmax(rows: usize, columns: usize) -> Sample {
    let buffers = vec![floats(rows * columns), floats(rows * columns)];
    softmax_body(1, columns).looped("softmax", &[rows], columns, buffers)
}

fn in_place_softmax() -> Sample {
    let mut sample =
        softmax_body(1, 24).looped("softmax in place", &[6], 24, vec![floats(144), floats(144)]);
    sample.aliases.push((0, 1));
    sample
}

/// Mean and reciprocal deviation of rows, and the normalized rows.
fn normalize(b: &mut Builder, x: ValueId, columns: usize) -> (ValueId, ValueId) {
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

fn layer_norm(rows: usize, columns: usize) -> Sample {
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
fn layer_norm_backward(rows: usize, columns: usize) -> Sample {
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
fn total(rows: usize, columns: usize) -> Sample {
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
fn middle_axes() -> Sample {
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

fn maximum_over_rows() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[6], 1));
    b.accumulate(Combine::Maximum, x, access(1, &[0], 1));
    let mut data = floats(1800);
    data.values[6 * 17 + 2] = f64::NAN;
    b.looped("maximum over rows", &[300], 6, vec![data, floats(6)])
}

fn empty_rows() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[4], 1));
    b.store(x, access(1, &[4], 1));
    b.accumulate(Combine::Sum, x, access(2, &[0], 1));
    b.looped("no rows", &[0], 4, vec![floats(4), floats(4), floats(4)])
}

fn empty_columns() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[0], 1));
    let sum = b.reduce(Combine::Sum, x);
    let largest = b.reduce(Combine::Maximum, x);
    b.store(sum, access(1, &[1], 0));
    b.store(largest, access(2, &[1], 0));
    b.looped("no columns", &[3], 0, vec![floats(1), floats(3), floats(3)])
}

/// A kernel that overwrites what a sum over rows reads.
fn overwritten() -> Sample {
    let mut b = Builder::default();
    let x = b.load(access(0, &[8], 1));
    let square = b.op(Multiply, &[x, x]);
    b.store(square, access(0, &[8], 1));
    b.accumulate(Combine::Sum, x, access(1, &[0], 1));
    b.looped("overwritten", &[20], 8, vec![floats(160), floats(8)])
}

fn operand(access: Access) -> Operand {
    let mut program = Program::default();
    let value = program.push(Instruction::Load(access));
    Operand { program, value }
}

fn product_only(strides: &[usize]) -> Body {
    let mut body = Body::default();
    let value = body.program.push(Instruction::Accumulator);
    let access = access(2, strides, 1);
    body.stores.push(Store { value, access });
    body
}

/// A batched product; either side may lie transposed in memory.
fn contract(
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
    };
    let buffers = vec![
        floats(batches * m * k),
        floats(batches * k * n),
        floats(batches * m * n),
    ];
    sample(name, Action::Contract(kernel), buffers)
}

/// A right side that all batches share.
fn shared_right() -> Sample {
    let mut sample = contract("shared right side", &[4], 6, 8, 12, [false, false]);
    if let Action::Contract(kernel) = &mut sample.kernel.action
        && let Instruction::Load(access) = &mut kernel.right.program.instructions[0]
    {
        access.strides[0] = 0;
    }
    sample
}

/// A kernel over several axes of rows, columns and depth.
fn compound(
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
    };
    sample(name, Action::Contract(kernel), buffers)
}

/// A convolution of images `[n, c, h, w]` with windows of 3 × 2, as a product with the weight
/// on the left: windows are read where they lie.
fn convolution([images, channels, height, width]: [usize; 4], outputs: usize) -> Sample {
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
fn convolution_weight([images, channels, height, width]: [usize; 4], outputs: usize) -> Sample {
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
fn heads() -> Sample {
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
fn fused_contract(k: usize) -> Sample {
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
    };
    let sizes = [2 * m * k, 2 * k * n, 2 * m * n, k, n, 2 * m * n, n, 2];
    sample(
        "fused product",
        Action::Contract(kernel),
        sizes.map(floats).to_vec(),
    )
}

fn gather(width: usize) -> Sample {
    let kernel = GatherKernel {
        table: BufferId(0),
        indices: BufferId(1),
        output: BufferId(2),
        rows: 5,
        width,
        count: 6,
    };
    let buffers = vec![
        floats(5 * width),
        words(&[4, 0, 0, 5, 2, u32::MAX]),
        floats(6 * width),
    ];
    sample("gather", Action::Gather(kernel), buffers)
}

fn scatter_add(width: usize) -> Sample {
    let kernel = ScatterAddKernel {
        updates: BufferId(0),
        indices: BufferId(1),
        output: BufferId(2),
        rows: 5,
        width,
        count: 6,
    };
    let buffers = vec![
        floats(6 * width),
        words(&[4, 0, 0, 5, 2, 0]),
        floats(5 * width),
    ];
    sample("scatter add", Action::ScatterAdd(kernel), buffers)
}

/// Attention of grouped heads in a packed projection, forward or backward.
fn attention(width: usize, backward: bool) -> Sample {
    // Many heads are worked on one by one, few are cut along time.
    let batch = if width == 8 { 4 } else { 2 };
    let (queries, keys, heads) = (70, 150, 4);
    let (key_heads, value_width) = (heads / 2, width);
    // Keys and values lie beside each other.
    let row = key_heads * (width + value_width);
    let of_queries = |buffer, columns: usize| {
        access(
            buffer,
            &[queries * heads * columns, heads * columns, columns],
            usize::from(columns > 1),
        )
    };
    let of_keys = |offset, columns: usize| Access {
        offset,
        ..access(1, &[keys * row, row, columns], 1)
    };
    let pass = match backward {
        false => AttentionPass::Forward {
            output: Some(BufferId(3)),
            normalizer: Some(BufferId(4)),
        },
        true => AttentionPass::Backward {
            upstream: of_queries(3, value_width),
            normalizer: of_queries(4, 1),
            sums: of_queries(5, 1),
            query: Some(BufferId(6)),
            key: Some(BufferId(7)),
            value: Some(BufferId(8)),
        },
    };
    let kernel = AttentionKernel {
        batch: vec![batch],
        queries,
        keys,
        heads,
        group: 2,
        width,
        value_width,
        scale: 0.6,
        causal: true,
        window: Some(41),
        query: of_queries(0, width),
        key: of_keys(0, width),
        value: Some(of_keys(key_heads * width, value_width)),
        mask: Some(access(2, &[0, 0, keys], 1)),
        pass,
    };
    let (of_queries, of_keys) = (batch * queries * heads, batch * keys * key_heads);
    let mut sizes = vec![
        of_queries * width,
        batch * keys * row,
        queries * keys,
        of_queries * value_width,
        of_queries,
    ];
    if backward {
        sizes.extend([
            of_queries,
            of_queries * width,
            of_keys * width,
            of_keys * value_width,
        ]);
    }
    let name = if backward {
        "attention backward"
    } else {
        "attention"
    };
    let buffers = sizes.into_iter().map(floats).collect();
    sample(name, Action::Attention(Box::new(kernel)), buffers)
}
