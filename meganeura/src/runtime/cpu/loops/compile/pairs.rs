//! Rows that take turns in memory, as the places of windows do, go there and back together.

use super::super::super::memory::Element;
use super::super::program::{Code, NO_SLOT, Slot, Step, Tiling, Walk, Work};
use super::loads::pitch;

/// Joins steps that gather or scatter every second element with those for the elements between.
pub(super) fn join(code: &mut Code) {
    for phase in &mut code.phases {
        join_steps(&mut phase.column, &mut code.walks);
    }
    if let Tiling::Wide { .. } = code.tiling {
        look_ahead(code);
    }
}

/// Says where the next rows of pairs are.
fn look_ahead(code: &mut Code) {
    let steps = code.phases.iter().flat_map(|phase| &phase.column);
    for step in steps {
        if let Work::GatherPairs(walk) | Work::ScatterPairs(walk) = step.work {
            let walk = &mut code.walks[walk];
            let pitch = pitch(&code.outer, &walk.strides).filter(|&pitch| pitch > 0);
            walk.ahead = pitch.filter(|_| !walk.again);
        }
    }
}

fn join_steps(steps: &mut Vec<Step>, walks: &mut [Walk]) {
    let mut index = 0;
    while index < steps.len() {
        if let Some(first) = gathered(&steps[index], walks) {
            // Loads may move up: nothing is stored in between.
            let rest = steps[index + 1..].iter();
            let quiet = rest.take_while(|step| !stores(step, walks)).count();
            let later = &steps[index + 1..=index + quiet];
            let second = later.iter().position(|step| {
                gathered(step, walks)
                    .is_some_and(|second| alternate(walks, first, second).is_some())
            });
            if let Some(second) = second {
                let second = steps.remove(index + 1 + second);
                join_gathers(&mut steps[index], &second, walks);
            }
        } else if let Some(first) = scattered(&steps[index], walks) {
            // Stores may move down: what else is stored lies elsewhere, and loads want what
            // was there before.
            let second = steps[index + 1..].iter().position(|step| {
                scattered(step, walks)
                    .is_some_and(|second| alternate(walks, first, second).is_some())
            });
            if let Some(second) = second {
                let first = steps[index];
                join_scatters(&first, &mut steps[index + 1 + second], walks);
                steps.remove(index);
                continue;
            }
        }
        index += 1;
    }
}

fn join_gathers(step: &mut Step, second: &Step, walks: &mut [Walk]) {
    let walk = gathered(step, walks).zip(gathered(second, walks));
    let Some((first, swapped)) = walk.and_then(|(a, b)| alternate(walks, a, b)) else {
        return;
    };
    let (even, odd) = match swapped {
        false => (step.to, second.to),
        true => (second.to, step.to),
    };
    *step = Step {
        work: Work::GatherPairs(first),
        to: even,
        from: [odd, walks[first].slot, NO_SLOT],
    };
    unlist(walks, walk, first);
}

fn join_scatters(first: &Step, step: &mut Step, walks: &mut [Walk]) {
    let walk = scattered(first, walks).zip(scattered(step, walks));
    let Some((lower, swapped)) = walk.and_then(|(a, b)| alternate(walks, a, b)) else {
        return;
    };
    let (even, odd) = match swapped {
        false => (first.from[0], step.from[0]),
        true => (step.from[0], first.from[0]),
    };
    *step = Step {
        work: Work::ScatterPairs(lower),
        to: walks[lower].slot,
        from: [even, odd, NO_SLOT],
    };
    unlist(walks, walk, lower);
}

/// Nobody asks for the addresses of the other walk any more.
fn unlist(walks: &mut [Walk], pair: Option<(usize, usize)>, kept: usize) {
    if let Some((a, b)) = pair {
        walks[if a == kept { b } else { a }].listed = false;
    }
}

/// The walk of a step that gathers every second element of rows.
fn gathered(step: &Step, walks: &[Walk]) -> Option<usize> {
    match step.work {
        Work::GatherRows {
            walk,
            stride: 2,
            element: Element::Float,
            full: true,
        } => Some(walk),
        Work::Gather {
            stride: 2,
            element: Element::Float,
        } => walk_at(walks, step.from[0]),
        _ => None,
    }
}

/// The walk of a step that scatters rows to every second element.
fn scattered(step: &Step, walks: &[Walk]) -> Option<usize> {
    match step.work {
        Work::ScatterRows {
            walk,
            stride: 2,
            element: Element::Float,
            full: true,
            splat: false,
        } => Some(walk),
        Work::Scatter {
            stride: 2,
            element: Element::Float,
            splat: false,
        } => walk_at(walks, step.to),
        _ => None,
    }
}

fn walk_at(walks: &[Walk], slot: Slot) -> Option<usize> {
    walks.iter().position(|walk| walk.slot == slot)
}

fn stores(step: &Step, walks: &[Walk]) -> bool {
    matches!(
        step.work,
        Work::Scatter { .. } | Work::ScatterRows { .. } | Work::ScatterPairs(_)
    ) || walks
        .iter()
        .any(|walk| walk.slot == step.to && step.to != NO_SLOT)
}

/// Of two walks whose elements take turns, the one that begins, and whether it is the second.
fn alternate(walks: &[Walk], a: usize, b: usize) -> Option<(usize, bool)> {
    let (first, second) = (&walks[a], &walks[b]);
    if first.strides != second.strides {
        return None;
    }
    if first.base.wrapping_add(1) == second.base {
        Some((a, false))
    } else if second.base.wrapping_add(1) == first.base {
        Some((b, true))
    } else {
        None
    }
}
