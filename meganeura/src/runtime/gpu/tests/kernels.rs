//! Kernels of every archetype against their meaning in double precision.

use super::context;
use crate::codegen::tests::reference::{self, difference};
use crate::codegen::tests::samples::{
    Builder, Contents, Sample, access, floats, narrowed, sample, samples,
};
use crate::ir::{Combine, DType, ScalarOp};
use crate::plan::{Buffer, Plan, Role};
use crate::runtime::gpu::GpuExecutor;
use crate::runtime::{Binding, Executor, MemoryId};
use crate::schedule::kernel::{Action, BufferId, GatherKernel, ScatterAddKernel};

fn to_bits(contents: &Contents) -> Vec<u32> {
    let bits = contents.values.iter().map(|&value| match contents.dtype {
        DType::U32 => value as u32,
        _ => (value as f32).to_bits(),
    });
    bits.collect()
}

fn from_bits(dtype: DType, bits: &[u32]) -> Vec<f64> {
    let values = bits.iter().map(|&bits| match dtype {
        DType::U32 => f64::from(bits),
        _ => f64::from(f32::from_bits(bits)),
    });
    values.collect()
}

/// Run the kernel of a sample on the device: what all buffers hold afterwards.
fn run(executor: &mut GpuExecutor, sample: &Sample) -> Vec<Vec<f64>> {
    let mut plan = Plan {
        kernels: vec![sample.kernel.clone()],
        ..Plan::default()
    };
    let mut bindings: Vec<Binding> = Vec::new();
    for (index, contents) in sample.buffers.iter().enumerate() {
        let index = index as u32;
        plan.buffers.push(Buffer {
            role: Role::Input(index.to_string()),
            elements: contents.values.len(),
            dtype: contents.dtype,
            gaps: false,
        });
        let alias = sample.aliases.iter().find(|(_, later)| *later == index);
        let memory = match alias {
            Some((earlier, _)) => bindings[*earlier as usize].memory,
            None => {
                let memory = executor.allocate(contents.values.len()).unwrap();
                executor.write(memory, &to_bits(contents)).unwrap();
                memory
            }
        };
        bindings.push(Binding {
            buffer: BufferId(index),
            memory,
        });
    }
    let program = executor
        .load(&plan, &bindings)
        .unwrap_or_else(|error| panic!("{error}"));
    executor.run(program).unwrap();
    let read = |executor: &mut GpuExecutor, memory: MemoryId, contents: &Contents| {
        let mut bits = vec![0; contents.values.len()];
        executor.read(memory, &mut bits).unwrap();
        from_bits(contents.dtype, &bits)
    };
    let pairs = bindings.iter().zip(&sample.buffers);
    pairs
        .map(|(binding, contents)| read(executor, binding.memory, contents))
        .collect()
}

/// Run a sample with both variants and compare what it writes.
fn check(executors: &mut [GpuExecutor], sample: &Sample, tolerance: f64) {
    let mut expected: Vec<Vec<f64>> = sample
        .buffers
        .iter()
        .map(|contents| contents.values.clone())
        .collect();
    reference::run(&sample.kernel, &mut expected);
    for (variant, executor) in ["software", "gpu"].into_iter().zip(executors) {
        let actual = run(executor, sample);
        for written in sample.kernel.writes() {
            let (actual, expected) = (&actual[written.index()], &expected[written.index()]);
            let off = difference(actual, expected);
            assert!(
                off <= tolerance,
                "{} for {variant}, buffer {}: off by {off:e}\n{:?}\n{:?}",
                sample.kernel.name,
                written.0,
                &actual[..actual.len().min(24)],
                &expected[..expected.len().min(24)],
            );
        }
    }
}

/// One executor with the kernels for software drivers, one with those for GPUs.
fn executors(test: &str) -> Option<Vec<GpuExecutor>> {
    let context = context(test)?;
    let variant = |software| GpuExecutor::with_variant(context.clone(), software).unwrap();
    Some(vec![variant(true), variant(false)])
}

#[test]
fn samples_compute_what_they_mean() {
    let Some(mut executors) = executors("samples_compute_what_they_mean") else {
        return;
    };
    for sample in samples() {
        check(&mut executors, &sample, 1e-5);
        // Where floats differ in their last place, halves may in theirs.
        if let Some(sample) = narrowed(&sample, false) {
            check(&mut executors, &sample, 1e-3);
        }
    }
}

/// One scalar instruction on rows of operands.
fn scalar(op: ScalarOp, rows: &[Vec<f64>]) -> Sample {
    let count = rows[0].len();
    let mut b = Builder::default();
    let operands: Vec<_> = (0..op.arity())
        .map(|i| b.load(access(i as u32, &[], 1)))
        .collect();
    let out = b.op(op, &operands);
    b.store(out, access(op.arity() as u32, &[], 1));
    let contents = |values: &Vec<f64>| Contents {
        dtype: DType::F32,
        values: values.clone(),
    };
    let mut buffers: Vec<Contents> = rows[..op.arity()].iter().map(contents).collect();
    buffers.push(floats(count));
    b.looped(&format!("{op:?}"), &[], count, buffers)
}

#[test]
fn scalar_instructions_hold_on_ordinary_numbers() {
    let Some(mut executors) = executors("scalar_instructions_hold_on_ordinary_numbers") else {
        return;
    };
    for &op in ScalarOp::ALL {
        let positive = matches!(
            op,
            ScalarOp::Log | ScalarOp::Sqrt | ScalarOp::ReciprocalSqrt
        );
        for (count, scale) in [(400, 1.0), (401, 10.0)] {
            let row = |shift: f64| -> Vec<f64> {
                let values = (0..count).map(|i| (f64::from(i) * 0.7 + shift).sin() * scale);
                values
                    .map(|x| {
                        f64::from(if positive {
                            x.abs() as f32 + 1e-3
                        } else {
                            x as f32
                        })
                    })
                    .collect()
            };
            let mut condition = row(2.0);
            condition.iter_mut().step_by(3).for_each(|c| *c = 0.0);
            let rows = match op {
                ScalarOp::Select => vec![condition, row(0.1), row(1.0)],
                _ => vec![row(0.1), row(1.0)],
            };
            check(&mut executors, &scalar(op, &rows), 2e-6);
        }
    }
}

#[test]
fn scalar_instructions_hold_on_special_numbers() {
    let Some(mut executors) = executors("scalar_instructions_hold_on_special_numbers") else {
        return;
    };
    let special = [
        0.0,
        1.0,
        -1.0,
        100.0,
        -100.0,
        3e38,
        -3e38,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let special = special.map(|x| f64::from(x as f32));
    let pairs: Vec<(f64, f64)> = special
        .iter()
        .flat_map(|&a| special.map(|b| (a, b)))
        .collect();
    let left: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let right: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    for &op in ScalarOp::ALL {
        // Trigonometry of huge numbers is meaningless; a NaN is no condition.
        if matches!(op, ScalarOp::Sin | ScalarOp::Cos) {
            continue;
        }
        let rows = match op {
            ScalarOp::Select => {
                let conditions = (0..left.len()).map(|i| (i % 2) as f64).collect();
                vec![conditions, left.clone(), right.clone()]
            }
            _ => vec![left.clone(), right.clone()],
        };
        let sample = scalar(op, &rows);
        let mut expected: Vec<Vec<f64>> = sample.buffers.iter().map(|c| c.values.clone()).collect();
        reference::run(&sample.kernel, &mut expected);
        for executor in &mut executors {
            let actual = run(executor, &sample);
            for (i, (&a, &e)) in actual[op.arity()]
                .iter()
                .zip(&expected[op.arity()])
                .enumerate()
            {
                let e = f64::from(e as f32);
                let same =
                    a == e || (a.is_nan() && e.is_nan()) || (a - e).abs() <= 2e-6 * e.abs() + 1e-37;
                assert!(
                    same,
                    "{op:?} of {:?}: {a}, not {e}",
                    rows.iter().map(|r| r[i]).collect::<Vec<_>>()
                );
            }
        }
    }
}

#[test]
fn expressions_that_compilers_fold_keep_their_nan() {
    let Some(mut executors) = executors("expressions_that_compilers_fold_keep_their_nan") else {
        return;
    };
    let mut b = Builder::default();
    let x = b.load(access(0, &[], 1));
    let zero = b.number(0.0);
    let outputs = [
        b.op(ScalarOp::Subtract, &[x, x]),
        b.op(ScalarOp::Multiply, &[x, zero]),
        b.op(ScalarOp::Divide, &[x, x]),
        b.op(ScalarOp::Equal, &[x, x]),
        b.op(ScalarOp::Maximum, &[x, zero]),
        b.op(ScalarOp::Minimum, &[zero, x]),
    ];
    for (index, value) in outputs.into_iter().enumerate() {
        b.store(value, access(index as u32 + 1, &[], 1));
    }
    let data = Contents {
        dtype: DType::F32,
        values: vec![1.5, -2.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN],
    };
    let sample = b.looped("unfolded", &[], 6, vec![data; 7]);
    check(&mut executors, &sample, 0.0);
}

/// Values worked out by hand, which no code of ours had a part in.
#[test]
fn results_worked_out_by_hand() {
    let Some(mut executors) = executors("results_worked_out_by_hand") else {
        return;
    };
    let numbers = |values: &[f64]| Contents {
        dtype: DType::F32,
        values: values.to_vec(),
    };
    // Row sums and column sums of [[1, 2, 3], [4, 5, 6]].
    let mut b = Builder::default();
    let x = b.load(access(0, &[3], 1));
    let sum = b.reduce(Combine::Sum, x);
    b.store(sum, access(1, &[1], 0));
    b.accumulate(Combine::Sum, x, access(2, &[0], 1));
    let matrix = numbers(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let sums = b.looped("sums", &[2], 3, vec![matrix, floats(2), floats(3)]);
    // Rows of a table of three, and what comes back.
    let ids = Contents {
        dtype: DType::U32,
        values: vec![2.0, 0.0, 2.0],
    };
    let (table, indices, output) = (BufferId(0), BufferId(1), BufferId(2));
    let table_values = numbers(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let (rows, width, count) = (3, 2, 3);
    let kernel = GatherKernel {
        rounds: false,
        table,
        indices,
        output,
        rows,
        width,
        count,
    };
    let gather = sample(
        "gather",
        Action::Gather(kernel),
        vec![table_values, ids.clone(), floats(6)],
    );
    let updates = numbers(&[1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
    let kernel = ScatterAddKernel {
        updates: table,
        indices,
        output,
        rows,
        width,
        count,
    };
    let scatter = sample(
        "scatter",
        Action::ScatterAdd(kernel),
        vec![updates, ids, floats(6)],
    );
    for executor in &mut executors {
        let results = run(executor, &sums);
        assert_eq!(results[1], [6.0, 15.0]);
        assert_eq!(results[2], [5.0, 7.0, 9.0]);
        assert_eq!(run(executor, &gather)[2], [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
        assert_eq!(run(executor, &scatter)[2], [2.0, 20.0, 0.0, 0.0, 4.0, 40.0]);
    }
}

#[test]
fn dispatches_beyond_one_axis_reach_every_element() {
    let Some(mut executors) = executors("dispatches_beyond_one_axis_reach_every_element") else {
        return;
    };
    let (rows, columns) = (65_537, 65);
    let mut b = Builder::default();
    let row =
        b.0.program
            .push(crate::schedule::kernel::Instruction::OuterIndex(0));
    let x = b.load(access(0, &[columns], 1));
    let out = b.op(ScalarOp::Add, &[row, x]);
    b.store(out, access(0, &[columns], 1));
    let zeros = Contents {
        dtype: DType::F32,
        values: vec![0.0; rows * columns],
    };
    let sample = b.looped("large", &[rows], columns, vec![zeros]);
    let result = run(&mut executors[0], &sample).swap_remove(0);
    let wrong = result
        .iter()
        .enumerate()
        .find(|(i, x)| **x != (i / columns) as f64);
    assert_eq!(wrong, None);
}

#[test]
fn long_sums_keep_their_digits() {
    let Some(mut executors) = executors("long_sums_keep_their_digits") else {
        return;
    };
    let count = 10_000_000;
    let tenths = Contents {
        dtype: DType::F32,
        values: vec![f64::from(0.1f32); count],
    };
    for (outer, columns) in [(vec![], count), (vec![count], 1), (vec![count / 10], 10)] {
        let mut b = Builder::default();
        let strides = vec![columns; outer.len()];
        let x = b.load(access(0, &strides, 1));
        b.accumulate(Combine::Sum, x, access(1, &vec![0; outer.len()], 0));
        let sample = b.looped("long sum", &outer, columns, vec![tenths.clone(), floats(1)]);
        let expected = f64::from(0.1f32) * count as f64;
        for executor in &mut executors {
            let sum = run(executor, &sample)[1][0];
            assert!(
                (sum / expected - 1.0).abs() < 1e-6,
                "{outer:?} × {columns}: {sum}"
            );
        }
    }
}
