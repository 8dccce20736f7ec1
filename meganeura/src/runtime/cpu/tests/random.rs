//! Random programs over random shapes and strides.

use super::oracle;
use super::{Buffers, run_with};
use crate::ir::{Combine, DType, ScalarOp};
use crate::runtime::cpu::vector::InstructionSet;
use crate::schedule::kernel::{
    Access, Accumulate, Action, Body, BufferId, Instruction, Level, LoopKernel, Program, Store,
    ValueId,
};

/// A generator of random numbers.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// In −2 ..= 2, now and then a round number.
    pub(super) fn float(&mut self) -> f32 {
        if self.chance(10) {
            return self.pick(&[0.0, 1.0, -1.0, 0.5, 2.0]);
        }
        (self.next() % 4_000_001) as f32 / 1e6 - 2.0
    }
}

/// How a buffer may hold floats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Floats {
    Whole,
    /// Some of them as bf16.
    Any,
}

/// A kernel under construction.
struct Maker {
    random: Random,
    outer: Vec<usize>,
    columns: usize,
    buffers: Buffers,
    program: Program,
}

impl Maker {
    /// A buffer and an access to it: some axes in some order, the others repeated.
    fn access(&mut self, keep: usize, columns: bool, output: bool, floats: Floats) -> Access {
        let mut axes: Vec<usize> = (0..self.outer.len())
            .filter(|_| output || self.random.chance(keep))
            .collect();
        if columns {
            axes.push(self.outer.len());
        }
        let ordered = self.random.chance(60);
        if !ordered {
            for i in (1..axes.len()).rev() {
                axes.swap(i, self.random.below(i + 1));
            }
        }
        let mut strides = vec![0; self.outer.len() + 1];
        let mut size = self.random.pick(&[1, 1, 1, 1, 2]);
        for &axis in axes.iter().rev() {
            let dim = self.outer.get(axis).copied().unwrap_or(self.columns);
            strides[axis] = size;
            // A result over no rows still has its place.
            size *= dim.max(1);
        }
        let column_stride = strides.pop().unwrap_or(0);
        let offset = self.random.pick(&[0, 0, 0, 3, 17]);
        let elements = size + offset + self.random.below(2);
        let integers = !output && self.random.chance(10);
        let halves = !integers && floats == Floats::Any && self.random.chance(25);
        let buffer = if halves && output {
            self.buffers.halves(&vec![-77.0; elements])
        } else if halves {
            let values: Vec<f32> = (0..elements).map(|_| self.random.float()).collect();
            self.buffers.halves(&values)
        } else if integers {
            let values: Vec<u32> = (0..elements).map(|_| self.random.below(5) as u32).collect();
            self.buffers.integers(&values)
        } else if output {
            self.buffers.empty(elements)
        } else {
            let values: Vec<f32> = (0..elements).map(|_| self.random.float()).collect();
            self.buffers.floats(&values)
        };
        Access {
            buffer,
            dtype: self.buffers.0[buffer.index()].dtype,
            offset,
            strides,
            column_stride,
        }
    }

    fn value(&mut self) -> ValueId {
        let count = self.program.instructions.len();
        // Rather a recent one.
        let back = if self.random.chance(60) {
            count.min(4)
        } else {
            count
        };
        ValueId((count - 1 - self.random.below(back)) as u32)
    }

    fn unary(&mut self, op: ScalarOp, value: ValueId) -> ValueId {
        self.program.push(Instruction::Scalar(op, vec![value]))
    }

    /// A value made safe for an operation that has a narrow domain.
    fn operand(&mut self, op: ScalarOp) -> ValueId {
        let value = self.value();
        match op {
            ScalarOp::Log | ScalarOp::Reciprocal | ScalarOp::ReciprocalSqrt | ScalarOp::Divide
                if self.random.chance(80) =>
            {
                let magnitude = self.unary(ScalarOp::Absolute, value);
                let one = self.program.push(Instruction::Constant(1.0));
                self.program
                    .push(Instruction::Scalar(ScalarOp::Add, vec![magnitude, one]))
            }
            ScalarOp::Exp if self.random.chance(80) => self.unary(ScalarOp::Tanh, value),
            _ => value,
        }
    }

    fn instruction(&mut self, reduces: bool) {
        let kind = self.random.below(100);
        let instruction = match kind {
            0..=19 => {
                let columns = self.random.chance(75);
                Instruction::Load(self.access(70, columns, false, Floats::Any))
            }
            20..=23 => Instruction::Constant(self.random.float()),
            24..=25 => Instruction::ColumnIndex,
            26..=28 if !self.outer.is_empty() => {
                Instruction::OuterIndex(self.random.below(self.outer.len()))
            }
            29..=39 if reduces => {
                let how = self
                    .random
                    .pick(&[Combine::Sum, Combine::Sum, Combine::Maximum]);
                Instruction::Reduce(how, self.value())
            }
            _ => {
                let arithmetic = [
                    ScalarOp::Add,
                    ScalarOp::Subtract,
                    ScalarOp::Multiply,
                    ScalarOp::Multiply,
                ];
                let op = if self.random.chance(55) {
                    self.random.pick(&arithmetic)
                } else {
                    // Of numbers that are only nearly right it makes others.
                    match self.random.pick(ScalarOp::ALL) {
                        ScalarOp::Random => ScalarOp::First,
                        op => op,
                    }
                };
                let operands = (0..op.arity()).map(|_| self.operand(op)).collect();
                Instruction::Scalar(op, operands)
            }
        };
        self.program.push(instruction);
    }

    fn results(&mut self) -> Body {
        let levels = self.program.levels();
        let mut body = Body::default();
        for _ in 0..1 + self.random.below(3) {
            let value = self.value();
            let row = levels[value.index()] == Level::Row && self.random.chance(60);
            let access = self.access(100, !row, true, Floats::Any);
            body.stores.push(Store { value, access });
        }
        for _ in 0..self.random.below(3) {
            let value = self.value();
            let columns = self.random.chance(60);
            let mut access = self.access(100, columns, true, Floats::Whole);
            for stride in &mut access.strides {
                if self.random.chance(70) {
                    *stride = 0;
                }
            }
            let combine = self
                .random
                .pick(&[Combine::Sum, Combine::Sum, Combine::Maximum]);
            body.accumulates.push(Accumulate {
                combine,
                value,
                access,
            });
        }
        body.program = std::mem::take(&mut self.program);
        body
    }
}

/// A random kernel with its buffers.
pub(super) fn kernel(seed: u64) -> (LoopKernel, Buffers) {
    let mut random = Random::new(seed);
    let axes = random.below(4);
    let mut outer: Vec<usize> = (0..axes)
        .map(|_| random.pick(&[1, 2, 3, 5, 8, 13]))
        .collect();
    let mut columns = random.pick(&[1, 2, 3, 7, 10, 16, 31, 64, 65, 129, 200, 257, 1030, 2500]);
    if random.chance(2) {
        columns = 0;
    }
    if random.chance(3) && axes > 0 {
        outer[0] = 0;
    }
    while outer.iter().product::<usize>() * columns > 20_000 {
        match outer.iter().position(|&dim| dim > 1) {
            Some(axis) => outer[axis] = 1,
            None => columns /= 2,
        }
    }
    let mut maker = Maker {
        random,
        outer,
        columns,
        buffers: Buffers::default(),
        program: Program::default(),
    };
    let first = maker.access(90, true, false, Floats::Any);
    maker.program.push(Instruction::Load(first));
    let reduces = maker.random.chance(50);
    for _ in 0..2 + maker.random.below(14) {
        maker.instruction(reduces);
    }
    let body = maker.results();
    let kernel = LoopKernel {
        outer: maker.outer,
        columns: maker.columns,
        body,
    };
    (kernel, maker.buffers)
}

#[test]
fn random_programs_agree_with_the_interpreter() {
    for seed in 0..2000 {
        let (kernel, buffers) = kernel(seed);
        let set = {
            let sets = InstructionSet::available();
            sets[seed as usize % sets.len()]
        };
        let action = Action::Loop(kernel);
        let one = run_with(&action, &buffers, 1, set).expect("the kernel is sound");
        let expected = oracle::run(&action, &buffers);
        if let Err(difference) = oracle::compare(&expected, &buffers, &one) {
            panic!("seed {seed}, {set:?}: {difference}\n{action:#?}");
        }
        if seed % 3 == 0 {
            let two = run_with(&action, &buffers, 2, set).expect("the kernel is sound");
            assert!(one == two, "seed {seed}: other results with two threads");
        }
    }
}

#[test]
fn random_programs_can_work_in_place() {
    let mut tried = 0;
    for seed in 0..5000 {
        let (mut kernel, mut buffers) = kernel(seed);
        // A dense store of a value goes back to where an equal load came from.
        let loads: Vec<Access> = kernel.body.program.loads().cloned().collect();
        let Some(load) = loads.iter().find(|load| {
            let axes = kernel.outer.iter().zip(&load.strides);
            load.dtype != DType::U32
                && (load.column_stride != 0 || kernel.columns < 2)
                && axes.clone().all(|(&dim, &stride)| dim < 2 || stride != 0)
        }) else {
            continue;
        };
        let Some(store) = kernel.body.stores.first_mut() else {
            continue;
        };
        store.access = load.clone();
        let last: BufferId = load.buffer;
        if kernel.body.stores[1..]
            .iter()
            .any(|store| store.access.buffer == last)
        {
            continue;
        }
        tried += 1;
        buffers.empty(1);
        let action = Action::Loop(kernel);
        let set = InstructionSet::detect();
        let one = run_with(&action, &buffers, 1, set).expect("the kernel is sound");
        let expected = oracle::run(&action, &buffers);
        if let Err(difference) = oracle::compare(&expected, &buffers, &one) {
            panic!("seed {seed}: {difference}\n{action:#?}");
        }
    }
    assert!(tried > 500, "{tried}");
}
