//! Kernels on this machine against an interpreter in double precision.

mod attention;
mod basics;
mod contractions;
pub(super) mod convolutions;
mod folded;
mod oracle;
mod random;
mod rotations;

use std::num::NonZero;

use super::CpuExecutor;
use super::vector::InstructionSet;
use crate::ir::{DType, Precision};
use crate::plan::{Buffer, Plan, Role};
use crate::runtime::{Binding, Executor, RunError};
use crate::schedule::kernel::{Access, Action, BufferId, Instruction, Kernel};

/// The contents of buffers, before or after a kernel.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Buffers(pub(super) Vec<Contents>);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Contents {
    pub(super) dtype: DType,
    /// Floats or integers, as their bits; of halves, those of the floats that they stand for.
    pub(super) bits: Vec<u32>,
}

impl Contents {
    /// As memory holds it.
    fn packed(&self) -> Vec<u32> {
        if self.dtype != DType::BF16 {
            return self.bits.clone();
        }
        let pairs = self.bits.chunks(2);
        let upper = |bits: Option<&u32>| bits.map_or(0, |bits| bits >> 16);
        pairs
            .map(|pair| upper(pair.first()) | upper(pair.get(1)) << 16)
            .collect()
    }

    /// What memory holds.
    fn unpack(&mut self, packed: &[u32]) {
        if self.dtype != DType::BF16 {
            self.bits.copy_from_slice(packed);
            return;
        }
        for (index, bits) in self.bits.iter_mut().enumerate() {
            *bits = packed[index / 2] >> (16 * (index % 2)) << 16;
        }
    }
}

impl Buffers {
    pub(super) fn floats(&mut self, values: &[f32]) -> BufferId {
        let bits = values.iter().map(|value| value.to_bits()).collect();
        self.push(DType::F32, bits)
    }

    pub(super) fn integers(&mut self, values: &[u32]) -> BufferId {
        self.push(DType::U32, values.to_vec())
    }

    /// Floats that memory holds as bf16; they are rounded.
    pub(super) fn halves(&mut self, values: &[f32]) -> BufferId {
        let rounded = values.iter().map(|&value| Precision::BF16.round(value));
        self.push(DType::BF16, rounded.map(f32::to_bits).collect())
    }

    /// Floats that no kernel writes by accident.
    pub(super) fn empty(&mut self, elements: usize) -> BufferId {
        self.floats(&vec![-77.0; elements])
    }

    fn push(&mut self, dtype: DType, bits: Vec<u32>) -> BufferId {
        self.0.push(Contents { dtype, bits });
        BufferId(self.0.len() as u32 - 1)
    }

    pub(super) fn get(&self, buffer: BufferId) -> Vec<f32> {
        let bits = &self.0[buffer.index()].bits;
        bits.iter().map(|&bits| f32::from_bits(bits)).collect()
    }
}

/// Runs one kernel, twice, with so many threads and one instruction set.
pub(super) fn run_with(
    action: &Action,
    buffers: &Buffers,
    threads: usize,
    set: InstructionSet,
) -> Result<Buffers, RunError> {
    run_all(std::slice::from_ref(action), buffers, threads, set)
}

/// Runs kernels one after the other, twice, with so many threads and one instruction set.
pub(super) fn run_all(
    actions: &[Action],
    buffers: &Buffers,
    threads: usize,
    set: InstructionSet,
) -> Result<Buffers, RunError> {
    let mut executor = CpuExecutor::with_instructions(NonZero::new(threads), set);
    run_on(&mut executor, actions, buffers)
}

/// Runs kernels one after the other, twice, on an executor.
pub(super) fn run_on(
    executor: &mut CpuExecutor,
    actions: &[Action],
    buffers: &Buffers,
) -> Result<Buffers, RunError> {
    let kernel = |action: &Action| Kernel {
        name: "test".to_owned(),
        action: action.clone(),
    };
    let plan = Plan {
        buffers: buffers
            .0
            .iter()
            .map(|contents| Buffer {
                role: Role::Output(String::new()),
                elements: contents.bits.len(),
                dtype: contents.dtype,
                gaps: false,
            })
            .collect(),
        kernels: actions.iter().map(kernel).collect(),
        ..Plan::default()
    };
    let mut bindings = Vec::new();
    for (index, contents) in buffers.0.iter().enumerate() {
        bindings.push(Binding {
            buffer: BufferId(index as u32),
            memory: executor.allocate(contents.bits.len())?,
        });
    }
    let program = executor.load(&plan, &bindings)?;
    let mut results = Vec::new();
    for _ in 0..2 {
        for (contents, binding) in buffers.0.iter().zip(&bindings) {
            executor.write(binding.memory, &contents.packed())?;
        }
        executor.run(program)?;
        let mut result = buffers.clone();
        for (contents, binding) in result.0.iter_mut().zip(&bindings) {
            let mut packed = contents.packed();
            executor.read(binding.memory, &mut packed)?;
            contents.unpack(&packed);
        }
        results.push(result);
    }
    assert_eq!(results[0], results[1], "a second run gives the same");
    Ok(results.swap_remove(0))
}

/// Runs one kernel on two threads.
pub(super) fn run(action: &Action, buffers: &Buffers) -> Buffers {
    run_with(action, buffers, 2, InstructionSet::detect()).expect("the kernel is sound")
}

/// A row-major access to all of a buffer.
pub(super) fn dense(buffer: BufferId, outer: &[usize], columns: usize) -> Access {
    let stride = |axis: usize| outer[axis + 1..].iter().product::<usize>() * columns;
    Access {
        buffer,
        dtype: DType::F32,
        offset: 0,
        strides: (0..outer.len()).map(stride).collect(),
        column_stride: 1,
    }
}

pub(super) fn load(buffer: BufferId, strides: &[usize], column_stride: usize) -> Instruction {
    Instruction::Load(access(buffer, strides, column_stride))
}

pub(super) fn access(buffer: BufferId, strides: &[usize], column_stride: usize) -> Access {
    Access {
        buffer,
        dtype: DType::F32,
        offset: 0,
        strides: strides.to_vec(),
        column_stride,
    }
}
