//! Plans on a GPU.

use super::adapter::Limits;
use super::buffer::Buffer;
use super::context::Context;
use super::error::GpuError;
use super::pipeline;
use super::queue::{Dispatch, Program, Queue};
use crate::codegen::{self, Place, Shader, Slot, Target};
use crate::egraph::CostModel;
use crate::plan::{Plan, Role};
use crate::runtime::{Binding, Executor, MemoryId, ProgramId, RunError};
use crate::schedule::kernel::{BufferId, Kernel};
use std::sync::Arc;

/// Runs plans on a GPU.
#[derive(Debug)]
pub struct GpuExecutor {
    // Dropped first, so that nothing runs any more when memory goes.
    queue: Queue,
    context: Arc<Context>,
    target: Target,
    memories: Vec<Option<Memory>>,
    programs: Vec<Program>,
}

#[derive(Debug, Clone)]
struct Memory {
    buffer: Arc<Buffer>,
    elements: usize,
}

impl GpuExecutor {
    /// Run on the best GPU: discrete, then integrated, then a software driver.
    ///
    /// # Errors
    /// When there is no usable driver or device; the reason says why.
    pub fn best() -> Result<GpuExecutor, RunError> {
        Self::on(Context::best()?)
    }

    /// Run on an opened GPU.
    ///
    /// # Errors
    /// When the device fails.
    pub fn on(context: Arc<Context>) -> Result<GpuExecutor, RunError> {
        let software = context.adapter().is_software();
        Self::with_variant(context, software)
    }

    /// Run on an opened GPU with the kernels that are meant for software drivers, or those
    /// that are meant for GPUs. Both are correct everywhere.
    ///
    /// # Errors
    /// When the device fails.
    pub fn with_variant(context: Arc<Context>, software: bool) -> Result<GpuExecutor, RunError> {
        let limits = context.limits();
        let target = Target {
            software,
            storage_buffers: limits.storage_buffers as usize,
            groups_per_axis: limits.groups_per_axis,
            // That limit is the driver's, whichever kernels it is given.
            rounds: match context.adapter().is_software() {
                true => Target::SOFTWARE.rounds,
                false => Target::GPU.rounds,
            },
        };
        Ok(GpuExecutor {
            queue: Queue::new(&context)?,
            context,
            target,
            memories: Vec::new(),
            programs: Vec::new(),
        })
    }

    /// The device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// How many dispatches and barriers a program has.
    pub fn dispatches(&self, program: ProgramId) -> Option<(usize, usize)> {
        let program = self.programs.get(program.0 as usize)?;
        Some((program.len(), program.barrier_count()))
    }

    fn memory(&self, id: MemoryId) -> Result<&Memory, RunError> {
        let memory = self.memories.get(id.0 as usize).and_then(Option::as_ref);
        memory.ok_or_else(|| RunError::Failed("that memory was given back".to_owned()))
    }

    /// Memory on the device; a software driver's is the processor's own.
    fn create(&mut self, name: &str, elements: usize) -> Result<Arc<Buffer>, RunError> {
        let bytes = elements as u64 * 4;
        let buffer = match self.context.adapter().is_software() {
            true => Buffer::shared(&self.context, name, bytes),
            false => Buffer::device(&self.context, name, bytes),
        }?;
        self.queue.clear(&buffer)?;
        Ok(Arc::new(buffer))
    }
}

/// Where a plan's buffers lie.
struct Places {
    buffers: Vec<Range>,
    scratch: Arc<Buffer>,
}

/// A range of a buffer on the device.
#[derive(Clone)]
struct Range {
    buffer: Arc<Buffer>,
    offset: u64,
    bytes: u64,
}

impl Places {
    fn same(&self, a: BufferId, b: BufferId) -> bool {
        match (self.buffers.get(a.index()), self.buffers.get(b.index())) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.buffer, &b.buffer) && a.offset == b.offset,
            _ => false,
        }
    }

    /// What a shader binds for one of its slots.
    fn binding(&self, slot: &Slot, scratch: &[Range]) -> pipeline::Binding {
        let range = match &slot.place {
            Place::Scratch(index) => scratch[*index].clone(),
            Place::Buffers(buffers) => {
                let ranges = buffers.iter().map(|id| &self.buffers[id.index()]);
                let widest = ranges.max_by_key(|range| range.bytes);
                widest.expect("a slot has a buffer").clone()
            }
        };
        pipeline::Binding {
            buffer: range.buffer,
            offset: range.offset,
            bytes: range.bytes,
            writes: slot.writes,
        }
    }

    /// The scratch memory of one kernel.
    fn scratch_ranges(&self, sizes: &[usize], limits: &Limits) -> Vec<Range> {
        let mut offset = 0;
        let mut ranges = Vec::new();
        for &elements in sizes {
            let bytes = elements as u64 * 4;
            ranges.push(Range {
                buffer: self.scratch.clone(),
                offset,
                bytes,
            });
            offset += bytes.next_multiple_of(limits.offset_alignment);
        }
        ranges
    }
}

fn scratch_bytes(sizes: &[usize], limits: &Limits) -> u64 {
    let aligned = sizes
        .iter()
        .map(|&elements| (elements as u64 * 4).next_multiple_of(limits.offset_alignment));
    aligned.sum()
}

fn failed(kernel: &Kernel, error: impl std::fmt::Display) -> RunError {
    RunError::Kernel {
        kernel: kernel.name.clone(),
        message: error.to_string(),
    }
}

impl GpuExecutor {
    /// Find where every buffer of a plan lies; scratch comes later.
    fn places(&mut self, plan: &Plan, bindings: &[Binding]) -> Result<Vec<Range>, RunError> {
        let arena = self.create("arena", plan.arena_words)?;
        let mut ranges = Vec::new();
        for (index, buffer) in plan.buffers.iter().enumerate() {
            let bytes = buffer.bytes();
            let (target, offset) = match &buffer.role {
                Role::Temporary { offset } => (arena.clone(), *offset as u64 * 4),
                role => {
                    let bound = bindings
                        .iter()
                        .find(|binding| binding.buffer.index() == index);
                    let bound = bound.ok_or_else(|| {
                        RunError::Failed(format!("nothing is bound to {role:?} of the plan"))
                    })?;
                    (self.memory(bound.memory)?.buffer.clone(), 0)
                }
            };
            if offset + bytes > target.bytes() {
                let message = format!(
                    "{:?} needs {bytes} bytes, more than it is bound to",
                    buffer.role
                );
                return Err(RunError::Failed(message));
            }
            ranges.push(Range {
                buffer: target,
                offset,
                bytes,
            });
        }
        Ok(ranges)
    }

    fn dispatch(
        &self,
        shader: &Shader,
        kernel: &Kernel,
        places: &Places,
        scratch: &[Range],
    ) -> Result<Dispatch, RunError> {
        let pipeline = self
            .context
            .pipeline(&shader.name, &shader.source, shader.slots.len())
            .map_err(|error| failed(kernel, error))?;
        let slots = shader.slots.iter();
        Ok(Dispatch {
            name: shader.name.clone(),
            pipeline,
            bindings: slots.map(|slot| places.binding(slot, scratch)).collect(),
            arguments: shader.arguments,
            groups: shader.groups,
        })
    }
}

impl Executor for GpuExecutor {
    fn describe(&self) -> String {
        format!("GPU, {}", self.context.adapter())
    }

    /// A software driver computes on the processor, so it has the processor's.
    fn cost_model(&self) -> CostModel {
        match self.context.adapter().is_software() {
            true => CostModel {
                halves: false,
                ..CostModel::default()
            },
            false => CostModel::gpu(),
        }
    }

    fn allocate(&mut self, elements: usize) -> Result<MemoryId, RunError> {
        let buffer = self.create("memory", elements)?;
        self.memories.push(Some(Memory { buffer, elements }));
        Ok(MemoryId(self.memories.len() as u32 - 1))
    }

    fn release(&mut self, memory: MemoryId) {
        if let Some(slot) = self.memories.get_mut(memory.0 as usize) {
            *slot = None;
        }
    }

    fn write(&mut self, memory: MemoryId, elements: &[u32]) -> Result<(), RunError> {
        let Memory {
            buffer,
            elements: size,
        } = self.memory(memory)?.clone();
        let fits = &elements[..elements.len().min(size)];
        Ok(self.queue.write(&buffer, 0, bytemuck::cast_slice(fits))?)
    }

    fn read(&mut self, memory: MemoryId, elements: &mut [u32]) -> Result<(), RunError> {
        let Memory {
            buffer,
            elements: size,
        } = self.memory(memory)?.clone();
        let length = elements.len().min(size);
        let fits = &mut elements[..length];
        Ok(self
            .queue
            .read(&buffer, 0, bytemuck::cast_slice_mut(fits))?)
    }

    fn load(&mut self, plan: &Plan, bindings: &[Binding]) -> Result<ProgramId, RunError> {
        let limits = *self.context.limits();
        let buffers = self.places(plan, bindings)?;
        let unscratched = Places {
            scratch: self.create("no scratch", 0)?,
            buffers,
        };
        let mut lowered = Vec::new();
        for kernel in &plan.kernels {
            let result = codegen::lower(kernel, &self.target, &|a, b| unscratched.same(a, b));
            lowered.push(result.map_err(|error| failed(kernel, error))?);
        }
        let most = lowered
            .iter()
            .map(|kernel| scratch_bytes(&kernel.scratch, &limits))
            .max();
        let places = Places {
            scratch: self.create("scratch", most.unwrap_or(0) as usize / 4)?,
            buffers: unscratched.buffers,
        };
        let mut dispatches = Vec::new();
        for (kernel, lowered) in plan.kernels.iter().zip(&lowered) {
            let scratch = places.scratch_ranges(&lowered.scratch, &limits);
            for shader in &lowered.shaders {
                dispatches.push(self.dispatch(shader, kernel, &places, &scratch)?);
            }
        }
        self.programs.push(Program::new(&self.context, dispatches)?);
        Ok(ProgramId(self.programs.len() as u32 - 1))
    }

    fn run(&mut self, program: ProgramId) -> Result<(), RunError> {
        let program = self.programs.get(program.0 as usize);
        let program =
            program.ok_or_else(|| RunError::Failed("that program does not exist".to_owned()))?;
        Ok(self.queue.run(program)?)
    }
}

impl From<GpuError> for RunError {
    fn from(error: GpuError) -> RunError {
        match error {
            GpuError::Unavailable(reason) => RunError::Unavailable(reason),
            GpuError::TooLarge {
                what,
                needed,
                allowed,
                unit: "bytes",
            } => RunError::OutOfMemory {
                what,
                bytes: needed as usize,
                limit: allowed as usize,
            },
            GpuError::Shader { kernel, reason } => RunError::Kernel {
                kernel,
                message: reason,
            },
            other => RunError::Failed(other.to_string()),
        }
    }
}
