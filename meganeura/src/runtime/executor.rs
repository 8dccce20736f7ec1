use std::time::Duration;

use super::Tuning;
use crate::egraph::CostModel;
use crate::plan::Plan;
use crate::schedule::kernel::BufferId;

/// Memory that outlives a run: an input, a variable, an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryId(pub u32);

/// A plan made ready to run on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramId(pub u32);

/// Which memory a plan's buffer stands for; one for each input, variable and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The plan's buffer.
    pub buffer: BufferId,
    /// The memory, at least as large.
    pub memory: MemoryId,
}

/// Why a device could not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// There is no such device here.
    #[error("{0}")]
    Unavailable(String),
    /// More memory than the device has or can address.
    #[error("{what} needs {bytes} bytes, the device allows {limit}")]
    OutOfMemory {
        /// What asked.
        what: String,
        /// How much it asked for.
        bytes: usize,
        /// How much there is.
        limit: usize,
    },
    /// The device cannot run the plan, or stopped running it.
    #[error("kernel `{kernel}`: {message}")]
    Kernel {
        /// Which kernel.
        kernel: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// The device failed or was lost.
    #[error("the device failed: {0}")]
    Failed(String),
}

/// What runs plans. Elements are four bytes each, whatever their type.
pub trait Executor {
    /// What it is, in words: "CPU, 2 threads, AVX-512".
    fn describe(&self) -> String;

    /// The rates that graphs are rewritten by. Those of the processor, unless it is something else.
    fn cost_model(&self) -> CostModel {
        CostModel::default()
    }

    /// Memory for this many elements, all bits zero.
    ///
    /// # Errors
    /// When the device has not that much.
    fn allocate(&mut self, elements: usize) -> Result<MemoryId, RunError>;

    /// Give memory back. Programs bound to it must not run any more.
    fn release(&mut self, memory: MemoryId);

    /// Copy elements into memory from its start; at most as many as it has.
    ///
    /// # Errors
    /// When the device fails.
    fn write(&mut self, memory: MemoryId, elements: &[u32]) -> Result<(), RunError>;

    /// Copy elements out of memory from its start, after all runs so far; at most as many as
    /// it has.
    ///
    /// # Errors
    /// When the device fails.
    fn read(&mut self, memory: MemoryId, elements: &mut [u32]) -> Result<(), RunError>;

    /// Make a plan ready: compile kernels, reserve the arena.
    ///
    /// # Errors
    /// When a kernel or a buffer exceeds what the device can do.
    fn load(&mut self, plan: &Plan, bindings: &[Binding]) -> Result<ProgramId, RunError>;

    /// Run every kernel of a program once.
    ///
    /// # Errors
    /// When the device fails.
    fn run(&mut self, program: ProgramId) -> Result<(), RunError>;

    /// Run every kernel of a program once and tell how long each took, in the plan's order;
    /// nothing where the device cannot tell.
    ///
    /// # Errors
    /// When the device fails.
    fn profile(&mut self, program: ProgramId) -> Result<Vec<Duration>, RunError> {
        self.run(program)?;
        Ok(Vec::new())
    }

    /// Try for so long how kernels of a program run faster, and let them. Memory is as before;
    /// nothing happens where there is nothing to choose.
    ///
    /// # Errors
    /// When the device fails.
    fn tune(&mut self, program: ProgramId, budget: Duration) -> Result<Tuning, RunError> {
        let _ = (program, budget);
        Ok(Tuning::default())
    }
}
