use std::collections::HashSet;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use super::attention::AttentionProgram;
use super::bounds;
use super::contract::ContractProgram;
use super::depth::{self, Common};
use super::index::{GatherProgram, ScatterAddProgram};
use super::loops::{self, LoopProgram};
use super::memory::{Memory, Region};
use super::pool::Pool;
use super::vector::InstructionSet;
use crate::plan::{Plan, Role};
use crate::runtime::{Binding, Executor, MemoryId, ProgramId, RunError};
use crate::schedule::kernel::{Action, BufferId, Kernel};

/// Runs plans on this machine's cores.
///
/// Results are the same for any number of threads.
#[derive(Debug)]
pub struct CpuExecutor {
    set: InstructionSet,
    pool: Pool,
    memories: Vec<Option<Memory>>,
    programs: Vec<Program>,
}

/// A plan with everything it needs.
struct Program {
    kernels: Vec<(String, Ready)>,
    /// The memory that the kernels point into, beside the bound one.
    owned: Vec<Memory>,
    bound: Vec<MemoryId>,
    /// Whether bound memory has been released.
    stale: bool,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("kernels", &self.kernels.len())
            .field("owned", &self.owned)
            .finish_non_exhaustive()
    }
}

/// A kernel ready to run.
enum Ready {
    Loop(Box<LoopProgram>),
    Contract(Box<ContractProgram>),
    Gather(GatherProgram),
    ScatterAdd(ScatterAddProgram),
    Attention(Box<AttentionProgram>),
}

impl CpuExecutor {
    /// An executor with this many threads, or one for each core.
    pub fn new(threads: Option<NonZero<usize>>) -> Self {
        Self::with_instructions(threads, InstructionSet::detect())
    }

    /// An executor that uses one of the instruction sets of this machine.
    pub(super) fn with_instructions(threads: Option<NonZero<usize>>, set: InstructionSet) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            set,
            pool: Pool::new(threads.map_or(cores, NonZero::get)),
            memories: Vec::new(),
            programs: Vec::new(),
        }
    }

    fn memory(&self, id: MemoryId) -> Result<&Memory, RunError> {
        let memory = self.memories.get(id.0 as usize).and_then(Option::as_ref);
        memory.ok_or_else(|| RunError::Failed(format!("there is no memory {}", id.0)))
    }

    /// Where every buffer of a plan lies.
    fn regions(
        &self,
        plan: &Plan,
        bindings: &[Binding],
        arena: Region,
    ) -> Result<Vec<Region>, RunError> {
        let region = |(index, buffer): (usize, &crate::plan::Buffer)| {
            let failed =
                |message: String| RunError::Failed(format!("buffer {index} of the plan {message}"));
            if let Role::Temporary { offset } = buffer.role {
                return match offset.checked_add(buffer.words()) {
                    Some(end) if end <= arena.elements => Ok(Region {
                        base: arena.base.wrapping_add(offset),
                        elements: buffer.elements,
                        dtype: buffer.dtype,
                    }),
                    _ => Err(failed("lies outside of the arena".to_owned())),
                };
            }
            let mut bindings = bindings.iter();
            let binding = bindings.find(|binding| binding.buffer.index() == index);
            let binding = binding.ok_or_else(|| failed("has no memory".to_owned()))?;
            let memory = self.memory(binding.memory)?.region();
            if memory.elements < buffer.words() {
                return Err(failed(format!(
                    "needs {} words, its memory has {}",
                    buffer.words(),
                    memory.elements
                )));
            }
            Ok(Region {
                base: memory.base,
                elements: buffer.elements,
                dtype: buffer.dtype,
            })
        };
        plan.buffers.iter().enumerate().map(region).collect()
    }

    fn compile(
        &self,
        kernel: &Kernel,
        regions: &[Region],
        common: &Common<'_>,
    ) -> Result<Ready, RunError> {
        let wrong = |message| RunError::Kernel {
            kernel: kernel.name.clone(),
            message,
        };
        bounds::check(kernel, regions).map_err(wrong)?;
        let workers = self.pool.threads();
        Ok(match &kernel.action {
            Action::Loop(kernel) => {
                Ready::Loop(Box::new(loops::compile(kernel, regions, self.set, workers)))
            }
            Action::Contract(kernel) => {
                let program = ContractProgram::new(kernel, regions, self.set, workers, common);
                Ready::Contract(Box::new(program.map_err(wrong)?))
            }
            Action::Gather(kernel) => Ready::Gather(GatherProgram::new(kernel, regions, self.set)),
            Action::ScatterAdd(kernel) => {
                Ready::ScatterAdd(ScatterAddProgram::new(kernel, regions))
            }
            Action::Attention(kernel) => {
                let program = AttentionProgram::new(kernel, regions, self.set);
                Ready::Attention(Box::new(program))
            }
        })
    }
}

/// The most that any kernel asks for.
#[derive(Default)]
struct Needs {
    /// Floats for each worker.
    scratch: usize,
    /// Floats for all workers together.
    shared: usize,
}

impl Ready {
    fn needs(&self) -> (usize, usize) {
        match self {
            Ready::Loop(program) => (program.scratch_elements(), program.shared_elements()),
            Ready::Contract(program) => (program.scratch_elements(), program.shared_elements()),
            Ready::Attention(program) => (program.scratch_elements(), 0),
            Ready::Gather(_) | Ready::ScatterAdd(_) => (0, 0),
        }
    }

    fn bind(&mut self, scratch: &[*mut f32], shared: *mut f32) {
        match self {
            Ready::Loop(program) => program.bind(scratch, shared),
            Ready::Contract(program) => program.bind(scratch, shared),
            Ready::Attention(program) => program.bind(scratch),
            Ready::Gather(_) | Ready::ScatterAdd(_) => {}
        }
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// Everything it was compiled and bound with is still there, and nobody else uses it.
    unsafe fn run(&self, pool: &Pool) -> Result<(), String> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Ready::Loop(program) => program.run(pool),
                Ready::Contract(program) => return program.run(pool),
                Ready::Gather(program) => program.run(pool),
                Ready::ScatterAdd(program) => program.run(pool),
                Ready::Attention(program) => program.run(pool),
            }
        }
        Ok(())
    }
}

impl Executor for CpuExecutor {
    fn describe(&self) -> String {
        let threads = match self.pool.threads() {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        format!("CPU, {threads}, {}", self.set.name())
    }

    fn allocate(&mut self, elements: usize) -> Result<MemoryId, RunError> {
        let id = u32::try_from(self.memories.len());
        let id = id.map_err(|_| RunError::Failed("too many memories".to_owned()))?;
        let memory = Memory::new(elements, "an allocation")?;
        self.memories.push(Some(memory));
        Ok(MemoryId(id))
    }

    fn release(&mut self, memory: MemoryId) {
        if let Some(slot) = self.memories.get_mut(memory.0 as usize) {
            *slot = None;
        }
        for program in &mut self.programs {
            if program.bound.contains(&memory) {
                program.stale = true;
                program.kernels = Vec::new();
                program.owned = Vec::new();
            }
        }
    }

    fn write(&mut self, memory: MemoryId, elements: &[u32]) -> Result<(), RunError> {
        let region = self.memory(memory)?.region();
        let count = elements.len().min(region.elements);
        // SAFETY: the memory has as many elements, and nothing runs.
        unsafe {
            std::ptr::copy_nonoverlapping(elements.as_ptr(), region.base.cast(), count);
        }
        Ok(())
    }

    fn read(&mut self, memory: MemoryId, elements: &mut [u32]) -> Result<(), RunError> {
        let region = self.memory(memory)?.region();
        let count = elements.len().min(region.elements);
        // SAFETY: the memory has as many elements, and nothing runs.
        unsafe {
            std::ptr::copy_nonoverlapping(region.base.cast(), elements.as_mut_ptr(), count);
        }
        Ok(())
    }

    fn load(&mut self, plan: &Plan, bindings: &[Binding]) -> Result<ProgramId, RunError> {
        let id = u32::try_from(self.programs.len());
        let id = id.map_err(|_| RunError::Failed("too many programs".to_owned()))?;
        let arena = Memory::new(plan.arena_words, "the arena")?;
        let regions = self.regions(plan, bindings, arena.region())?;
        let mut kernels = Vec::with_capacity(plan.kernels.len());
        let mut needs = Needs::default();
        let writes: HashSet<BufferId> = plan.kernels.iter().flat_map(Kernel::writes).collect();
        let rewritten = |buffer: BufferId| writes.contains(&buffer);
        let parts = plan.kernels.iter().map(|kernel| match &kernel.action {
            Action::Contract(kernel) => depth::elements(kernel, &rewritten),
            _ => 0,
        });
        let parts = Memory::new(parts.max().unwrap_or(0), "parts of products")?;
        let common = Common {
            rewritten: &rewritten,
            parts: parts.region(),
        };
        for kernel in &plan.kernels {
            let ready = self.compile(kernel, &regions, &common)?;
            let (scratch, shared) = ready.needs();
            needs.scratch = needs.scratch.max(scratch);
            needs.shared = needs.shared.max(shared);
            kernels.push((kernel.name.clone(), ready));
        }
        let shared = Memory::new(needs.shared, "scratch memory")?;
        let mut owned = vec![arena];
        for _ in 0..self.pool.threads() {
            owned.push(Memory::new(needs.scratch, "scratch memory")?);
        }
        let scratch: Vec<*mut f32> = owned[1..]
            .iter()
            .map(|memory| memory.region().base)
            .collect();
        for (_, kernel) in &mut kernels {
            kernel.bind(&scratch, shared.region().base);
        }
        owned.push(shared);
        owned.push(parts);
        self.programs.push(Program {
            kernels,
            owned,
            bound: bindings.iter().map(|binding| binding.memory).collect(),
            stale: false,
        });
        Ok(ProgramId(id))
    }

    fn run(&mut self, program: ProgramId) -> Result<(), RunError> {
        self.run_each(program, || {})
    }

    fn profile(&mut self, program: ProgramId) -> Result<Vec<Duration>, RunError> {
        let mut durations = Vec::new();
        let mut begin = Instant::now();
        self.run_each(program, || {
            let end = Instant::now();
            durations.push(end - begin);
            begin = end;
        })?;
        Ok(durations)
    }
}

impl CpuExecutor {
    /// Run every kernel of a program and tell after each.
    fn run_each(&self, program: ProgramId, mut done: impl FnMut()) -> Result<(), RunError> {
        let program = self.programs.get(program.0 as usize);
        let program = program.ok_or_else(|| RunError::Failed("no such program".to_owned()))?;
        if program.stale {
            let message = "the program's memory has been released".to_owned();
            return Err(RunError::Failed(message));
        }
        for (name, kernel) in &program.kernels {
            // SAFETY: the accesses were checked at `load`; bound memory is there unless the
            // program is stale, the rest belongs to the program; both callers borrow `self`
            // mutably, so nothing else runs.
            unsafe { kernel.run(&self.pool) }.map_err(|message| RunError::Kernel {
                kernel: name.clone(),
                message,
            })?;
            done();
        }
        Ok(())
    }
}
