//! What each part of a loop kernel means, one at a time.

use super::{Buffers, access, dense, load, oracle, run, run_with};
use crate::ir::{Combine, DType, ScalarOp};
use crate::runtime::RunError;
use crate::runtime::cpu::vector::InstructionSet;
use crate::schedule::kernel::{
    Access, Accumulate, Action, Body, BufferId, GatherKernel, Instruction, LoopKernel, Program,
    ScatterAddKernel, Store, ValueId,
};

const SPECIAL: [f32; 20] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-40,
    -1e-40,
    1e-30,
    3e38,
    -3e38,
    88.0,
    -88.0,
    -100.0,
    89.5,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    1e4,
    2.5,
    -7.0,
];

/// A kernel that stores the last value, full, row-major.
fn stored(outer: &[usize], columns: usize, program: Program, output: BufferId) -> Action {
    let value = ValueId(program.instructions.len() as u32 - 1);
    Action::Loop(LoopKernel {
        outer: outer.to_vec(),
        columns,
        body: Body {
            program,
            stores: vec![Store {
                value,
                access: dense(output, outer, columns),
            }],
            accumulates: Vec::new(),
        },
    })
}

fn check(action: &Action, buffers: &Buffers) -> Buffers {
    let after = run(action, buffers);
    let expected = oracle::run(action, buffers);
    if let Err(difference) = oracle::compare(&expected, buffers, &after) {
        panic!("{difference}\n{action:#?}");
    }
    after
}

#[test]
fn every_instruction_on_special_values() {
    for &op in ScalarOp::ALL {
        for set in InstructionSet::available() {
            let mut buffers = Buffers::default();
            let mut program = Program::default();
            let count = SPECIAL.len();
            let outer = [count, count];
            // Every pair along two axes, every third operand along the columns.
            let values = buffers.floats(&SPECIAL);
            let strides = [[1, 0], [0, 1], [0, 0]];
            let operands = (0..op.arity())
                .map(|i| program.push(load(values, &strides[i], usize::from(i == 2))))
                .collect();
            let zero = program.push(Instruction::ColumnIndex);
            let value = program.push(Instruction::Scalar(op, operands));
            // A full value, so that the vector loops are taken.
            let no = program.push(Instruction::Constant(0.0));
            let all = program.push(Instruction::Scalar(ScalarOp::LessEqual, vec![no, zero]));
            program.push(Instruction::Scalar(ScalarOp::Select, vec![all, value, no]));
            let output = buffers.empty(count * count * count);
            let action = stored(&outer, count, program, output);
            let after = run_with(&action, &buffers, 1, set).expect("sound");
            let expected = oracle::run(&action, &buffers);
            if let Err(difference) = oracle::compare(&expected, &buffers, &after) {
                panic!("{op:?} {set:?}: {difference}");
            }
        }
    }
}

#[test]
fn integers_convert_on_load_and_store() {
    let mut buffers = Buffers::default();
    let input = buffers.integers(&[1, 2, 3, 4, 5, 6]);
    let output = buffers.integers(&[0; 6]);
    let mut program = Program::default();
    let integers = |buffer| Access {
        dtype: DType::U32,
        ..dense(buffer, &[2], 3)
    };
    let value = program.push(Instruction::Load(integers(input)));
    let two = program.push(Instruction::Constant(2.0));
    let value = program.push(Instruction::Scalar(ScalarOp::Multiply, vec![value, two]));
    let action = Action::Loop(LoopKernel {
        outer: vec![2],
        columns: 3,
        body: Body {
            program,
            stores: vec![Store {
                value,
                access: integers(output),
            }],
            accumulates: Vec::new(),
        },
    });
    let after = run(&action, &buffers);
    assert_eq!(after.0[output.index()].bits, [2, 4, 6, 8, 10, 12]);
}

#[test]
fn a_long_sum_is_exact_to_a_millionth() {
    let count = 10_000_000;
    for (outer, columns, strides, column_stride) in [
        (vec![], count, vec![], 1),
        (vec![count], 1, vec![1], 1),
        (vec![count / 2], 2, vec![2], 1),
        (vec![count / 1000], 1000, vec![1000], 1),
    ] {
        let mut buffers = Buffers::default();
        let ones = buffers.floats(&vec![1.0; count]);
        let tenths = buffers.floats(&vec![0.1; count]);
        let outputs = [buffers.empty(1), buffers.empty(columns.min(1000))];
        let mut program = Program::default();
        let one = program.push(load(ones, &strides, column_stride));
        let tenth = program.push(load(tenths, &strides, column_stride));
        let none = vec![0; outer.len()];
        let mut accumulates = vec![Accumulate {
            combine: Combine::Sum,
            value: one,
            access: access(outputs[0], &none, 0),
        }];
        if columns <= 1000 {
            accumulates.push(Accumulate {
                combine: Combine::Sum,
                value: tenth,
                access: access(outputs[1], &none, 1),
            });
        }
        let action = Action::Loop(LoopKernel {
            outer,
            columns,
            body: Body {
                program,
                stores: Vec::new(),
                accumulates,
            },
        });
        let after = run(&action, &buffers);
        let sum = after.get(outputs[0])[0];
        assert!((sum - 1e7).abs() <= 10.0, "{columns} columns: {sum}");
        if columns <= 1000 {
            let expected = 0.1f32 as f64 * (count / columns) as f64;
            for sum in after.get(outputs[1]) {
                let error = (f64::from(sum) / expected - 1.0).abs();
                assert!(error <= 1e-6, "{columns} columns: {sum}, off by {error}");
            }
        }
    }
}

#[test]
fn reductions_of_long_rows_are_exact_to_a_millionth() {
    let count = 10_000_000;
    let mut buffers = Buffers::default();
    let ones = buffers.floats(&vec![1.0; count]);
    let output = buffers.empty(1);
    let mut program = Program::default();
    let one = program.push(load(ones, &[], 1));
    let value = program.push(Instruction::Reduce(Combine::Sum, one));
    let body = Body {
        program,
        stores: vec![Store {
            value,
            access: access(output, &[], 0),
        }],
        accumulates: Vec::new(),
    };
    let action = Action::Loop(LoopKernel {
        outer: Vec::new(),
        columns: count,
        body,
    });
    let sum = run(&action, &buffers).get(output)[0];
    assert!((sum - 1e7).abs() <= 10.0, "{sum}");
}

/// `softmax` over the columns.
fn softmax(outer: &[usize], columns: usize, input: BufferId) -> Program {
    let mut program = Program::default();
    let mut push = |instruction| program.push(instruction);
    let x = push(Instruction::Load(dense(input, outer, columns)));
    let max = push(Instruction::Reduce(Combine::Maximum, x));
    let x = push(Instruction::Scalar(ScalarOp::Subtract, vec![x, max]));
    let x = push(Instruction::Scalar(ScalarOp::Exp, vec![x]));
    let sum = push(Instruction::Reduce(Combine::Sum, x));
    push(Instruction::Scalar(ScalarOp::Divide, vec![x, sum]));
    program
}

#[test]
fn softmax_over_rows_of_every_length() {
    for columns in [1, 2, 10, 33, 100, 128, 129, 1000, 1024, 1025, 5000, 300_000] {
        let rows = (20_000 / columns).clamp(1, 90);
        let mut buffers = Buffers::default();
        let values: Vec<f32> = (0..rows * columns).map(|i| (i % 83) as f32 / 9.0).collect();
        let input = buffers.floats(&values);
        let output = buffers.empty(rows * columns);
        let action = stored(&[rows], columns, softmax(&[rows], columns, input), output);
        check(&action, &buffers);
    }
}

/// What a row's label picks of its softmax's logarithms, and the gradient, as cross entropy asks for:
/// columns are counted in two phases, and exponentials kept from one to the next.
#[test]
fn picked_columns_of_rows_of_every_length() {
    for columns in [1, 17, 100, 129, 1024, 1025, 2500, 4096, 17_000, 70_000] {
        let rows = (20_000 / columns).clamp(2, 90);
        let outer = [rows];
        let mut buffers = Buffers::default();
        let values: Vec<f32> = (0..rows * columns).map(|i| (i % 83) as f32 / 9.0).collect();
        let input = buffers.floats(&values);
        let labels: Vec<u32> = (0..rows).map(|row| (row * 977 % columns) as u32).collect();
        let mut labels = access(buffers.integers(&labels), &[1], 0);
        labels.dtype = DType::U32;
        let output = buffers.empty(rows * columns);
        let total = buffers.empty(1);
        let mut program = Program::default();
        let mut push = |instruction| program.push(instruction);
        let number = push(Instruction::ColumnIndex);
        let label = push(Instruction::Load(labels));
        let hit = push(Instruction::Scalar(ScalarOp::Equal, vec![number, label]));
        let x = push(Instruction::Load(dense(input, &outer, columns)));
        let max = push(Instruction::Reduce(Combine::Maximum, x));
        let x = push(Instruction::Scalar(ScalarOp::Subtract, vec![x, max]));
        let zero = push(Instruction::Constant(0.0));
        let one = push(Instruction::Constant(1.0));
        let picked = push(Instruction::Scalar(ScalarOp::Select, vec![hit, x, zero]));
        let picked = push(Instruction::Reduce(Combine::Sum, picked));
        let x = push(Instruction::Scalar(ScalarOp::Exp, vec![x]));
        let sum = push(Instruction::Reduce(Combine::Sum, x));
        let log = push(Instruction::Scalar(ScalarOp::Log, vec![sum]));
        let loss = push(Instruction::Scalar(ScalarOp::Subtract, vec![log, picked]));
        let target = push(Instruction::Scalar(ScalarOp::Select, vec![hit, one, zero]));
        let share = push(Instruction::Scalar(ScalarOp::Divide, vec![x, sum]));
        push(Instruction::Scalar(ScalarOp::Subtract, vec![share, target]));
        let mut action = stored(&outer, columns, program, output);
        if let Action::Loop(kernel) = &mut action {
            kernel.body.accumulates.push(Accumulate {
                combine: Combine::Sum,
                value: loss,
                access: access(total, &[0], 0),
            });
        }
        let expected = oracle::run(&action, &buffers);
        for set in InstructionSet::available() {
            let after = run_with(&action, &buffers, 2, set).expect("sound");
            if let Err(difference) = oracle::compare(&expected, &buffers, &after) {
                panic!("{set:?}, {columns} columns: {difference}");
            }
            let alone = run_with(&action, &buffers, 1, set).expect("sound");
            assert_eq!(alone, after, "{set:?}, {columns} columns");
        }
    }
}

#[test]
fn a_kernel_that_reaches_beyond_its_buffer_is_refused() {
    let mut buffers = Buffers::default();
    let input = buffers.floats(&[0.0; 11]);
    let output = buffers.empty(12);
    let mut program = Program::default();
    program.push(Instruction::Load(dense(input, &[3], 4)));
    let action = stored(&[3], 4, program, output);
    let error = run_with(&action, &buffers, 1, InstructionSet::detect());
    let Err(RunError::Kernel { message, .. }) = error else {
        panic!("{error:?}");
    };
    assert!(message.contains("beyond buffer 0"), "{message}");
    let mut program = Program::default();
    program.push(Instruction::Load(Access {
        offset: usize::MAX - 2,
        ..dense(input, &[3], 4)
    }));
    let action = stored(&[3], 4, program, output);
    assert!(run_with(&action, &buffers, 1, InstructionSet::detect()).is_err());
}

#[test]
fn programs_that_make_no_sense_are_refused() {
    let mut buffers = Buffers::default();
    let output = buffers.empty(4);
    for instruction in [
        Instruction::Accumulator,
        Instruction::OuterIndex(0),
        Instruction::Scalar(ScalarOp::Add, vec![ValueId(0)]),
        Instruction::Scalar(ScalarOp::Exp, vec![ValueId(1)]),
        Instruction::Reduce(Combine::Sum, ValueId(7)),
        load(BufferId(9), &[], 1),
        load(output, &[1], 1),
    ] {
        let mut program = Program::default();
        program.push(Instruction::Constant(1.0));
        program.push(instruction.clone());
        let action = stored(&[], 4, program, output);
        let error = run_with(&action, &buffers, 1, InstructionSet::detect());
        assert!(error.is_err(), "{instruction:?}");
    }
}

#[test]
fn gathered_rows_and_an_index_outside() {
    let (rows, width, count) = (7, 70, 1500);
    let mut buffers = Buffers::default();
    let table: Vec<f32> = (0..rows * width).map(|i| i as f32).collect();
    let indices: Vec<u32> = (0..count as u32).map(|i| i * i % 9).collect();
    let kernel = GatherKernel {
        rounds: false,
        table: buffers.floats(&table),
        indices: buffers.integers(&indices),
        output: buffers.empty(count * width),
        rows,
        width,
        count,
    };
    let output = kernel.output;
    let after = run(&Action::Gather(kernel), &buffers).get(output);
    for (i, &index) in indices.iter().enumerate() {
        let row = &after[i * width..(i + 1) * width];
        if (index as usize) < rows {
            let from = index as usize * width;
            assert_eq!(row, &table[from..from + width]);
        } else {
            assert!(row.iter().all(|value| value.is_nan()));
        }
    }
}

#[test]
fn every_scattered_row_counts() {
    for (rows, width, count) in [(7, 300, 1500), (900, 3, 20_000), (5, 1, 3), (3, 4, 0)] {
        let mut buffers = Buffers::default();
        let updates: Vec<f32> = (0..count * width).map(|i| (i % 11) as f32).collect();
        let limit = rows as u32 + 2;
        let indices: Vec<u32> = (0..count as u32).map(|i| i * 7 % limit).collect();
        let kernel = ScatterAddKernel {
            updates: buffers.floats(&updates),
            indices: buffers.integers(&indices),
            output: buffers.empty(rows * width),
            rows,
            width,
            count,
        };
        let output = kernel.output;
        let mut expected = vec![0.0; rows * width];
        for (i, &index) in indices.iter().enumerate() {
            for column in 0..width {
                if (index as usize) < rows {
                    expected[index as usize * width + column] += updates[i * width + column];
                }
            }
        }
        let action = Action::ScatterAdd(kernel);
        assert_eq!(run(&action, &buffers).get(output), expected);
    }
}

#[test]
fn few_long_rows_are_shared_among_threads() {
    for (rows, columns) in [(1, 70_000), (3, 66_001)] {
        let mut buffers = Buffers::default();
        let values: Vec<f32> = (0..rows * columns)
            .map(|i| (i % 89) as f32 / 40.0)
            .collect();
        let input = buffers.floats(&values);
        let output = buffers.empty(rows * columns);
        let sums = [buffers.empty(columns), buffers.empty(1), buffers.empty(1)];
        let program = softmax(&[rows], columns, input);
        let Action::Loop(mut kernel) = stored(&[rows], columns, program, output) else {
            return;
        };
        // The result over rows, over everything, and the row sums over rows.
        let strides = [(5, 1), (5, 0), (4, 0)];
        for (&buffer, (value, column_stride)) in sums.iter().zip(strides) {
            kernel.body.accumulates.push(Accumulate {
                combine: Combine::Sum,
                value: ValueId(value),
                access: access(buffer, &[0], column_stride),
            });
        }
        let action = Action::Loop(kernel);
        let two = check(&action, &buffers);
        let one = run_with(&action, &buffers, 1, InstructionSet::detect()).expect("sound");
        assert!(one == two, "other results with two threads");
    }
}

#[test]
fn no_rows_and_no_columns_write_nothing() {
    for (rows, columns) in [(0, 1), (0, 5), (1, 0), (5, 0)] {
        let mut buffers = Buffers::default();
        let from = buffers.floats(&[1.0; 8]);
        let to = buffers.empty(8);
        let mut program = Program::default();
        // Strides that tell no row from a lone column.
        let value = program.push(load(from, &[0], 1));
        let body = Body {
            program,
            stores: vec![Store {
                value,
                access: access(to, &[0], 1),
            }],
            accumulates: Vec::new(),
        };
        let action = Action::Loop(LoopKernel {
            outer: vec![rows],
            columns,
            body,
        });
        for set in InstructionSet::available() {
            let after = run_with(&action, &buffers, 1, set).expect("sound");
            assert_eq!(after.get(to), [-77.0; 8], "{rows} rows, {columns} columns");
        }
    }
}
