//! Steps that follow each other, as one loop in machine code.
//!
//! What one step makes and only steps of the same loop read never goes through memory. Steps
//! in one loop take turns at every vector, so they must not write where others read other
//! elements.

use std::ops::Range;
use std::sync::Arc;

use super::super::vector::machine::{Fused, Recording, Slot, Value, traceable};
use super::super::vector::{Form, Kind, PairOp};
use super::program::{Code, NO_SLOT, Origin, Step, Walk, Work};
use crate::ir::{Combine, ScalarOp};

/// Widens first and rounds registers last, so that what is between can be one loop. Nothing that is
/// widened is written earlier in its phase, and nobody reads what is rounded.
fn gather_conversions(code: &mut Code, phase: usize) {
    let in_register = |slot: Slot| code.slots[usize::from(slot)] == Origin::Null;
    code.phases[phase].column.sort_by_key(|step| match step.work {
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
            let fused = (2..=longest).rev().find_map(|count| {
                let range = first..first + count;
                let fused = Fused::new(&record(code, phase, range.clone()))?;
                Some((range, fused))
            });
            if let Some((range, fused)) = fused {
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
            }
            first += 1;
        }
    }
}

/// How many of the first steps may take turns at every vector.
fn longest(code: &Code, steps: &[Step]) -> usize {
    /// More make no better loop.
    const MOST: usize = 64;
    let mut seen: Vec<(&Walk, bool)> = Vec::new();
    for (count, step) in steps.iter().enumerate().take(MOST) {
        let Work::Vector(_, form) = step.work else {
            return count;
        };
        if !traced(form) {
            return count;
        }
        let touched = step.from.into_iter().map(|slot| (slot, false));
        for (slot, writes) in touched.chain([(step.to, true)]) {
            let Origin::Walk(walk) = code.slots[usize::from(slot)] else {
                continue;
            };
            let walk = &code.walks[walk];
            let apart = |&(other, written): &(&Walk, bool)| {
                !(writes || written) || same(walk, other) || !walk.region.overlaps(other.region)
            };
            if !seen.iter().all(apart) {
                return count;
            }
            seen.push((walk, writes));
        }
    }
    steps.len().min(MOST)
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

/// Writes down some steps of a phase.
fn record(code: &Code, phase: usize, range: Range<usize>) -> Recording {
    let mut recorder = Recorder {
        code,
        recording: Recording::default(),
        known: Vec::new(),
    };
    for step in &code.phases[phase].column[range.clone()] {
        if let Work::Vector(_, form) = step.work {
            let needed = |slot| needed(code, phase, &range, slot);
            recorder.step(step, form, &needed);
        }
    }
    recorder.recording
}

/// Whether what a loop makes of some steps must go to memory.
fn needed(code: &Code, phase: usize, range: &Range<usize>, slot: Slot) -> bool {
    if code.slots[usize::from(slot)] != Origin::Null {
        return true;
    }
    let reads = |step: &Step| match step.work {
        Work::Fused { number, .. } => code.fused[number].reads.contains(&slot),
        _ => step.from.contains(&slot),
    };
    let inside = |number: usize, index: usize| number == phase && range.contains(&index);
    code.last.iter().any(reads)
        || code.phases.iter().enumerate().any(|(number, phase)| {
            let mut columns = phase.column.iter().enumerate();
            phase.row.iter().any(reads)
                || columns.any(|(index, step)| !inside(number, index) && reads(step))
        })
}

struct Recorder<'a> {
    code: &'a Code,
    recording: Recording,
    /// The values that are the elements at slots.
    known: Vec<(Slot, Value)>,
}

impl Recorder<'_> {
    fn step(&mut self, step: &Step, form: Form, needed: &dyn Fn(Slot) -> bool) {
        use Form::{Binary, Dot, Fold, Pair, Select, Unary};
        let from = step.from;
        let value = match form {
            Unary(op, kind) => {
                let a = self.operand(from[0], kind);
                self.recording.scalar(op, [a; 3])
            }
            Binary(op, kinds) => self.binary(op, [from[0], from[1]], kinds),
            Select(kinds) => {
                let [a, b, c] = [0, 1, 2].map(|i| self.operand(from[i], kinds[i]));
                self.recording.scalar(ScalarOp::Select, [a, b, c])
            }
            Pair(first, second, kinds) => {
                let [a, b, c] = [0, 1, 2].map(|i| self.operand(from[i], kinds[i]));
                let first = self.pair(first, a, b);
                self.pair(second, first, c)
            }
            Fold(how, kind) => {
                let value = self.operand(from[0], kind);
                return self.recording.fold(how, value, step.to);
            }
            Dot(kinds) => {
                let product = self.binary(ScalarOp::Multiply, [from[0], from[1]], kinds);
                return self.recording.fold(Combine::Sum, product, step.to);
            }
            // Kept away by `traced`.
            Form::Widen | Form::Round(_) => return,
        };
        self.set(step.to, value, needed(step.to));
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
        if kind == Kind::Splat {
            return self.recording.splat(slot);
        }
        if let Some((_, value)) = self.known.iter().find(|(known, _)| *known == slot) {
            return *value;
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
