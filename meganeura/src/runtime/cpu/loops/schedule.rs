//! When every value of a program is computed, and by which step.

use super::super::memory::{Element, Region};
use super::simplify::Domain;
use crate::ir::{Combine, ScalarOp};
use crate::schedule::kernel::{Access, Instruction, Level, ValueId};

/// Elements of values kept from one phase of a row to another; beyond, they are computed
/// again.
const KEPT: usize = 128 * 1024;

/// Who computes a value instead of a step of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consumer {
    /// The step of the one value that uses it.
    Value,
    /// The sum that uses it.
    Result,
}

/// When and how values are computed. A phase is what stands between two reductions that
/// depend on each other.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) levels: Vec<Level>,
    pub(super) needed: Vec<bool>,
    /// The number of phases.
    pub(super) phases: usize,
    /// Values are computed in every phase that uses them, rather than kept.
    pub(super) recompute: bool,
    /// The row loads whose memory a store writes to.
    pub(super) overwritten: Vec<bool>,
    /// The columns of a row must not be shared among tasks.
    pub(super) rows_stay_whole: bool,
    /// Whether another step computes it.
    pub(super) consumer: Vec<Option<Consumer>>,
    /// Which operand a value's step computes along.
    pub(super) folded: Vec<Option<usize>>,
    /// The store whose destination a value is computed in.
    pub(super) direct_store: Vec<Option<usize>>,
    /// Stores that must wait for the end of a phase, since they overwrite what is loaded.
    pub(super) delayed_store: Vec<Option<usize>>,
    stages: Vec<usize>,
    /// For each phase, the full values it computes.
    computed: Vec<Vec<bool>>,
}

impl Schedule {
    /// Plans a program. `wide` is the tiling by single rows; with `multiple` a row has more
    /// than one piece; if it is `staged`, other tasks may have them in another phase.
    pub(super) fn new(
        domain: &Domain,
        buffers: &[Region],
        wide: bool,
        multiple: bool,
        staged: bool,
    ) -> Self {
        let count = domain.program.instructions.len();
        let stages = domain.program.stages();
        let mut schedule = Schedule {
            levels: domain.program.levels(),
            needed: needed(domain),
            phases: 1,
            recompute: false,
            overwritten: vec![false; count],
            rows_stay_whole: false,
            consumer: vec![None; count],
            folded: vec![None; count],
            direct_store: vec![None; count],
            delayed_store: vec![None; domain.stores.len()],
            stages: stages.into_iter().map(|stage| stage as usize).collect(),
            computed: Vec::new(),
        };
        let values = (0..count).filter(|&value| schedule.needed[value]);
        let last = values.map(|value| schedule.stages[value]).max();
        schedule.phases = last.unwrap_or(0) + 1;
        schedule.delay_stores(domain, buffers);
        let phase = schedule.full_phases(domain);
        schedule.recompute = staged || (multiple && schedule.kept(domain, &phase) > KEPT);
        schedule.computed = if schedule.recompute {
            schedule.closures(domain)
        } else {
            let in_phase = |p| phase.iter().map(|&phase| phase == Some(p)).collect();
            (0..schedule.phases).map(in_phase).collect()
        };
        schedule.fold(domain, wide);
        schedule.store_directly(domain, buffers);
        schedule
    }

    /// The phase before which a row value is computed.
    pub(super) fn row_phase(&self, value: usize) -> Option<usize> {
        self.needed[value].then(|| self.stages[value])
    }

    /// Whether a full value is computed in a phase.
    pub(super) fn computes(&self, value: usize, phase: usize) -> bool {
        self.computed[phase][value]
    }

    /// The phase in which a value is reduced, accumulated and stored.
    pub(super) fn results_phase(&self, value: usize) -> Option<usize> {
        self.row_phase(value)
    }

    fn is_full(&self, value: usize) -> bool {
        self.levels[value] == Level::Full
    }

    /// Finds the stores that overwrite what the kernel loads.
    fn delay_stores(&mut self, domain: &Domain, buffers: &[Region]) {
        for (index, store) in domain.stores.iter().enumerate() {
            let loads = self.overwritten(domain, buffers, &store.access);
            if loads.is_empty() {
                continue;
            }
            if store.access.column_stride != 0 || self.is_full(store.value.index()) {
                self.delayed_store[index] = Some(self.phases - 1);
            }
            for load in loads {
                if !self.is_full(load) {
                    self.overwritten[load] = true;
                    self.rows_stay_whole = true;
                }
            }
        }
    }

    /// The needed loads from a buffer that a store writes to.
    fn overwritten(&self, domain: &Domain, buffers: &[Region], store: &Access) -> Vec<usize> {
        let target = buffers[store.buffer.index()];
        let instructions = domain.program.instructions.iter().enumerate();
        let loads = instructions.filter(|(value, instruction)| {
            matches!(instruction, Instruction::Load(access)
                if buffers[access.buffer.index()].overlaps(target))
                && self.needed[*value]
        });
        loads.map(|(value, _)| value).collect()
    }

    /// The latest phase that is early enough for all users of each full value.
    fn full_phases(&self, domain: &Domain) -> Vec<Option<usize>> {
        let mut phases: Vec<Option<usize>> = vec![None; self.levels.len()];
        let mut by = |value: usize, phase: usize| {
            let before = phases[value].unwrap_or(phase);
            phases[value] = Some(before.min(phase));
        };
        for (index, store) in domain.stores.iter().enumerate() {
            let value = store.value.index();
            by(
                value,
                self.delayed_store[index].unwrap_or(self.stages[value]),
            );
        }
        for sum in &domain.accumulates {
            by(sum.value.index(), self.stages[sum.value.index()]);
        }
        for (index, instruction) in domain.program.instructions.iter().enumerate() {
            if let Instruction::Reduce(_, value) = instruction
                && self.needed[index]
            {
                by(value.index(), self.stages[value.index()]);
            }
        }
        for value in (0..phases.len()).rev() {
            if let (true, Some(phase)) = (self.is_full(value), phases[value]) {
                for operand in operands(&domain.program.instructions[value]) {
                    let before = phases[operand].unwrap_or(phase);
                    phases[operand] = Some(before.min(phase));
                }
            } else {
                phases[value] = None;
            }
        }
        phases
    }

    /// Elements that must be kept from one phase for another.
    fn kept(&self, domain: &Domain, phase: &[Option<usize>]) -> usize {
        let mut kept = vec![false; phase.len()];
        for (user, instruction) in domain.program.instructions.iter().enumerate() {
            for operand in operands(instruction) {
                kept[operand] |= phase[user].is_some()
                    && phase[user] != phase[operand]
                    && !loaded_in_place(&domain.program.instructions[operand]);
            }
        }
        kept.into_iter().filter(|&kept| kept).count() * domain.columns
    }

    /// For each phase, everything that its results are made of.
    fn closures(&self, domain: &Domain) -> Vec<Vec<bool>> {
        let mut computed = vec![vec![false; self.levels.len()]; self.phases];
        for (index, store) in domain.stores.iter().enumerate() {
            let value = store.value.index();
            let phase = self.delayed_store[index].unwrap_or(self.stages[value]);
            computed[phase][value] = true;
        }
        for sum in &domain.accumulates {
            computed[self.stages[sum.value.index()]][sum.value.index()] = true;
        }
        for (index, instruction) in domain.program.instructions.iter().enumerate() {
            if let (Instruction::Reduce(_, value), true) = (instruction, self.needed[index]) {
                computed[self.stages[value.index()]][value.index()] = true;
            }
        }
        for phase in &mut computed {
            for value in (0..phase.len()).rev() {
                phase[value] &= self.is_full(value);
                if phase[value] {
                    for operand in operands(&domain.program.instructions[value]) {
                        phase[operand] = true;
                    }
                }
            }
        }
        computed
    }

    /// Chooses the operations that another's step computes along.
    fn fold(&mut self, domain: &Domain, wide: bool) {
        let instructions = &domain.program.instructions;
        let mut uses = vec![0; instructions.len()];
        for (value, instruction) in instructions.iter().enumerate() {
            if self.needed[value] {
                operands(instruction).for_each(|operand| uses[operand] += 1);
            }
        }
        let stored = domain.stores.iter().map(|store| store.value);
        let summed = domain.accumulates.iter().map(|sum| sum.value);
        stored
            .chain(summed)
            .for_each(|value| uses[value.index()] += 1);
        for (value, instruction) in instructions.iter().enumerate() {
            if !self.needed[value] || !self.is_full(value) {
                continue;
            }
            if let Instruction::Scalar(op, inner) = instruction
                && is_pair_op(*op)
            {
                let foldable = |side: &usize| {
                    let operand = inner[*side].index();
                    uses[operand] == 1
                        && self.is_full(operand)
                        && self.folded[operand].is_none()
                        && matches!(&instructions[operand], Instruction::Scalar(op, _) if is_pair_op(*op))
                };
                if let Some(side) = (0..2).find(foldable) {
                    self.folded[value] = Some(side);
                    self.consumer[inner[side].index()] = Some(Consumer::Value);
                }
            }
        }
        if wide {
            self.fold_into_sums(domain, &uses);
        }
    }

    /// Products that only a sum uses.
    fn fold_into_sums(&mut self, domain: &Domain, uses: &[usize]) {
        let instructions = &domain.program.instructions;
        let reduced = instructions
            .iter()
            .enumerate()
            .filter_map(|(index, instruction)| match instruction {
                Instruction::Reduce(Combine::Sum, value) if self.needed[index] => Some(*value),
                _ => None,
            });
        let sums = domain
            .accumulates
            .iter()
            .filter(|sum| sum.combine == Combine::Sum);
        let values: Vec<usize> = reduced
            .chain(sums.map(|sum| sum.value))
            .map(|value| value.index())
            .collect();
        for value in values {
            let product = matches!(
                &instructions[value],
                Instruction::Scalar(ScalarOp::Multiply, _)
            );
            if product && uses[value] == 1 && self.is_full(value) && self.folded[value].is_none() {
                self.consumer[value] = Some(Consumer::Result);
            }
        }
    }

    /// Chooses the values that are computed right in the memory they are stored to.
    fn store_directly(&mut self, domain: &Domain, buffers: &[Region]) {
        for (index, store) in domain.stores.iter().enumerate() {
            let value = store.value.index();
            let computed = self.is_full(value)
                && self.consumer[value].is_none()
                && matches!(domain.program.instructions[value], Instruction::Scalar(..));
            let dense = store.access.column_stride == 1
                && Element::of(store.access.dtype) == Element::Float;
            if !computed || !dense || self.direct_store[value].is_some() {
                continue;
            }
            if self.delayed_store[index].is_some() {
                if self.phases > 1 || !self.last_to_read(domain, buffers, value, &store.access) {
                    continue;
                }
                self.delayed_store[index] = None;
            }
            self.direct_store[value] = Some(index);
        }
    }

    /// Whether nothing after a value's step reads what its store overwrites.
    fn last_to_read(
        &self,
        domain: &Domain,
        buffers: &[Region],
        value: usize,
        store: &Access,
    ) -> bool {
        let loads = self.overwritten(domain, buffers, store);
        let copied = domain.stores.iter().zip(&self.delayed_store);
        let mut copied = copied.filter(|(_, delayed)| delayed.is_some());
        if copied.any(|(other, _)| loads.contains(&other.value.index())) {
            return false;
        }
        // What is made of a load itself is made when its turn comes.
        let stored = domain.stores.iter().map(|store| store.value);
        let summed = domain.accumulates.iter().map(|sum| sum.value);
        let mut results = stored.chain(summed).map(ValueId::index);
        if results.any(|result| result > value && loads.contains(&result)) {
            return false;
        }
        let instructions = domain.program.instructions.iter().enumerate();
        let mut users = instructions.filter(|(user, instruction)| {
            self.needed[*user] && operands(instruction).any(|operand| loads.contains(&operand))
        });
        users.all(|(user, _)| self.step_of(domain, user) <= value)
    }

    /// The value whose step computes a value.
    fn step_of(&self, domain: &Domain, value: usize) -> usize {
        if self.consumer[value] != Some(Consumer::Value) {
            return value;
        }
        let instructions = domain.program.instructions.iter().enumerate();
        let mut users = instructions.filter(|(user, instruction)| {
            self.needed[*user] && operands(instruction).any(|operand| operand == value)
        });
        users.next().map_or(value, |(user, _)| user)
    }
}

/// The operands of a scalar instruction.
fn operands(instruction: &Instruction) -> impl Iterator<Item = usize> + '_ {
    let operands: &[_] = match instruction {
        Instruction::Scalar(_, operands) => operands,
        Instruction::Reduce(_, operand) => std::slice::from_ref(operand),
        _ => &[],
    };
    operands.iter().map(|operand| operand.index())
}

fn is_pair_op(op: ScalarOp) -> bool {
    matches!(op, ScalarOp::Add | ScalarOp::Subtract | ScalarOp::Multiply)
}

fn loaded_in_place(instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::Load(access)
        if access.column_stride == 1 && Element::of(access.dtype) == Element::Float)
}

/// The values that some result depends on.
fn needed(domain: &Domain) -> Vec<bool> {
    let mut needed = vec![false; domain.program.instructions.len()];
    let stored = domain.stores.iter().map(|store| store.value);
    let summed = domain.accumulates.iter().map(|sum| sum.value);
    stored
        .chain(summed)
        .for_each(|value| needed[value.index()] = true);
    for value in (0..needed.len()).rev() {
        if needed[value] {
            operands(&domain.program.instructions[value])
                .for_each(|operand| needed[operand] = true);
        }
    }
    needed
}
