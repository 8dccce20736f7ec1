//! Loop kernels on the CPU executor: how long they take and what that is in memory traffic.
//!
//! `cargo bench -p meganeura-benches --bench loops -- [--threads N] [FILTER]…` prints the fastest and
//! the median of many runs of each kernel, how long the calling thread was busy with each on
//! average, and the bytes it must read and write over the fastest.

use std::num::NonZeroUsize;
use std::time::Instant;

use meganeura::ir::{Combine, DType, ScalarOp};
use meganeura::plan::{Buffer, Plan, Role};
use meganeura::runtime::cpu::CpuExecutor;
use meganeura::runtime::{Binding, Executor};
use meganeura::schedule::kernel::{
    Access, Accumulate, Action, Body, BufferId, Instruction, Kernel, LoopKernel, Store, ValueId,
};

/// A kernel being written.
struct Case {
    outer: Vec<usize>,
    columns: usize,
    body: Body,
    /// Elements of each buffer.
    buffers: Vec<usize>,
}

impl Case {
    fn new(outer: &[usize], columns: usize) -> Self {
        Case {
            outer: outer.to_vec(),
            columns,
            body: Body::default(),
            buffers: Vec::new(),
        }
    }

    fn push(&mut self, instruction: Instruction) -> ValueId {
        self.body.program.push(instruction)
    }

    fn apply<const N: usize>(&mut self, op: ScalarOp, operands: [ValueId; N]) -> ValueId {
        self.push(Instruction::Scalar(op, operands.to_vec()))
    }

    fn constant(&mut self, value: f32) -> ValueId {
        self.push(Instruction::Constant(value))
    }

    /// A row-major access, repeated along the rows or along the columns.
    fn access(&mut self, rows: bool, columns: bool) -> Access {
        let width = if columns { self.columns } else { 1 };
        let all: usize = self.outer.iter().product();
        self.buffers.push(if rows { all * width } else { width });
        let stride = |axis: usize| self.outer[axis + 1..].iter().product::<usize>() * width;
        Access {
            buffer: BufferId(self.buffers.len() as u32 - 1),
            dtype: DType::F32,
            offset: 0,
            strides: (0..self.outer.len())
                .map(|axis| if rows { stride(axis) } else { 0 })
                .collect(),
            column_stride: usize::from(columns),
        }
    }

    fn load(&mut self, rows: bool, columns: bool) -> (ValueId, Access) {
        let access = self.access(rows, columns);
        (self.push(Instruction::Load(access.clone())), access)
    }

    fn sum(&mut self, value: ValueId) -> ValueId {
        self.push(Instruction::Reduce(Combine::Sum, value))
    }

    fn mean(&mut self, value: ValueId) -> ValueId {
        let sum = self.sum(value);
        let scale = self.constant(1.0 / self.columns as f32);
        self.apply(ScalarOp::Multiply, [sum, scale])
    }

    fn store(&mut self, value: ValueId, access: Access) {
        self.body.stores.push(Store { value, access });
    }

    fn accumulate(&mut self, value: ValueId, columns: bool) {
        let access = self.access(false, columns);
        self.body.accumulates.push(Accumulate {
            combine: Combine::Sum,
            value,
            access,
        });
    }
}

use ScalarOp::{Add, Divide, Equal, Exp, Log, Multiply, ReciprocalSqrt, Select, Sqrt, Subtract};

/// LayerNorm, RMSNorm and the mean of the result times a weight, with all gradients.
fn norms(rows: usize, columns: usize) -> Case {
    let mut c = Case::new(&[rows], columns);
    let (x, _) = c.load(true, true);
    let (t, _) = c.load(true, true);
    let (w1, _) = c.load(false, true);
    let (b1, _) = c.load(false, true);
    let (w2, _) = c.load(false, true);
    let epsilon = c.constant(1e-5);
    let scale = c.constant(1.0 / (rows * columns) as f32);
    // Forward.
    let mean = c.mean(x);
    let centered = c.apply(Subtract, [x, mean]);
    let square = c.apply(Multiply, [centered, centered]);
    let variance = c.mean(square);
    let variance = c.apply(Add, [variance, epsilon]);
    let deviation = c.apply(ReciprocalSqrt, [variance]);
    let normal = c.apply(Multiply, [centered, deviation]);
    let scaled = c.apply(Multiply, [normal, w1]);
    let hidden = c.apply(Add, [scaled, b1]);
    let square = c.apply(Multiply, [hidden, hidden]);
    let size = c.mean(square);
    let size = c.apply(Add, [size, epsilon]);
    let size = c.apply(ReciprocalSqrt, [size]);
    let unit = c.apply(Multiply, [hidden, size]);
    let y = c.apply(Multiply, [unit, w2]);
    let loss = c.apply(Multiply, [y, t]);
    c.accumulate(loss, false);
    // Backward.
    let dy = c.apply(Multiply, [t, scale]);
    let dw2 = c.apply(Multiply, [dy, unit]);
    c.accumulate(dw2, true);
    let dunit = c.apply(Multiply, [dy, w2]);
    let along = c.apply(Multiply, [dunit, unit]);
    let along = c.mean(along);
    let along = c.apply(Multiply, [unit, along]);
    let dhidden = c.apply(Subtract, [dunit, along]);
    let dhidden = c.apply(Multiply, [dhidden, size]);
    c.accumulate(dhidden, true);
    let dw1 = c.apply(Multiply, [dhidden, normal]);
    c.accumulate(dw1, true);
    let dnormal = c.apply(Multiply, [dhidden, w1]);
    let first = c.mean(dnormal);
    let second = c.apply(Multiply, [dnormal, normal]);
    let second = c.mean(second);
    let dx = c.apply(Subtract, [dnormal, first]);
    let second = c.apply(Multiply, [normal, second]);
    let dx = c.apply(Subtract, [dx, second]);
    let dx = c.apply(Multiply, [dx, deviation]);
    let out = c.access(true, true);
    c.store(dx, out);
    c
}

/// AdamW in place.
fn adamw(parameters: usize) -> Case {
    let mut c = Case::new(&[], parameters);
    let (p, p_out) = c.load(false, true);
    let (m, m_out) = c.load(false, true);
    let (v, v_out) = c.load(false, true);
    let (g, _) = c.load(false, true);
    let (corrections, _) = c.load(false, false);
    let constants = [0.9, 0.1, 0.999, 0.001, 1e-8, 1e-3, 1.0 - 1e-5];
    let [b1, n1, b2, n2, epsilon, rate, keep] = constants.map(|value| c.constant(value));
    let kept = c.apply(Multiply, [m, b1]);
    let new = c.apply(Multiply, [g, n1]);
    let m = c.apply(Add, [kept, new]);
    let kept = c.apply(Multiply, [v, b2]);
    let square = c.apply(Multiply, [g, g]);
    let new = c.apply(Multiply, [square, n2]);
    let v = c.apply(Add, [kept, new]);
    let first = c.apply(Multiply, [m, corrections]);
    let second = c.apply(Multiply, [v, corrections]);
    let root = c.apply(Sqrt, [second]);
    let root = c.apply(Add, [root, epsilon]);
    let step = c.apply(Divide, [first, root]);
    let step = c.apply(Multiply, [step, rate]);
    let p = c.apply(Multiply, [p, keep]);
    let p = c.apply(Subtract, [p, step]);
    c.store(p, p_out);
    c.store(m, m_out);
    c.store(v, v_out);
    c
}

/// The mean cross entropy of softmax and its gradient.
fn cross_entropy(rows: usize, columns: usize) -> Case {
    let mut c = Case::new(&[rows], columns);
    let (x, _) = c.load(true, true);
    let (label, _) = c.load(true, false);
    let scale = c.constant(1.0 / rows as f32);
    let zero = c.constant(0.0);
    let column = c.push(Instruction::ColumnIndex);
    let hit = c.apply(Equal, [column, label]);
    let max = c.push(Instruction::Reduce(Combine::Maximum, x));
    let shifted = c.apply(Subtract, [x, max]);
    let exp = c.apply(Exp, [shifted]);
    let sum = c.sum(exp);
    let log = c.apply(Log, [sum]);
    let picked = c.apply(Select, [hit, shifted, zero]);
    let picked = c.sum(picked);
    let loss = c.apply(Subtract, [log, picked]);
    let loss = c.apply(Multiply, [loss, scale]);
    c.accumulate(loss, false);
    let probability = c.apply(Divide, [exp, sum]);
    let gradient = c.apply(Subtract, [probability, hit]);
    let gradient = c.apply(Multiply, [gradient, scale]);
    let out = c.access(true, true);
    c.store(gradient, out);
    c
}

/// `f(x)` of a bias added to rows, with the bias' gradient of another: what stands around a
/// dense layer.
fn bias_gelu(rows: usize, columns: usize) -> Case {
    let mut c = Case::new(&[rows], columns);
    let (x, _) = c.load(true, true);
    let (g, _) = c.load(true, true);
    let (bias, _) = c.load(false, true);
    let half = c.constant(0.5);
    let root = c.constant(std::f32::consts::FRAC_1_SQRT_2);
    let one = c.constant(1.0);
    let x = c.apply(Add, [x, bias]);
    let e = c.apply(Multiply, [x, root]);
    let e = c.apply(ScalarOp::Erf, [e]);
    let e = c.apply(Add, [e, one]);
    let e = c.apply(Multiply, [e, half]);
    let y = c.apply(Multiply, [x, e]);
    let dx = c.apply(Multiply, [g, e]);
    let (out, grad) = (c.access(true, true), c.access(true, true));
    c.store(y, out);
    c.store(dx, grad);
    c.accumulate(dx, true);
    c
}

/// The product of a gate's SiLU with another value.
fn swiglu(rows: usize, columns: usize) -> Case {
    let mut c = Case::new(&[rows], columns);
    let (gate, _) = c.load(true, true);
    let (up, _) = c.load(true, true);
    let open = c.apply(ScalarOp::Sigmoid, [gate]);
    let gate = c.apply(Multiply, [gate, open]);
    let y = c.apply(Multiply, [gate, up]);
    let out = c.access(true, true);
    c.store(y, out);
    c
}

/// The gradient of an RMSNorm beside a residual one: its row values are there.
fn norm_gradient(rows: usize, columns: usize) -> Case {
    let mut c = Case::new(&[rows], columns);
    let (x, _) = c.load(true, true);
    let (g, _) = c.load(true, true);
    let (residual, _) = c.load(true, true);
    let (size, _) = c.load(true, false);
    let (along, _) = c.load(true, false);
    let g = c.apply(Multiply, [g, size]);
    let part = c.apply(Multiply, [x, along]);
    let dx = c.apply(Subtract, [g, part]);
    let dx = c.apply(Add, [dx, residual]);
    let out = c.access(true, true);
    c.store(dx, out);
    c
}

/// Softmax over short rows.
fn softmax(rows: usize, columns: usize) -> Case {
    let mut c = Case::new(&[rows], columns);
    let (x, _) = c.load(true, true);
    let max = c.push(Instruction::Reduce(Combine::Maximum, x));
    let shifted = c.apply(Subtract, [x, max]);
    let exp = c.apply(Exp, [shifted]);
    let sum = c.sum(exp);
    let y = c.apply(Divide, [exp, sum]);
    let out = c.access(true, true);
    c.store(y, out);
    c
}

/// The square of every element, in one sum.
fn norm(elements: usize) -> Case {
    let mut c = Case::new(&[], elements);
    let (x, _) = c.load(false, true);
    let square = c.apply(Multiply, [x, x]);
    let sum = c.sum(square);
    let out = c.access(false, false);
    c.store(sum, out);
    c
}

/// Milliseconds that this thread has had a core, where the system says so: what counts when
/// other programs run beside.
fn busy() -> f64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = times.split_whitespace().next().unwrap_or_default();
    first.parse::<f64>().unwrap_or(f64::NAN) / 1e6
}

/// The fastest and the median run, and how long this thread was busy for each on average,
/// in milliseconds.
fn measure(case: &Case, threads: Option<NonZeroUsize>) -> (f64, f64, f64) {
    let plan = Plan {
        buffers: case
            .buffers
            .iter()
            .map(|&elements| Buffer {
                role: Role::Output(String::new()),
                elements,
                dtype: DType::F32,
                gaps: false,
            })
            .collect(),
        kernels: vec![Kernel {
            name: String::new(),
            action: Action::Loop(LoopKernel {
                outer: case.outer.clone(),
                columns: case.columns,
                body: case.body.clone(),
            }),
        }],
        ..Plan::default()
    };
    let mut executor = CpuExecutor::new(threads);
    let mut bindings = Vec::new();
    for (index, &elements) in case.buffers.iter().enumerate() {
        let memory = executor.allocate(elements).expect("memory");
        let values: Vec<u32> = (0..elements)
            .map(|i| ((i * 37 % 101) as f32 / 100.0 + 0.01).to_bits())
            .collect();
        executor.write(memory, &values).expect("written");
        bindings.push(Binding {
            buffer: BufferId(index as u32),
            memory,
        });
    }
    let program = executor.load(&plan, &bindings).expect("loaded");
    executor.run(program).expect("run");
    let mut times = Vec::new();
    let (begin, busy_before) = (Instant::now(), busy());
    while times.len() < 20 || begin.elapsed().as_secs_f64() < 0.7 {
        let start = Instant::now();
        executor.run(program).expect("run");
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let busy = (busy() - busy_before) / times.len() as f64;
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2], busy)
}

fn bytes(case: &Case) -> f64 {
    let loads = case.body.program.loads();
    let stores = case.body.stores.iter().map(|store| &store.access);
    let all = loads.chain(stores);
    all.map(|access| case.buffers[access.buffer.index()] as f64 * 4.0)
        .sum()
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let mut threads = None;
    let mut filters = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--threads" {
            let number = arguments.next().and_then(|number| number.parse().ok());
            threads = NonZeroUsize::new(number.unwrap_or(0));
        } else {
            filters.push(argument);
        }
    }
    println!("{}", CpuExecutor::new(threads).describe());
    let cases = [
        ("norms 4096x768", norms(4096, 768)),
        ("adamw 1.8M", adamw(1_800_000)),
        ("adamw 50K", adamw(50_000)),
        ("cross entropy 1024x4096", cross_entropy(1024, 4096)),
        ("bias gelu 1024x1152", bias_gelu(1024, 1152)),
        ("bias gelu 64x128", bias_gelu(64, 128)),
        ("swiglu 1024x768", swiglu(1024, 768)),
        ("swiglu 4x768", swiglu(4, 768)),
        ("norm gradient 1024x288", norm_gradient(1024, 288)),
        ("norm gradient 8x288", norm_gradient(8, 288)),
        ("softmax 6144x256", softmax(6144, 256)),
        ("softmax 64x10", softmax(64, 10)),
        ("softmax 16384x10", softmax(16384, 10)),
        ("norm 3M", norm(3_000_000)),
    ];
    for (name, case) in cases {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        let (fastest, median, busy) = measure(&case, threads);
        let rate = bytes(&case) / fastest / 1e6;
        println!(
            "{name:26} {fastest:9.4} ms  median {median:9.4}  busy {busy:9.4}  {rate:6.1} GB/s"
        );
    }
}
