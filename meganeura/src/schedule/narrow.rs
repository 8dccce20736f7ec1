//! Which temporaries are kept as bf16, and kernels that know.
//!
//! What is large and read by contractions, attention or loops is rounded: activations and their
//! gradients. What is not: everything that outlives the step; sums over rows, at indices and
//! statistics of rows, which others divide by or subtract; what an update reads; and what is
//! compared, since a comparison must come out the same in every kernel, whether it has the value
//! or reads it.

use super::attention::AttentionPass;
use super::kernel::{
    Access, Action, Body, BufferId, ContractKernel, GatherKernel, Instruction, Kernel, Operand,
    Program, ValueId,
};
use super::order::{Schedule, Storage};
use crate::ir::{DType, ScalarOp};

/// Buffers of fewer elements stay as they are: they cost nothing, and may be statistics.
pub(super) const LARGE: usize = 32 * 1024;

/// Keep what may be rounded as bf16: in two bytes each, or as floats of that precision.
pub(super) fn narrow(schedule: &mut Schedule, halves: bool) {
    narrow_from(schedule, halves, LARGE);
}

/// The same for buffers of so many elements or more.
pub(crate) fn narrow_from(schedule: &mut Schedule, halves: bool, least: usize) {
    let narrowed = Search::of(schedule, least).rounded;
    for kernel in &mut schedule.kernels {
        rewrite(kernel, &narrowed);
    }
    if halves {
        let buffers = schedule.buffers.iter_mut().zip(narrowed);
        for (buffer, _) in buffers.filter(|(_, narrowed)| *narrowed) {
            buffer.dtype = DType::BF16;
        }
    }
}

/// Finds what may be rounded.
struct Search<'a> {
    schedule: &'a Schedule,
    rounded: Vec<bool>,
}

impl<'a> Search<'a> {
    fn of(schedule: &'a Schedule, least: usize) -> Search<'a> {
        let large = schedule.buffers.iter().map(|buffer| {
            buffer.storage == Storage::Temporary
                && matches!(buffer.dtype, DType::F32 | DType::Bool)
                && buffer.elements >= least
        });
        let mut search = Search {
            schedule,
            rounded: large.collect(),
        };
        for kernel in &schedule.kernels {
            search.kernel(kernel);
        }
        // An attention's results are rounded together.
        for kernel in &schedule.kernels {
            if let Action::Attention(kernel) = &kernel.action {
                let results = kernel.tensors();
                let all = results.iter().all(|result| search.rounded[result.index()]);
                for result in results.into_iter().filter(|_| !all) {
                    search.exact(result);
                }
            }
        }
        search
    }

    fn exact(&mut self, buffer: BufferId) {
        self.rounded[buffer.index()] = false;
    }

    fn kernel(&mut self, kernel: &Kernel) {
        match &kernel.action {
            Action::Loop(kernel) => self.body(&kernel.body, kernel.columns),
            Action::Contract(kernel) => {
                let ContractKernel { m, n, k, .. } = kernel;
                for (operand, axes) in [(&kernel.left, [m, k]), (&kernel.right, [k, n])] {
                    self.program(&operand.program);
                    // Windows are read in runs of floats.
                    if axes.iter().any(|axes| axes.len() > 1) {
                        let loads = operand.program.loads();
                        loads.for_each(|load| self.exact(load.buffer));
                    }
                }
                self.body(&kernel.epilogue, kernel.columns());
            }
            Action::Gather(_) => {}
            Action::ScatterAdd(kernel) => self.exact(kernel.output),
            Action::Attention(kernel) => {
                if let Some(mask) = &kernel.mask {
                    self.exact(mask.buffer);
                }
                match &kernel.pass {
                    AttentionPass::Forward { normalizer, .. } => {
                        normalizer.iter().for_each(|&buffer| self.exact(buffer));
                    }
                    AttentionPass::Backward {
                        normalizer, sums, ..
                    } => {
                        self.exact(normalizer.buffer);
                        self.exact(sums.buffer);
                    }
                }
            }
        }
    }

    fn body(&mut self, body: &Body, columns: usize) {
        self.program(&body.program);
        for sum in &body.accumulates {
            self.exact(sum.access.buffer);
        }
        let mut updates = false;
        for store in &body.stores {
            let access = &store.access;
            if access.column_stride == 0 && columns > 1 {
                self.exact(access.buffer);
            }
            let storage = &self.schedule.buffers[access.buffer.index()].storage;
            updates |= matches!(storage, Storage::Variable(_));
            // A result is given as it is, if there is a kernel only to copy it.
            if *storage != Storage::Temporary
                && let Instruction::Load(load) = &body.program.instructions[store.value.index()]
            {
                self.exact(load.buffer);
            }
        }
        if updates {
            for load in body.program.loads() {
                self.exact(load.buffer);
            }
        }
    }

    /// What is compared, or makes up random numbers.
    fn program(&mut self, program: &Program) {
        let zero =
            |value: &ValueId| program.instructions[value.index()] == Instruction::Constant(0.0);
        for instruction in &program.instructions {
            let Instruction::Scalar(op, operands) = instruction else {
                continue;
            };
            let sensitive = match op {
                // Rounding keeps signs.
                ScalarOp::Less | ScalarOp::LessEqual => !operands.iter().any(zero),
                ScalarOp::Equal | ScalarOp::Random => true,
                _ => false,
            };
            if sensitive {
                self.exact_sources(program, operands);
            }
        }
    }

    /// All that these values are made of.
    fn exact_sources(&mut self, program: &Program, values: &[ValueId]) {
        let mut open = values.to_vec();
        let mut seen = vec![false; program.instructions.len()];
        while let Some(value) = open.pop() {
            if std::mem::replace(&mut seen[value.index()], true) {
                continue;
            }
            match &program.instructions[value.index()] {
                Instruction::Load(access) => self.exact(access.buffer),
                Instruction::Scalar(_, operands) => open.extend(operands),
                Instruction::Reduce(_, operand) => open.push(*operand),
                _ => {}
            }
        }
    }
}

fn rewrite(kernel: &mut Kernel, narrowed: &[bool]) {
    let change = |access: &mut Access| {
        if narrowed[access.buffer.index()] {
            access.dtype = DType::BF16;
        }
    };
    let program = |program: &mut Program| {
        for instruction in &mut program.instructions {
            if let Instruction::Load(access) = instruction {
                change(access);
            }
        }
    };
    let body = |body: &mut Body| {
        program(&mut body.program);
        for store in &mut body.stores {
            change(&mut store.access);
        }
    };
    let operand = |operand: &mut Operand| program(&mut operand.program);
    match &mut kernel.action {
        Action::Loop(kernel) => body(&mut kernel.body),
        Action::Contract(kernel) => {
            operand(&mut kernel.left);
            operand(&mut kernel.right);
            body(&mut kernel.epilogue);
        }
        Action::Gather(GatherKernel { output, rounds, .. }) => *rounds = narrowed[output.index()],
        Action::ScatterAdd(_) => {}
        Action::Attention(kernel) => {
            let results = kernel.tensors();
            kernel.rounds = results.iter().any(|result| narrowed[result.index()]);
            for access in kernel.loads_mut() {
                change(access);
            }
        }
    }
}
