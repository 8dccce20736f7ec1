//! Differences from a mean, to the last digit.
//!
//! The mean of a row is a number of 24 bits. At a large offset its rounding is not small beside
//! what is left when it is taken away: at 1,000 the difference is off by up to 3e-5, everywhere in
//! the row by the same. The mean of the differences is that error. Taken away too, it leaves a row
//! that sums to nothing as exactly as its own numbers can, for one more walk over values at hand.
//! That is worth its while where the row is summed up again, as for a variance.

use super::kernel::{Accumulate, Instruction, LoopKernel, Program, Store, ValueId};
use crate::ir::{Combine, ScalarOp};

/// The same kernel, where every row that its mean is taken from is centred a second time.
pub(super) fn centre_again(kernel: LoopKernel) -> LoopKernel {
    let program = &kernel.body.program;
    let count = program.instructions.len();
    let summed = summed_up(program);
    let factors: Vec<Option<f32>> = (0..count)
        .map(|index| mean_factor(program, index, kernel.columns).filter(|_| summed[index]))
        .collect();
    if factors.iter().all(Option::is_none) {
        return kernel;
    }
    let mut result = Program::default();
    let mut images: Vec<ValueId> = Vec::with_capacity(count);
    for (instruction, factor) in program.instructions.iter().zip(factors) {
        let image = result.push(with_operands(instruction, &images));
        images.push(match factor {
            Some(factor) => centred(&mut result, image, factor),
            None => image,
        });
    }
    let image = |value: ValueId| images[value.index()];
    let mut kernel = kernel;
    kernel.body.program = result;
    for Store { value, .. } in &mut kernel.body.stores {
        *value = image(*value);
    }
    for Accumulate { value, .. } in &mut kernel.body.accumulates {
        *value = image(*value);
    }
    kernel
}

/// Which values go into a reduction further on.
fn summed_up(program: &Program) -> Vec<bool> {
    let mut summed = vec![false; program.instructions.len()];
    for (index, instruction) in program.instructions.iter().enumerate().rev() {
        match instruction {
            Instruction::Reduce(_, operand) => summed[operand.index()] = true,
            Instruction::Scalar(_, operands) if summed[index] => {
                for operand in operands {
                    summed[operand.index()] = true;
                }
            }
            _ => {}
        }
    }
    summed
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

/// A value less its mean, in steps at the end of a program. A row with an infinity in it has no
/// mean: it becomes NaN throughout.
fn centred(program: &mut Program, value: ValueId, factor: f32) -> ValueId {
    let sum = program.push(Instruction::Reduce(Combine::Sum, value));
    let factor = program.push(Instruction::Constant(factor));
    let mean = Instruction::Scalar(ScalarOp::Multiply, vec![sum, factor]);
    let mean = program.push(mean);
    let difference = Instruction::Scalar(ScalarOp::Subtract, vec![value, mean]);
    program.push(difference)
}

fn with_operands(instruction: &Instruction, images: &[ValueId]) -> Instruction {
    let image = |value: &ValueId| images[value.index()];
    match instruction {
        Instruction::Scalar(op, operands) => {
            Instruction::Scalar(*op, operands.iter().map(image).collect())
        }
        Instruction::Reduce(combine, operand) => Instruction::Reduce(*combine, image(operand)),
        other => other.clone(),
    }
}
