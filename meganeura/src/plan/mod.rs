//! Kernels in order, and where every buffer lies.
//!
//! Temporaries share one arena: each has an offset, and two that are never needed at the
//! same time may overlap. The same plan serves every device; printed, it tells what a step
//! costs.

mod arena;
pub(crate) mod depth;
mod display;
mod traffic;

use crate::egraph::CostModel;
use crate::ir::{DType, Graph, IndexBound, Precision, Variable};
use crate::schedule::kernel::{BufferId, Kernel};
use crate::schedule::{Storage, schedule};

/// What a buffer is for, and with that how long its contents live.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Given before each run.
    Input(String),
    /// Lives from run to run; an index into [`Plan::variables`].
    Variable(usize),
    /// Read after each run.
    Output(String),
    /// Lives between two kernels, at this word of the arena.
    Temporary {
        /// Words of four bytes before it in the arena, a multiple of 64.
        offset: usize,
    },
}

/// One buffer of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// What it is for.
    pub role: Role,
    /// The number of elements.
    pub elements: usize,
    /// Their type.
    pub dtype: DType,
    /// Whether it counts on what no kernel ever writes there to be zero: a temporary whose
    /// memory no other takes. Executors clear the arena when they load a plan.
    pub gaps: bool,
}

impl Buffer {
    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        (self.elements * self.dtype.size()) as u64
    }

    /// Words of four bytes that hold all elements.
    pub fn words(&self) -> usize {
        (self.elements * self.dtype.size()).div_ceil(4)
    }
}

/// Everything a device needs to run a graph, again and again.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Plan {
    /// The buffers, by [`BufferId`].
    pub buffers: Vec<Buffer>,
    /// The dispatches, in order.
    pub kernels: Vec<Kernel>,
    /// The variables of the graph.
    pub variables: Vec<Variable>,
    /// What must hold of integer inputs.
    pub bounds: Vec<IndexBound>,
    /// Words of four bytes in the arena that holds all temporaries.
    pub arena_words: usize,
}

impl Plan {
    /// Plan a graph of primitives, for the processor.
    pub fn new(graph: &Graph) -> Plan {
        Plan::with_model(graph, &CostModel::default(), Precision::F32)
    }

    /// Plan a graph of primitives for a device with these rates: they decide what is kept
    /// between kernels and what is computed again. Products are computed as precisely as is
    /// asked for here.
    pub fn with_model(graph: &Graph, model: &CostModel, precision: Precision) -> Plan {
        let schedule = schedule(graph, model, precision);
        let lifetimes = arena::lifetimes(&schedule);
        let (offsets, arena_words) = arena::place(&schedule, &lifetimes);
        let buffers = schedule
            .buffers
            .iter()
            .zip(offsets)
            .map(|(buffer, offset)| Buffer {
                role: match &buffer.storage {
                    Storage::Input(name) => Role::Input(name.clone()),
                    Storage::Variable(index) => Role::Variable(*index),
                    Storage::Output(name) => Role::Output(name.clone()),
                    Storage::Temporary => Role::Temporary { offset },
                },
                elements: buffer.elements,
                dtype: buffer.dtype,
                gaps: buffer.gaps.is_some(),
            });
        Plan {
            buffers: buffers.collect(),
            kernels: schedule.kernels,
            variables: graph
                .variables()
                .into_iter()
                .map(|(variable, _)| variable)
                .collect(),
            bounds: graph.index_bounds(),
            arena_words,
        }
    }

    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.index()]
    }

    /// Bytes a kernel moves when what it touches of every buffer goes through memory once.
    pub fn kernel_bytes(&self, kernel: &Kernel) -> u64 {
        traffic::bytes(self, kernel) as u64
    }

    /// Bytes moved by one run.
    pub fn bytes_moved(&self) -> u64 {
        self.kernels
            .iter()
            .map(|kernel| self.kernel_bytes(kernel))
            .sum()
    }

    /// Floating-point operations of one run.
    pub fn flops(&self) -> u64 {
        self.kernels.iter().map(Kernel::flops).sum()
    }

    /// Bytes that must exist at once: inputs, variables, outputs, the arena, and room for sums that
    /// the processor's threads leave to each other.
    pub fn peak_bytes(&self) -> u64 {
        let written = depth::written(&self.kernels);
        let room = depth::room(&self.kernels, &|buffer| written.contains(&buffer));
        let fixed = self
            .buffers
            .iter()
            .filter(|buffer| !matches!(buffer.role, Role::Temporary { .. }));
        fixed.map(Buffer::bytes).sum::<u64>() + 4 * (self.arena_words + room) as u64
    }
}
