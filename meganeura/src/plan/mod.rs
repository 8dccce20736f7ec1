//! Kernels in order, and where every buffer lies.

use crate::ir::{DType, IndexBound, Variable};
use crate::schedule::kernel::{BufferId, Kernel};

/// What a buffer is for, and with that how long its contents live.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Given before each run.
    Input(String),
    /// Lives from run to run; an index into [`Plan::variables`].
    Variable(usize),
    /// Read after each run.
    Output(String),
    /// Lives between two kernels, at this element of the arena.
    Temporary {
        /// Element offset into the arena, a multiple of 64.
        offset: usize,
    },
}

/// One buffer of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// What it is for.
    pub role: Role,
    /// The number of elements, four bytes each.
    pub elements: usize,
    /// Their type.
    pub dtype: DType,
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
    /// Elements of the arena that holds all temporaries.
    pub arena_elements: usize,
}

impl Plan {
    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.index()]
    }
}
