//! Room for the registers: full ones share scratch memory when they do not live at once.

use super::super::vector::machine::Fused;
use super::compile::Register;
use super::program::{Code, NO_SLOT, Origin, Slot, Step, Tiling, Work};

/// Floats that keep two registers off one cache line.
const LINE: usize = 16;

/// From the step that writes a register to the last that reads it. Steps have even numbers; those
/// that are several in one are still reading, at the next odd one, when they have written.
#[derive(Clone, Copy, Debug)]
struct Life {
    first: usize,
    last: usize,
    /// The phases of the two.
    phases: (usize, usize),
}

/// Gives every register its place in scratch memory.
pub(super) fn assign(code: &mut Code, registers: &[Register]) {
    let steps = all_steps(code);
    let lives = lives(code, &steps);
    let tile = match code.tiling {
        // Rows of an epilogue may be joined.
        Tiling::Wide { columns } if code.product != NO_SLOT => columns,
        Tiling::Wide { columns } => columns.min(code.columns),
        Tiling::Narrow { rows } => rows * code.columns,
    };
    let tile = tile.next_multiple_of(LINE).max(LINE);
    // A cache set holds few lines: tiles at a power of two from each other would evict one
    // another.
    let tile = tile + LINE;
    let row = match code.tile_rows() {
        1 => 1,
        rows => rows.next_multiple_of(LINE),
    };
    let mut full = Vec::new();
    for register in registers {
        let slot = usize::from(register.slot);
        let Some(life) = lives[slot] else { continue };
        if !register.full {
            code.slots[slot] = Origin::Scratch(code.scratch);
            code.scratch += row;
        } else if life.phases.0 != life.phases.1 && code.chunks() > 1 {
            code.scratch = code.scratch.next_multiple_of(LINE);
            code.slots[slot] = Origin::ScratchRow(code.scratch);
            code.scratch += code.columns.next_multiple_of(LINE);
        } else {
            full.push((life, slot));
        }
    }
    code.scratch = code.scratch.next_multiple_of(LINE);
    full.sort_by_key(|(life, _)| life.first);
    // For each shared tile, the step that reads its content last.
    let mut tiles: Vec<usize> = Vec::new();
    for (life, slot) in full {
        // A step may write where it reads: it takes every block before it gives one.
        let free = tiles.iter().position(|&last| last <= life.first);
        let index = free.unwrap_or_else(|| {
            tiles.push(0);
            tiles.len() - 1
        });
        tiles[index] = life.last.max(life.first + 1);
        code.slots[slot] = Origin::Scratch(code.scratch + index * tile);
    }
    code.scratch += tiles.len() * tile;
}

/// Every step in the order it runs, with its phase.
fn all_steps(code: &Code) -> Vec<(usize, Step)> {
    let mut steps = Vec::new();
    for (index, phase) in code.phases.iter().enumerate() {
        let both = phase.row.iter().chain(&phase.column);
        steps.extend(both.map(|step| (index, *step)));
    }
    let phases = code.phases.len();
    steps.extend(code.last.iter().map(|step| (phases, *step)));
    steps
}

fn lives(code: &Code, steps: &[(usize, Step)]) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; code.slots.len()];
    for (position, (phase, step)) in steps.iter().enumerate() {
        let mut touch = |slot: Slot, position: usize| {
            if slot == NO_SLOT {
                return;
            }
            let life = lives[usize::from(slot)].get_or_insert(Life {
                first: position,
                last: position,
                phases: (*phase, *phase),
            });
            life.last = position;
            life.phases.1 = *phase;
        };
        let position = 2 * position;
        touch(step.to, position);
        step.from.iter().for_each(|&slot| touch(slot, position));
        if let Work::Fused { number, .. } = step.work {
            let Fused { reads, writes, .. } = &*code.fused[number];
            writes.iter().for_each(|&slot| touch(slot, position));
            reads.iter().for_each(|&slot| touch(slot, position + 1));
        }
    }
    lives
}
