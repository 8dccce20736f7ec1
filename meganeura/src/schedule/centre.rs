//! Differences from a mean, to the last digit.
//!
//! The mean of a row is a number of 24 bits. At a large offset its rounding is not small beside
//! what is left when it is taken away: at 1,000 the difference is off by up to 3e-5, everywhere in
//! the row by the same. The mean of the differences is that error. Taken away too, it leaves a row
//! that sums to nothing as exactly as its own numbers can, for one more walk over values at hand.

use super::kernel::{Accumulate, Body, Instruction, LoopKernel, Program, Store, ValueId};
use crate::ir::{Combine, ScalarOp};

/// The same kernel, where every row that its mean is taken from is centred a second time.
pub(super) fn centre_again(mut kernel: LoopKernel) -> LoopKernel {
    let program = &kernel.body.program;
    let factors: Vec<Option<f32>> = (0..program.instructions.len())
        .map(|index| mean_factor(program, index, kernel.columns))
        .collect();
    if factors.iter().all(Option::is_none) {
        return kernel;
    }
    let mut centring = Centring {
        program: Program::default(),
        rows: factors.iter().map(|_| None).collect(),
        images: Vec::new(),
    };
    let squares = lone_squares(&kernel.body, &factors);
    for (index, instruction) in program.instructions.iter().enumerate() {
        let image = match (instruction, factors[index]) {
            (Instruction::Reduce(Combine::Sum, of), _) if squares[of.index()].is_some() => {
                let row = squares[of.index()].and_then(|row| centring.rows[row.index()]);
                centring.sum_of_squares(row.expect("a row comes before its square"))
            }
            // Only its sum is asked for.
            _ if squares[index].is_some() => ValueId(u32::MAX),
            (_, Some(factor)) => {
                let value = centring.copied(instruction);
                let row = centring.measured(value, factor);
                centring.rows[index] = Some(row);
                centring.scalar(ScalarOp::Subtract, &[value, row.mean])
            }
            _ => centring.copied(instruction),
        };
        centring.images.push(image);
    }
    let Centring {
        program, images, ..
    } = centring;
    kernel.body.program = program;
    for Store { value, .. } in &mut kernel.body.stores {
        *value = images[value.index()];
    }
    for Accumulate { value, .. } in &mut kernel.body.accumulates {
        *value = images[value.index()];
    }
    kernel
}

/// A row less its rounded mean, its sum, and what that makes the mean of it.
#[derive(Clone, Copy)]
struct Row {
    value: ValueId,
    sum: ValueId,
    mean: ValueId,
}

struct Centring {
    program: Program,
    /// By place in the old program.
    rows: Vec<Option<Row>>,
    images: Vec<ValueId>,
}

impl Centring {
    fn scalar(&mut self, op: ScalarOp, operands: &[ValueId]) -> ValueId {
        let operands = operands.to_vec();
        self.program.push(Instruction::Scalar(op, operands))
    }

    fn number(&mut self, value: f32) -> ValueId {
        self.program.push(Instruction::Constant(value))
    }

    fn copied(&mut self, instruction: &Instruction) -> ValueId {
        let image = |value: &ValueId| self.images[value.index()];
        let copy = match instruction {
            Instruction::Scalar(op, operands) => {
                Instruction::Scalar(*op, operands.iter().map(image).collect())
            }
            Instruction::Reduce(combine, operand) => Instruction::Reduce(*combine, image(operand)),
            other => other.clone(),
        };
        self.program.push(copy)
    }

    /// What is left of the mean in a row. The mean of a row with an infinity in it is none; such a
    /// row stays as it is.
    fn measured(&mut self, value: ValueId, factor: f32) -> Row {
        let sum = self.program.push(Instruction::Reduce(Combine::Sum, value));
        let [factor, largest, nothing] = [factor, f32::MAX, 0.0].map(|x| self.number(x));
        let mean = self.scalar(ScalarOp::Multiply, &[sum, factor]);
        let size = self.scalar(ScalarOp::Absolute, &[mean]);
        let finite = self.scalar(ScalarOp::LessEqual, &[size, largest]);
        let mean = self.scalar(ScalarOp::Select, &[finite, mean, nothing]);
        Row { value, sum, mean }
    }

    /// Σ(x − e)² = Σx² − e·Σx, where e is the mean of x: on the same walk as the mean. What is
    /// taken away is small, since the row was centred before.
    fn sum_of_squares(&mut self, row: Row) -> ValueId {
        let square = self.scalar(ScalarOp::Multiply, &[row.value, row.value]);
        let sum = self.program.push(Instruction::Reduce(Combine::Sum, square));
        let excess = self.scalar(ScalarOp::Multiply, &[row.sum, row.mean]);
        let rest = self.scalar(ScalarOp::Subtract, &[sum, excess]);
        let nothing = self.number(0.0);
        self.scalar(ScalarOp::Maximum, &[rest, nothing])
    }
}

/// For each value that is the square of a centred row and only summed: the row.
fn lone_squares(body: &Body, factors: &[Option<f32>]) -> Vec<Option<ValueId>> {
    let instructions = &body.program.instructions;
    let square = |instruction: &Instruction| match instruction {
        Instruction::Scalar(ScalarOp::Multiply, operands)
            if operands[0] == operands[1] && factors[operands[0].index()].is_some() =>
        {
            Some(operands[0])
        }
        _ => None,
    };
    let mut squares: Vec<Option<ValueId>> = instructions.iter().map(square).collect();
    for instruction in instructions {
        if let Instruction::Scalar(_, operands) = instruction {
            for operand in operands {
                squares[operand.index()] = None;
            }
        }
        if let Instruction::Reduce(Combine::Maximum, operand) = instruction {
            squares[operand.index()] = None;
        }
    }
    let stored = body.stores.iter().map(|store| store.value);
    let summed = body.accumulates.iter().map(|sum| sum.value);
    for value in stored.chain(summed) {
        squares[value.index()] = None;
    }
    squares
}

/// Of a value less its mean, the factor that makes the mean of the sum.
fn mean_factor(program: &Program, index: usize, columns: usize) -> Option<f32> {
    let at = |value: &ValueId| &program.instructions[value.index()];
    let Instruction::Scalar(ScalarOp::Subtract, operands) = &program.instructions[index] else {
        return None;
    };
    let [x, mean] = &operands[..] else {
        return None;
    };
    let Instruction::Scalar(ScalarOp::Multiply, factors) = at(mean) else {
        return None;
    };
    let (factor, sum) = match (at(&factors[0]), at(&factors[1])) {
        (Instruction::Constant(factor), sum) | (sum, Instruction::Constant(factor)) => {
            (*factor, sum)
        }
        _ => return None,
    };
    let exact = (f64::from(factor) * columns as f64 - 1.0).abs() < 1e-6;
    (columns > 1 && exact && *sum == Instruction::Reduce(Combine::Sum, *x)).then_some(factor)
}
