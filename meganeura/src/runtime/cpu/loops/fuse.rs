//! Steps that follow each other, as one loop in machine code.
//!
//! What one step makes and only steps of the same loop read never goes through memory. Steps
//! in one loop take turns at every vector, so they must not write where others read other
//! elements.

use std::ops::Range;
use std::sync::Arc;

use super::super::memory::Element;
use super::super::vector::machine::{Fused, Recording, Slot, Value, traceable, turn};
use super::super::vector::{Form, Kind, PairOp};
use super::compile::Register;
use super::program::{Code, LANES, NO_SLOT, Origin, Phase, Step, Tiling, Walk, Work};
use crate::ir::{Combine, ScalarOp};

/// Widens first and rounds registers last, so that what is between can be one loop. Nothing that is
/// widened is written earlier in its phase, and nobody reads what is rounded.
fn gather_conversions(code: &mut Code, phase: usize) {
    let in_register = |slot: Slot| code.slots[usize::from(slot)] == Origin::Null;
    code.phases[phase]
        .column
        .sort_by_key(|step| match step.work {
            Work::Vector(_, Form::Widen) => 0,
            Work::Vector(_, Form::Round(_)) if in_register(step.from[0]) => 2,
            _ => 1,
        });
}

/// Makes loops of all steps that can be together.
pub(super) fn fuse(code: &mut Code) {
    for phase in 0..code.phases.len() {
        gather_conversions(code, phase);
        let mut first = 0;
        while first < code.phases[phase].column.len() {
            let longest = longest(code, &code.phases[phase].column[first..]);
            // A loop that needs too many registers becomes two.
            let fused = (1..=longest).rev().find_map(|count| {
                let part = Part::new(code, phase, first..first + count);
                let fused = part.worthwhile().then(|| Fused::new(&part.record()))?;
                Some((part.range, part.before, part.finished, fused?))
            });
            if let Some((range, before, finished, fused)) = fused {
                let work = Work::Fused {
                    number: code.fused.len(),
                    steps: range.len(),
                };
                code.fused.push(Arc::new(fused));
                let step = Step {
                    work,
                    to: NO_SLOT,
                    from: [NO_SLOT; 3],
                };
                code.phases[phase].column.splice(range, [step]);
                code.phases[phase].row.truncate(before);
                for phase in &mut code.phases {
                    let finished = |step: &Step| {
                        matches!(step.work, Work::Finish(_)) && finished.contains(&step.from[0])
                    };
                    phase.row.retain(|step| !finished(step));
                }
            }
            first += 1;
        }
    }
}

/// Lets loops in machine code count columns.
pub(super) fn count_in_loops(code: &mut Code, registers: &mut Vec<Register>) {
    /// Floats hold all whole numbers up to here.
    const EXACT: usize = 1 << 24;
    let one_row = matches!(code.tiling, Tiling::Wide { .. }) && code.product == NO_SLOT;
    if !one_row || code.columns > EXACT {
        return;
    }
    for phase in 0..code.phases.len() {
        let mut steps = code.phases[phase].column.iter();
        if !steps.any(|step| matches!(step.work, Work::Columns)) {
            continue;
        }
        code.slots.push(Origin::Null);
        let Ok(slot) = Slot::try_from(code.slots.len() - 1) else {
            return;
        };
        registers.push(Register { slot, full: true });
        let counting = code.phases[phase].column.iter_mut();
        counting
            .filter(|step| matches!(step.work, Work::Columns))
            .for_each(|step| step.from[0] = slot);
        let first = Step {
            work: Work::FirstColumns,
            to: slot,
            from: [NO_SLOT; 3],
        };
        match code.rows_are_tiles() {
            true => code.phases[phase].row.insert(0, first),
            false => code.phases[phase].column.insert(0, first),
        }
    }
}

/// Lets loops ask for what the next row reads and writes, the longest ones first: many requests
/// at once would wait for each other.
///
/// Rows of several pieces that fit into the second-level cache have the next one fetched, too; longer
/// ones the processor follows by itself.
pub(super) fn fetch_in_loops(code: &mut Code) {
    /// Floats of such a row at most.
    const FAR: usize = 16 * 1024;
    if code.product != NO_SLOT {
        // What epilogues need is fetched during their product.
        return;
    }
    if code.chunks() > 1 && code.columns > FAR {
        return;
    }
    let steps = |phase: &Phase| phase.column.len();
    let mut loads: Vec<(usize, usize)> = code.phases.iter().map(|p| (steps(p), 1)).collect();
    for walk in 0..code.walks.len() {
        let Walk { ahead, element, .. } = &mut code.walks[walk];
        let Some(ahead) = ahead.take_if(|ahead| *element == Element::Float && *ahead > 0) else {
            continue;
        };
        let idle = |phase: &usize| loads[*phase].0 * 16 / loads[*phase].1;
        let Some(phase) = (0..loads.len()).max_by_key(idle) else {
            return;
        };
        loads[phase].1 += 1;
        let slot = code.walks[walk].slot;
        code.phases[phase].column.push(Step {
            work: Work::Fetch { walk, ahead },
            to: NO_SLOT,
            from: [slot, NO_SLOT, NO_SLOT],
        });
    }
}

/// How many of the first steps may take turns at every vector.
fn longest(code: &Code, steps: &[Step]) -> usize {
    /// More make no better loop.
    const MOST: usize = 64;
    let one_row = matches!(code.tiling, Tiling::Wide { .. });
    let mut seen: Vec<(&Walk, bool)> = Vec::new();
    for (count, step) in steps.iter().enumerate().take(MOST) {
        match step.work {
            Work::Fetch { .. } => continue,
            Work::Vector(_, form) if traced(form) => {}
            Work::Columns if step.from[0] != NO_SLOT => {}
            Work::GatherPairs(_) | Work::ScatterPairs(_) if one_row => {}
            Work::Repeat { period } if turns(code, period) => {}
            _ => return count,
        }
        let touched = step.from.into_iter().map(|slot| (slot, false));
        for (slot, writes) in touched.chain([(step.to, true)]) {
            let Origin::Walk(walk) = code.slots[usize::from(slot)] else {
                continue;
            };
            let walk = &code.walks[walk];
            // What is stored twice is stored to different places.
            let apart = |&(other, written): &(&Walk, bool)| {
                writes == written || same(walk, other) || !walk.region.overlaps(other.region)
            };
            if !seen.iter().all(apart) {
                return count;
            }
            seen.push((walk, writes));
        }
    }
    steps.len().min(MOST)
}

/// Whether rows are whole turns of a cycle.
fn turns(code: &Code, period: usize) -> bool {
    let whole = |vectors| code.columns.is_multiple_of(vectors * LANES);
    code.rows_are_tiles() && code.product == NO_SLOT && turn(period).is_some_and(whole)
}

/// Whether two walks are at the same element all the time.
fn same(a: &Walk, b: &Walk) -> bool {
    a.base == b.base && a.strides == b.strides && a.column_stride == b.column_stride
}

fn traced(form: Form) -> bool {
    match form {
        Form::Unary(op, _) | Form::Binary(op, _) => traceable(op),
        Form::Select(_) | Form::Pair(..) | Form::Fold(..) | Form::Dot(_) => true,
        Form::Widen | Form::Round(_) => false,
    }
}

/// Steps to be one loop.
struct Part<'a> {
    code: &'a Code,
    phase: usize,
    /// Among the steps on columns.
    range: Range<usize>,
    /// The steps on rows from this one on come along.
    before: usize,
    /// The doubles that become floats right away.
    finished: Vec<Slot>,
}

impl<'a> Part<'a> {
    fn new(code: &'a Code, phase: usize, range: Range<usize>) -> Self {
        let Phase { row, column } = &code.phases[phase];
        let whole = code.rows_are_tiles();
        let fits = |step: &&Step| matches!(step.work, Work::Vector(_, form) if elementwise(form));
        let come_along = match whole && range.start == 0 {
            true => row.iter().rev().take_while(fits).count(),
            false => 0,
        };
        let finishes = |slot: Slot| {
            let rows = code.phases.iter().flat_map(|phase| &phase.row);
            rows.filter(|step| matches!(step.work, Work::Finish(_)) && step.from[0] == slot)
                .count()
        };
        let finished = column[range.clone()].iter().filter(|step| folds(step));
        let finished = finished.map(|step| step.to);
        Part {
            code,
            phase,
            range,
            before: row.len() - come_along,
            finished: finished
                .filter(|&slot| whole && finishes(slot) == 1)
                .collect(),
        }
    }

    fn worthwhile(&self) -> bool {
        let rows = self.code.phases[self.phase].row.len() - self.before;
        self.range.len() > 1 || rows > 0 || !self.finished.is_empty()
    }

    fn record(&self) -> Recording {
        let mut recorder = Recorder {
            code: self.code,
            recording: Recording::default(),
            known: Vec::new(),
        };
        let Phase { row, column } = &self.code.phases[self.phase];
        for step in &row[self.before..] {
            if let Work::Vector(_, form) = step.work {
                // A float is the same in all lanes.
                let value = recorder.value(step.from, each_splat(form));
                recorder.set(step.to, value, self.needed(step.to));
            }
        }
        recorder.recording.begin();
        for step in &column[self.range.clone()] {
            match step.work {
                Work::Vector(_, Form::Fold(how, kind)) => {
                    let value = recorder.operand(step.from[0], kind);
                    self.fold(&mut recorder.recording, how, value, step.to);
                }
                Work::Vector(_, Form::Dot(kinds)) => {
                    let form = Form::Binary(ScalarOp::Multiply, kinds);
                    let value = recorder.value(step.from, form);
                    self.fold(&mut recorder.recording, Combine::Sum, value, step.to);
                }
                Work::Vector(_, form) => {
                    let value = recorder.value(step.from, form);
                    recorder.set(step.to, value, self.needed(step.to));
                }
                Work::Columns => {
                    let value = recorder.recording.count(step.from[0]);
                    recorder.set(step.to, value, self.needed(step.to));
                }
                Work::Fetch { walk, ahead } => {
                    let walk = &self.code.walks[walk];
                    let bytes = u32::try_from(ahead * 4).unwrap_or(0);
                    let (slot, recording) = (step.from[0], &mut recorder.recording);
                    match walk.column_stride {
                        1 => recording.fetch(slot, bytes, walk.written),
                        _ => recording.fetch_pairs(slot, bytes, walk.written),
                    }
                }
                Work::GatherPairs(_) => {
                    let [odd, pairs, _] = step.from;
                    let values = recorder.recording.load_pairs(pairs);
                    for (slot, value) in [step.to, odd].into_iter().zip(values) {
                        recorder.set(slot, value, self.needed(slot));
                    }
                }
                Work::Repeat { period } => {
                    let period = u16::try_from(period).unwrap_or(0);
                    let value = recorder.recording.cycle(step.from[0], period);
                    recorder.set(step.to, value, self.needed(step.to));
                }
                Work::ScatterPairs(_) => {
                    let values = [0, 1].map(|i| recorder.operand(step.from[i], Kind::Stream));
                    recorder.recording.store_pairs(step.to, values);
                }
                _ => {}
            }
        }
        recorder.recording
    }

    fn fold(&self, recording: &mut Recording, how: Combine, value: Value, slot: Slot) {
        if self.finished.contains(&slot) {
            let rows = self.code.phases.iter().flat_map(|phase| &phase.row);
            let finish =
                |step: &&Step| matches!(step.work, Work::Finish(_)) && step.from[0] == slot;
            if let Some(finish) = rows.into_iter().find(finish) {
                return recording.whole(how, value, finish.to);
            }
        }
        recording.fold(how, value, slot);
    }

    /// Whether what the loop makes must go to memory.
    fn needed(&self, slot: Slot) -> bool {
        let code = self.code;
        if code.slots[usize::from(slot)] != Origin::Null {
            return true;
        }
        let reads = |step: &Step| match step.work {
            Work::Fused { number, .. } => code.fused[number].reads.contains(&slot),
            _ => step.from.contains(&slot),
        };
        let mut phases = code.phases.iter().enumerate();
        code.last.iter().any(reads)
            || phases.any(|(number, Phase { row, column })| {
                let here = number == self.phase;
                let mut columns = column.iter().enumerate();
                row[..if here { self.before } else { row.len() }]
                    .iter()
                    .any(reads)
                    || columns
                        .any(|(index, step)| !(here && self.range.contains(&index)) && reads(step))
            })
    }
}

fn folds(step: &Step) -> bool {
    matches!(step.work, Work::Vector(_, Form::Fold(..) | Form::Dot(_)))
}

/// Whether a form is an operation on each element that can be written down.
fn elementwise(form: Form) -> bool {
    traced(form) && !matches!(form, Form::Fold(..) | Form::Dot(_))
}

/// The same, of one float each.
fn each_splat(form: Form) -> Form {
    const SPLAT: Kind = Kind::Splat;
    match form {
        Form::Unary(op, _) => Form::Unary(op, SPLAT),
        Form::Binary(op, _) => Form::Binary(op, [SPLAT; 2]),
        Form::Select(_) => Form::Select([SPLAT; 3]),
        Form::Pair(first, second, _) => Form::Pair(first, second, [SPLAT; 3]),
        Form::Fold(how, _) => Form::Fold(how, SPLAT),
        Form::Dot(_) => Form::Dot([SPLAT; 2]),
        Form::Widen | Form::Round(_) => form,
    }
}

struct Recorder<'a> {
    code: &'a Code,
    recording: Recording,
    /// The values that are the elements at slots.
    known: Vec<(Slot, Value)>,
}

impl Recorder<'_> {
    /// The result of an operation on elements.
    fn value(&mut self, from: [Slot; 3], form: Form) -> Value {
        match form {
            Form::Unary(op, kind) => {
                let a = self.operand(from[0], kind);
                self.recording.scalar(op, [a; 3])
            }
            Form::Binary(op, kinds) => self.binary(op, [from[0], from[1]], kinds),
            Form::Select(kinds) => {
                let [a, b, c] = [0, 1, 2].map(|i| self.operand(from[i], kinds[i]));
                self.recording.scalar(ScalarOp::Select, [a, b, c])
            }
            Form::Pair(first, second, kinds) => {
                let [a, b, c] = [0, 1, 2].map(|i| self.operand(from[i], kinds[i]));
                let first = self.pair(first, a, b);
                self.pair(second, first, c)
            }
            Form::Fold(_, kind) => self.operand(from[0], kind),
            Form::Dot(kinds) => self.binary(ScalarOp::Multiply, [from[0], from[1]], kinds),
            // Kept away by `traced`.
            Form::Widen | Form::Round(_) => self.operand(from[0], Kind::Stream),
        }
    }

    fn binary(&mut self, op: ScalarOp, from: [Slot; 2], kinds: [Kind; 2]) -> Value {
        let [a, b] = [0, 1].map(|i| self.operand(from[i], kinds[i]));
        self.recording.scalar(op, [a, b, b])
    }

    fn pair(&mut self, op: PairOp, a: Value, b: Value) -> Value {
        let (op, a, b) = match op {
            PairOp::Add => (ScalarOp::Add, a, b),
            PairOp::Subtract => (ScalarOp::Subtract, a, b),
            PairOp::SubtractFrom => (ScalarOp::Subtract, b, a),
            PairOp::Multiply => (ScalarOp::Multiply, a, b),
        };
        self.recording.scalar(op, [a, b, b])
    }

    fn operand(&mut self, slot: Slot, kind: Kind) -> Value {
        if let Some((_, value)) = self.known.iter().find(|(known, _)| *known == slot) {
            return *value;
        }
        if kind == Kind::Splat {
            return self.recording.splat(slot);
        }
        let value = self.recording.load(slot);
        self.known.push((slot, value));
        value
    }

    /// The elements at a slot become others.
    fn set(&mut self, slot: Slot, value: Value, stored: bool) {
        let walk = |slot: Slot| match self.code.slots[usize::from(slot)] {
            Origin::Walk(walk) => Some(&self.code.walks[walk]),
            _ => None,
        };
        let target = walk(slot);
        self.known.retain(|(known, _)| {
            let there = walk(*known).zip(target);
            *known != slot && !there.is_some_and(|(a, b)| same(a, b))
        });
        self.known.push((slot, value));
        if stored {
            self.recording.store(slot, value);
        }
    }
}
