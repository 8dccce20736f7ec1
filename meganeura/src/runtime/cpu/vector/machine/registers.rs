//! Which registers hold what, and how many vectors a loop works on at a time.

use std::ops::Range;

use super::encode::{BASES, Vector};
use super::trace::{Instruction, Recording, Slot, Value};

/// The vector registers.
const VECTORS: u8 = 32;
/// How many vectors a fold keeps at most, so that none waits for the one before.
const CHAINS: u8 = 4;
/// Longer bodies are not repeated for their own sake.
const SHORT: usize = 16;
/// Bodies of loops are not repeated beyond so many instructions.
const LONG: usize = 160;

/// Which register holds what all the time.
pub(super) struct Registers {
    /// How many instructions come before the loop.
    pub(super) before: usize,
    /// The base register of each slot whose elements are read or written.
    pub(super) streams: Vec<(Slot, u8)>,
    /// The constants, splats and counts that are in registers before the loop.
    pub(super) ready: Vec<(Value, Vector)>,
    /// Of each fold, the registers of its chains.
    pub(super) folds: Vec<(usize, Vec<Vector>)>,
    /// Copies of the body in the loop.
    pub(super) chains: u8,
    /// How many of them take turns at every instruction.
    pub(super) together: u8,
    pub(super) free: Vec<Vector>,
    /// For each value, the last instruction that uses it.
    pub(super) last: Vec<usize>,
}

impl Registers {
    /// Registers for a loop in which so many vectors take turns, if there are enough.
    pub(super) fn plan(recording: &Recording, together: u8) -> Option<Self> {
        let instructions = &recording.instructions;
        let before = recording.before;
        let mut last: Vec<usize> = (0..instructions.len()).collect();
        let mut slots: Vec<Slot> = Vec::new();
        for (index, instruction) in instructions.iter().enumerate() {
            for operand in instruction.operands() {
                last[usize::from(operand)] = index;
            }
            if let Instruction::Load(slot)
            | Instruction::Store(slot, _)
            | Instruction::Fetch { slot, .. } = instruction
                && index >= before
                && !slots.contains(slot)
            {
                slots.push(*slot);
            }
        }
        if slots.len() > BASES.len() {
            return None;
        }
        let which = |wanted: fn(&Instruction) -> bool| {
            let all = instructions.iter().enumerate();
            let found = all.filter(move |(_, instruction)| wanted(instruction));
            found.map(|(index, _)| index).collect::<Vec<usize>>()
        };
        let folds = which(|i| matches!(i, Instruction::Fold(..) | Instruction::Whole(..)));
        let mut splats = which(|i| matches!(i, Instruction::Splat(_)));
        splats.retain(|&splat| splat >= before);
        splats.extend(which(|i| matches!(i, Instruction::Count(_))));
        let mut constants = which(|i| matches!(i, Instruction::Constant(_)));
        constants.retain(|&constant| last[constant] >= before);
        // What must be in a register comes first.
        let firsts: Vec<Value> = instructions
            .iter()
            .filter_map(|i| i.in_register())
            .collect();
        constants.sort_by_key(|&constant| !firsts.contains(&(constant as Value)));
        alive(recording, &last, 0..before, 1)?;
        let kept = (0..before).filter(|&value| last[value] >= before);
        let kept = kept.filter(|&value| recording.makes(value)).count() + splats.len();
        let turns = usize::from(together);
        let most = alive(recording, &last, before..instructions.len(), turns)?;
        let room = VECTORS.checked_sub(u8::try_from(most + kept).ok()?)?;
        let copies = match folds.len() {
            0 if instructions.len() > SHORT => together,
            _ => CHAINS,
        };
        let fits = |chains: u8| {
            folds.len() * usize::from(chains) <= usize::from(room)
                && (chains == 1 || instructions.len() * usize::from(chains) <= LONG)
        };
        let chains = [CHAINS, 2, 1]
            .into_iter()
            .find(|&c| c <= copies && fits(c))?;
        let counts = which(|i| matches!(i, Instruction::Count(_)));
        if together > 1 && (together > chains || !counts.is_empty()) {
            return None;
        }
        let fixed = folds.len() as u8 * chains;
        // What is used in every iteration is best at hand, as far as there is room.
        constants.truncate(usize::from(room - fixed));
        let mut free: Vec<Vector> = (0..VECTORS).collect();
        let mut take = || free.pop().unwrap_or_default();
        let fixed = splats.into_iter().chain(constants);
        let ready = fixed.map(|value| (value as Value, take())).collect();
        let chained = |fold| (fold, (0..chains).map(|_| take()).collect());
        let folds = folds.into_iter().map(chained).collect();
        let streams = slots.into_iter().zip(BASES).collect();
        Some(Registers {
            before,
            streams,
            ready,
            folds,
            chains,
            together,
            free,
            last,
        })
    }
}

/// How many registers some instructions need at once for what they make, so many of each, if no
/// constant is in one already.
fn alive(
    recording: &Recording,
    last: &[usize],
    range: Range<usize>,
    turns: usize,
) -> Option<usize> {
    let instructions = &recording.instructions;
    let mut alive: usize = 0;
    let mut most: usize = 0;
    for index in range.clone() {
        let instruction = instructions[index];
        let constant = |operand: &Value| {
            let operand = instructions[usize::from(*operand)];
            matches!(operand, Instruction::Constant(_))
        };
        let constants = instruction.operands().filter(constant).count();
        let before = alive;
        let mut dead: Vec<Value> = instruction.operands().collect();
        dead.sort_unstable();
        dead.dedup();
        let dead = dead.into_iter().map(usize::from).filter(|&operand| {
            let made = range.contains(&operand) && recording.makes(operand);
            made && last[operand] == index
        });
        let made = recording.makes(index) && last[index] > index;
        alive = (alive + usize::from(made)).checked_sub(dead.count())?;
        // The result, what a fold of NaNs needs, and constants while they are used.
        most = most.max(turns * before.max(alive) + 2 + constants);
    }
    Some(most).filter(|&most| most <= usize::from(VECTORS))
}

impl Recording {
    /// Whether an instruction puts something in a vector register when its turn comes.
    pub(super) fn makes(&self, index: usize) -> bool {
        match self.instructions[index] {
            Instruction::Splat(_) => index < self.before,
            instruction => in_vector(instruction),
        }
    }
}

/// Whether a value is a vector that is computed or loaded.
fn in_vector(instruction: Instruction) -> bool {
    matches!(
        instruction,
        Instruction::Load(_)
            | Instruction::Unary(..)
            | Instruction::Binary(..)
            | Instruction::MultiplyAdd(..)
            | Instruction::Blend { .. }
    )
}
