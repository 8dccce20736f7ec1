use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use super::attention::AttentionProgram;
use super::bounds;
use super::contract::ContractProgram;
use super::depth::Common;
use super::index::{GatherProgram, ScatterAddProgram};
use super::loops::{self, LoopProgram};
use super::memory::{Memory, Region};
use super::pool::Pool;
use super::tune::{self, Cache, Choices, Origin, Step};
use super::vector::InstructionSet;
use crate::plan::{Plan, Role, depth};
use crate::runtime::{Binding, Executor, MemoryId, ProgramId, RunError, Tuned, Tuning};
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
    cache: Cache,
    /// What tuning has found, once it is needed.
    choices: Option<Choices>,
}

/// A plan with everything it needs.
struct Program {
    kernels: Vec<(String, Ready)>,
    /// What they were made from.
    origin: Origin,
    /// The memory that the kernels point into, beside the bound one and that for scratch.
    owned: Vec<Memory>,
    scratch: Vec<Memory>,
    bound: Vec<Binding>,
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
pub(super) enum Ready {
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
            cache: Cache::Off,
            choices: None,
        }
    }

    /// The same with a place for what tuning finds, which is looked at when a plan is loaded.
    pub fn with_cache(self, cache: Cache) -> Self {
        Self { cache, ..self }
    }

    /// The same as if tuning had found something.
    #[cfg(test)]
    pub(super) fn with_choices(mut self, choices: &[(String, Option<tune::Choice>)]) -> Self {
        let kept = self.choices().remember(choices);
        kept.expect("what is kept nowhere cannot fail to be kept");
        self
    }

    /// How the contractions of all programs are computed.
    #[cfg(test)]
    pub(super) fn chosen(&self) -> Vec<tune::Choice> {
        let kernels = self.programs.iter().flat_map(|program| &program.kernels);
        let chosen = kernels.filter_map(|(_, kernel)| match kernel {
            Ready::Contract(program) => Some(program.choice()),
            _ => None,
        });
        chosen.collect()
    }

    /// What tuning has found so far.
    fn choices(&mut self) -> &mut Choices {
        let (cache, threads) = (&self.cache, self.pool.threads());
        self.choices
            .get_or_insert_with(|| Choices::kept(cache, threads))
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

    /// Makes a kernel ready, by rules where nothing was found.
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
                let choices = self.choices.as_ref();
                let chosen = choices.and_then(|choices| choices.table.get(&tune::key(kernel)));
                let program =
                    ContractProgram::new(kernel, regions, self.set, workers, common, chosen);
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

impl Needs {
    fn add(&mut self, (scratch, shared): (usize, usize)) {
        self.scratch = self.scratch.max(scratch);
        self.shared = self.shared.max(shared);
    }

    /// Memory for all workers together, then for each.
    fn reserve(&self, workers: usize) -> Result<Vec<Memory>, RunError> {
        let floats = std::iter::once(self.shared).chain(vec![self.scratch; workers]);
        floats
            .map(|floats| Memory::new(floats, "scratch memory"))
            .collect()
    }
}

/// Where memory reserved for [`Needs`] lies: for each worker, and for all.
fn places(scratch: &[Memory]) -> (Vec<*mut f32>, *mut f32) {
    let mut bases = scratch.iter().map(|memory| memory.region().base);
    let shared = bases.next().unwrap_or(std::ptr::null_mut());
    (bases.collect(), shared)
}

impl Ready {
    /// Floats for each worker, and for all together.
    fn needs(&self) -> (usize, usize) {
        match self {
            Ready::Loop(program) => (program.scratch_elements(), program.shared_elements()),
            Ready::Contract(program) => program.needs(),
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
    pub(super) unsafe fn run(&self, pool: &Pool) -> Result<(), String> {
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
            if program.bound.iter().any(|bound| bound.memory == memory) {
                program.stale = true;
                program.kernels = Vec::new();
                program.owned = Vec::new();
                program.scratch = Vec::new();
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
        self.copy_out(region, elements);
        Ok(())
    }

    fn load(&mut self, plan: &Plan, bindings: &[Binding]) -> Result<ProgramId, RunError> {
        let id = u32::try_from(self.programs.len());
        let id = id.map_err(|_| RunError::Failed("too many programs".to_owned()))?;
        self.choices();
        let arena = Memory::new(plan.arena_words, "the arena")?;
        let regions = self.regions(plan, bindings, arena.region())?;
        let mut kernels = Vec::with_capacity(plan.kernels.len());
        let mut needs = Needs::default();
        let written = depth::written(&plan.kernels);
        let rewritten = |buffer: BufferId| written.contains(&buffer);
        let parts = Memory::new(depth::room(&plan.kernels, &rewritten), "parts of products")?;
        let common = Common {
            rewritten: &rewritten,
            parts: parts.region(),
        };
        for kernel in &plan.kernels {
            let ready = self.compile(kernel, &regions, &common)?;
            needs.add(ready.needs());
            kernels.push((kernel.name.clone(), ready));
        }
        let scratch = needs.reserve(self.pool.threads())?;
        let (workers, shared) = places(&scratch);
        for (_, kernel) in &mut kernels {
            kernel.bind(&workers, shared);
        }
        self.programs.push(Program {
            kernels,
            origin: Origin {
                kernels: plan.kernels.clone(),
                regions,
                written,
                parts: parts.region(),
            },
            owned: vec![arena, parts],
            scratch,
            bound: bindings.to_vec(),
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

    fn tune(&mut self, program: ProgramId, budget: Duration) -> Result<Tuning, RunError> {
        let saved = self.save_written(program)?;
        let tuning = self.search(program, budget);
        for (memory, elements) in &saved {
            self.write(*memory, elements)?;
        }
        tuning
    }
}

impl CpuExecutor {
    fn program(&self, program: ProgramId) -> Result<&Program, RunError> {
        let program = self.programs.get(program.0 as usize);
        let program = program.ok_or_else(|| RunError::Failed("no such program".to_owned()))?;
        if program.stale {
            let message = "the program's memory has been released".to_owned();
            return Err(RunError::Failed(message));
        }
        Ok(program)
    }

    /// What is in the bound memory that a program writes.
    fn save_written(&self, program: ProgramId) -> Result<Vec<(MemoryId, Vec<u32>)>, RunError> {
        let Program { bound, origin, .. } = self.program(program)?;
        let written = bound
            .iter()
            .filter(|bound| origin.written.contains(&bound.buffer));
        let save = |bound: &Binding| {
            let region = self.memory(bound.memory)?.region();
            let mut elements = vec![0u32; region.elements];
            self.copy_out(region, &mut elements);
            Ok((bound.memory, elements))
        };
        written.map(save).collect()
    }

    /// Searches for better choices for a program and remembers them.
    fn search(&mut self, id: ProgramId, budget: Duration) -> Result<Tuning, RunError> {
        self.program(id)?;
        let notes = Vec::from_iter(self.choices().note.take());
        let (pool, set) = (&self.pool, self.set);
        let program = &mut self.programs[id.0 as usize];
        let kernels = &mut program.kernels;
        // SAFETY: bound memory is there, since the program is not stale, the rest is its own, and
        // `self` is borrowed mutably.
        let mut step = unsafe { Step::new(pool, set, &program.origin, kernels) };
        let mut needs = Needs::default();
        step.kernels().for_each(|kernel| needs.add(kernel.needs()));
        step.idle().for_each(|kernel| needs.add(kernel.needs()));
        // Kernels have the old memory until all of them have the new one.
        let scratch = needs.reserve(pool.threads())?;
        let (workers, shared) = places(&scratch);
        step.kernels()
            .for_each(|kernel| kernel.bind(&workers, shared));
        step.idle().for_each(|kernel| kernel.bind(&workers, shared));
        program.scratch = scratch;
        let outcome = tune::search(&mut step, budget, &Instant::now())?;
        let subjects = step.subjects;
        let found = outcome.found.iter().map(|found| {
            let alike = &subjects[found.index];
            Tuned {
                kernel: program.kernels[alike.kernels()[0]].0.clone(),
                count: alike.kernels().len(),
                key: alike.key.clone(),
                from: found.from.to_string(),
                to: found.to.to_string(),
                ratio: found.ratio,
            }
        });
        let mut tuning = Tuning {
            found: found.collect(),
            runs: outcome.runs,
            tried: outcome.tried,
            step: outcome.step,
            file: None,
            notes,
        };
        let changes = outcome.found.iter();
        let changes = changes.map(|found| (subjects[found.index].key.clone(), Some(found.to)));
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            match self.choices().remember(&changes) {
                Ok(file) => tuning.file = file,
                Err(note) => tuning.notes.push(note),
            }
        }
        Ok(tuning)
    }

    fn copy_out(&self, region: Region, elements: &mut [u32]) {
        let count = elements.len().min(region.elements);
        // SAFETY: the memory has as many elements, and nothing runs.
        unsafe {
            std::ptr::copy_nonoverlapping(region.base.cast(), elements.as_mut_ptr(), count);
        }
    }

    /// Run every kernel of a program and tell after each.
    fn run_each(&self, program: ProgramId, mut done: impl FnMut()) -> Result<(), RunError> {
        let program = self.program(program)?;
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
