//! Values made again where that needs no more loads than to keep them.
//!
//! A value that a later phase reads goes to memory and comes back. If it is a sum, difference or
//! product of something that the later phase has at hand or may load instead, making it again saves
//! the way there; so do comparisons, and the numbers of columns. Only loops in machine code gain: a
//! step by itself goes through memory anyway.

use super::super::vector::machine::Slot;
use super::super::vector::{Form, Kind};
use super::compile::Register;
use super::program::{Code, NO_SLOT, Origin, Step, Work};
use crate::ir::ScalarOp;

/// In how many phases a value is made again at most.
const PHASES: usize = 4;

/// Makes values again where it pays.
pub(super) fn make_again(code: &mut Code, registers: &mut Vec<Register>) {
    for phase in (0..code.phases.len()).rev() {
        for index in (0..code.phases[phase].column.len()).rev() {
            let step = code.phases[phase].column[index];
            let readers: Vec<usize> = (phase + 1..code.phases.len())
                .filter(|&later| reads(code, later, step.to))
                .collect();
            let pays = |&later: &usize| new_loads(code, &step, later) <= 1;
            if (1..=PHASES).contains(&readers.len())
                && is_cheap(code, &step)
                && readers.iter().all(pays)
            {
                for later in readers {
                    repeat(code, registers, &step, later);
                }
            }
        }
    }
}

/// Which operands of a step are elements, not a float for all of them.
fn streams(step: &Step) -> impl Iterator<Item = Slot> {
    const SPLAT: Kind = Kind::Splat;
    let kinds = match step.work {
        Work::Vector(_, Form::Unary(_, kind)) => [kind, SPLAT, SPLAT],
        Work::Vector(_, Form::Binary(_, [a, b])) => [a, b, SPLAT],
        Work::Vector(_, Form::Select(kinds) | Form::Pair(_, _, kinds)) => kinds,
        Work::Vector(_, Form::Fold(_, kind)) => [kind, SPLAT, SPLAT],
        Work::Vector(_, Form::Dot([a, b])) => [a, b, SPLAT],
        Work::Columns => [SPLAT; 3],
        _ => [Kind::Stream; 3],
    };
    let all = step.from.into_iter().zip(kinds);
    all.filter(|(slot, kind)| *slot != NO_SLOT && *kind == Kind::Stream)
        .map(|(slot, _)| slot)
}

fn reads(code: &Code, phase: usize, slot: Slot) -> bool {
    let mut steps = code.phases[phase].column.iter();
    steps.any(|step| streams(step).any(|other| other == slot))
}

/// How many streams a phase must load that it does not read as it is, to make a value again.
fn new_loads(code: &Code, step: &Step, phase: usize) -> usize {
    let mut new: Vec<Slot> = streams(step)
        .filter(|&slot| !reads(code, phase, slot))
        .collect();
    new.sort_unstable();
    new.dedup();
    new.len()
}

/// Whether a step makes a value of its own, by one or two operations that cost little, of what
/// stays as it is in all phases.
fn is_cheap(code: &Code, step: &Step) -> bool {
    let cheap = match step.work {
        Work::Vector(_, Form::Binary(op, _)) => matches!(
            op,
            ScalarOp::Add
                | ScalarOp::Subtract
                | ScalarOp::Multiply
                | ScalarOp::Equal
                | ScalarOp::Less
                | ScalarOp::LessEqual
        ),
        Work::Vector(_, Form::Pair(..)) | Work::Columns => true,
        _ => false,
    };
    let own = code.slots[usize::from(step.to)] == Origin::Null && step.to != code.product;
    cheap && own && streams(step).all(|slot| stays(code, slot))
}

/// Whether the elements at a slot are the same in all phases that may read them.
fn stays(code: &Code, slot: Slot) -> bool {
    match code.slots[usize::from(slot)] {
        Origin::Null => slot != code.product,
        Origin::Walk(walk) => {
            let region = code.walks[walk].region;
            let mut written = code.walks.iter().filter(|walk| walk.written);
            written.all(|walk| !walk.region.overlaps(region))
        }
        _ => false,
    }
}

/// Makes a value again in a phase.
fn repeat(code: &mut Code, registers: &mut Vec<Register>, step: &Step, phase: usize) {
    code.slots.push(Origin::Null);
    let Ok(slot) = Slot::try_from(code.slots.len() - 1) else {
        return;
    };
    registers.push(Register { slot, full: true });
    let column = &mut code.phases[phase].column;
    let first = column
        .iter()
        .position(|other| other.from.contains(&step.to))
        .unwrap_or(0);
    for other in column.iter_mut() {
        for from in &mut other.from {
            if *from == step.to {
                *from = slot;
            }
        }
    }
    column.insert(first, Step { to: slot, ..*step });
}
