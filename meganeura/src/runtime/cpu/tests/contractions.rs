//! Contractions with everything around them.

use super::{Buffers, access, dense, load, oracle, run_all, run_with};
use crate::ir::{Combine, Precision, ScalarOp};
use crate::runtime::cpu::depth;
use crate::runtime::cpu::vector::InstructionSet;
use crate::schedule::kernel::{
    Access, Accumulate, Action, Body, BufferId, ContractKernel, Instruction, LoopKernel, Operand,
    Program, Store, ValueId,
};

pub(super) fn values(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0)
        .collect()
}

pub(super) fn loaded(access: Access) -> Operand {
    let mut program = Program::default();
    let value = program.push(Instruction::Load(access));
    Operand { program, value }
}

/// A plain product `[batch, m, k] · [batch, k, n]`, row-major.
fn plain(
    batch: &[usize],
    [m, n, k]: [usize; 3],
    buffers: &mut Buffers,
) -> (ContractKernel, BufferId) {
    let batches: usize = batch.iter().product();
    let left = buffers.floats(&values(batches * m * k));
    let right = buffers.floats(&values(batches * k * n));
    let output = buffers.empty(batches * m * n);
    let with = |last: usize| -> Vec<usize> { batch.iter().copied().chain([last]).collect() };
    let mut program = Program::default();
    let value = program.push(Instruction::Accumulator);
    let kernel = ContractKernel {
        batch: batch.to_vec(),
        m: vec![m],
        n: vec![n],
        k: vec![k],
        left: loaded(dense(left, &with(m), k)),
        right: loaded(dense(right, &with(k), n)),
        epilogue: Body {
            program,
            stores: vec![Store {
                value,
                access: dense(output, &with(m), n),
            }],
            accumulates: Vec::new(),
        },
        precision: Precision::F32,
    };
    (kernel, output)
}

fn check(kernel: ContractKernel, buffers: &Buffers) {
    for precision in [Precision::F32, Precision::BF16] {
        let kernel = kernel.clone();
        check_precision(
            ContractKernel {
                precision,
                ..kernel
            },
            buffers,
        );
    }
}

fn check_precision(kernel: ContractKernel, buffers: &Buffers) {
    let action = Action::Contract(kernel);
    let expected = oracle::run(&action, buffers);
    let set = InstructionSet::detect();
    let one = run_with(&action, buffers, 1, set).expect("sound");
    if let Err(difference) = oracle::compare(&expected, buffers, &one) {
        panic!("{difference}\n{action:#?}");
    }
    let two = run_with(&action, buffers, 2, set).expect("sound");
    assert!(one == two, "other results with two threads");
}

const SIZES: [[usize; 3]; 9] = [
    [150, 70, 5],
    [1, 1, 1],
    [3, 5, 7],
    [16, 33, 9],
    [70, 20, 3],
    [33, 130, 20],
    [5, 1100, 3],
    [5, 0, 4],
    [4, 6, 0],
];

#[test]
fn plain_products() {
    for size in SIZES {
        for batch in [vec![], vec![3], vec![2, 3], vec![0]] {
            let mut buffers = Buffers::default();
            let (kernel, _) = plain(&batch, size, &mut buffers);
            check(kernel, &buffers);
        }
    }
}

/// Stores what a buffer holds in another.
pub(super) fn copy([from, to]: [BufferId; 2], count: usize) -> Action {
    let mut program = Program::default();
    let value = program.push(load(from, &[0], 1));
    let stores = vec![Store {
        value,
        access: access(to, &[0], 1),
    }];
    Action::Loop(LoopKernel {
        outer: vec![1],
        columns: count,
        body: Body {
            program,
            stores,
            accumulates: Vec::new(),
        },
    })
}

#[test]
fn deep_products_of_operands_that_other_kernels_write() {
    let size @ [m, n, k] = [20, 24, 3072];
    for sums in [false, true] {
        let mut buffers = Buffers::default();
        let (mut kernel, _) = plain(&[], size, &mut buffers);
        let right = kernel.right.as_load().expect("it lies in memory").buffer;
        let source = buffers.floats(&values(k * n));
        let total = buffers.empty(n);
        if sums {
            kernel.epilogue.accumulates.push(Accumulate {
                combine: Combine::Sum,
                value: ValueId(0),
                access: access(total, &[0], 1),
            });
        }
        let written = |buffer| buffer == right;
        assert_eq!(depth::parts(&kernel, &written), 8, "{m} x {n} x {k}");
        assert_eq!(depth::parts(&kernel, &|_| false), 1, "nothing is written");
        let product = Action::Contract(kernel);
        let expected = oracle::run(&product, &buffers);
        let actions = [copy([source, right], k * n), product];
        let set = InstructionSet::detect();
        let one = run_all(&actions, &buffers, 1, set).expect("sound");
        if let Err(difference) = oracle::compare(&expected, &buffers, &one) {
            panic!("{difference}");
        }
        for threads in [2, 3, 5] {
            let other = run_all(&actions, &buffers, threads, set).expect("sound");
            assert!(one == other, "other results with {threads} threads");
        }
    }
}

#[test]
fn an_epilogue_with_bias_activation_and_sums() {
    for size in SIZES {
        for batch in [vec![], vec![3]] {
            let mut buffers = Buffers::default();
            let (mut kernel, output) = plain(&batch, size, &mut buffers);
            let [m, n, _] = size;
            let bias = buffers.floats(&values(n));
            let sums = buffers.empty(n);
            let none = vec![0; batch.len() + 1];
            let outer: Vec<usize> = batch.iter().copied().chain([m]).collect();
            let mut program = Program::default();
            let product = program.push(Instruction::Accumulator);
            let bias = program.push(load(bias, &none, 1));
            let row = program.push(Instruction::OuterIndex(outer.len() - 1));
            let sum = program.push(Instruction::Scalar(ScalarOp::Add, vec![product, bias]));
            let sum = program.push(Instruction::Scalar(ScalarOp::Add, vec![sum, row]));
            let value = program.push(Instruction::Scalar(ScalarOp::Tanh, vec![sum]));
            kernel.epilogue = Body {
                program,
                stores: vec![Store {
                    value,
                    access: dense(output, &outer, n),
                }],
                accumulates: Vec::new(),
            };
            check(kernel.clone(), &buffers);
            kernel.epilogue.accumulates = vec![Accumulate {
                combine: Combine::Sum,
                value: product,
                access: access(sums, &none, 1),
            }];
            check(kernel, &buffers);
        }
    }
}

#[test]
fn an_epilogue_in_place_of_what_it_adds() {
    let mut buffers = Buffers::default();
    let size = [40, 50, 30];
    let (mut kernel, output) = plain(&[], size, &mut buffers);
    let mut program = Program::default();
    let product = program.push(Instruction::Accumulator);
    let old = program.push(Instruction::Load(dense(output, &[40], 50)));
    let value = program.push(Instruction::Scalar(ScalarOp::Subtract, vec![old, product]));
    kernel.epilogue.program = program;
    kernel.epilogue.stores[0].value = value;
    check(kernel, &buffers);
}

/// Rows as wide as registers are worked on together where they follow each other everywhere, which
/// they do within a product or throughout, unless something else of a row is not dense.
#[test]
fn an_epilogue_of_rows_that_follow_each_other() {
    for (m, n, k) in [(37, 64, 5), (3, 128, 9), (29, 512, 7), (40, 1024, 3)] {
        for (batch, gap, per_row) in [(1, 0, false), (3, 0, false), (3, 5, false), (2, 0, true)] {
            for op in [ScalarOp::Tanh, ScalarOp::Sin] {
                let mut buffers = Buffers::default();
                let (mut kernel, output) = plain(&[batch], [m, n, k], &mut buffers);
                let old = buffers.floats(&values(batch * (m + gap) * n));
                let factors = buffers.floats(&values(batch * m));
                let old_strides = [(m + gap) * n, n];
                let mut program = Program::default();
                let product = program.push(Instruction::Accumulator);
                let old = program.push(load(old, &old_strides, 1));
                let strides = if per_row { [m, 1] } else { [0, 0] };
                let factor = program.push(load(factors, &strides, 0));
                let scalar = |op, operands| Instruction::Scalar(op, operands);
                let old = program.push(scalar(op, vec![old]));
                let scaled = program.push(scalar(ScalarOp::Multiply, vec![product, factor]));
                let value = program.push(scalar(ScalarOp::Subtract, vec![old, scaled]));
                kernel.epilogue = Body {
                    program,
                    stores: vec![Store {
                        value,
                        access: dense(output, &[batch, m], n),
                    }],
                    accumulates: Vec::new(),
                };
                check(kernel, &buffers);
            }
        }
    }
}

#[test]
fn computed_operands() {
    for size in SIZES {
        for batch in [vec![], vec![3]] {
            let mut buffers = Buffers::default();
            let (mut kernel, _) = plain(&batch, size, &mut buffers);
            for operand in [&mut kernel.left, &mut kernel.right] {
                let two = operand.program.push(Instruction::Constant(2.0));
                let value = vec![ValueId(0), two];
                let scaled = operand
                    .program
                    .push(Instruction::Scalar(ScalarOp::Multiply, value));
                let square = vec![scaled, scaled];
                operand.value = operand
                    .program
                    .push(Instruction::Scalar(ScalarOp::Add, square));
            }
            check(kernel, &buffers);
        }
    }
}

#[test]
fn transposed_and_shared_operands() {
    let (m, n, k) = (12, 20, 9);
    let mut buffers = Buffers::default();
    let (mut kernel, output) = plain(&[4], [m, n, k], &mut buffers);
    let left = buffers.floats(&values(4 * m * k));
    let right = buffers.floats(&values(k * n));
    kernel.left = loaded(access(left, &[m * k, 1], m));
    kernel.right = loaded(access(right, &[0, 1], k));
    // The result with its axes in another order.
    kernel.epilogue.stores[0].access = access(output, &[n, 1], 4 * n);
    kernel.epilogue.stores[0].access.strides = vec![1, 4];
    kernel.epilogue.stores[0].access.column_stride = 4 * m;
    check(kernel, &buffers);
}
