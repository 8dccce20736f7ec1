//! Kernels of every archetype, with data.

mod contractions;
mod loops;
mod others;

use super::reference;
use crate::ir::{Combine, DType, ScalarOp};
use crate::schedule::attention::{AttentionKernel, AttentionPass};
use crate::schedule::kernel::{
    Access, Accumulate, Action, Body, BufferId, ContractKernel, GatherKernel, Instruction, Kernel,
    LoopKernel, Operand, Program, ScatterAddKernel, Store, ValueId,
};
use crate::schedule::narrow::narrow_from;
use crate::schedule::{Schedule, ScheduledBuffer, Storage};
use ScalarOp::{Add, Divide, Exp, Maximum, Multiply, ReciprocalSqrt, Subtract, Tanh};
use contractions::*;
use loops::*;
use others::*;

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

/// The same with as many buffers of bf16 as a plan might have; none, if there are none. Their
/// contents are rounded; `halves` says whether devices keep them in two bytes each.
pub(crate) fn narrowed(sample: &Sample, halves: bool) -> Option<Sample> {
    let buffer = |contents: &Contents| ScheduledBuffer {
        storage: Storage::Temporary,
        elements: contents.values.len(),
        dtype: contents.dtype,
        gaps: None,
    };
    let mut schedule = Schedule {
        buffers: sample.buffers.iter().map(buffer).collect(),
        kernels: vec![sample.kernel.clone()],
    };
    narrow_from(&mut schedule, true, 1);
    let mut buffers = sample.buffers.clone();
    for (contents, buffer) in buffers.iter_mut().zip(&schedule.buffers) {
        if buffer.dtype == DType::BF16 {
            let values = contents
                .values
                .iter()
                .map(|&value| reference::rounded(value));
            contents.values = values.collect();
            contents.dtype = if halves { DType::BF16 } else { contents.dtype };
        }
    }
    let types = |id: u32| schedule.buffers[id as usize].dtype;
    let alike = |(a, b): &(u32, u32)| types(*a) == types(*b);
    let any = schedule
        .buffers
        .iter()
        .any(|buffer| buffer.dtype == DType::BF16);
    let kernel = schedule.kernels.pop()?;
    (any && sample.aliases.iter().all(alike)).then(|| Sample {
        kernel,
        buffers,
        aliases: sample.aliases.clone(),
    })
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
    let products = [
        contract("product", &[], 64, 48, 32, [false, false]),
        contract("product", &[], 33, 18, 21, [true, false]),
        contract("large tiles", &[16], 257, 131, 9, [false, true]),
        convolution([1, 4, 4, 7], 8),
        convolution_weight([3, 2, 7, 6], 6),
    ];
    all.extend(products.map(rounded));
    for width in [3, 8] {
        all.extend([gather(width), scatter_add(width)]);
    }
    all
}
