//! Which registers hold what, and how many vectors a loop works on at a time.

use std::ops::Range;

use super::encode::{BASES, Mask, REST_OF_PAIRS, Vector};
use super::trace::{Instruction, Order, Recording, Slot, Value, turn};

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
    /// Of each cycle, the registers of its vectors.
    pub(super) cycles: Vec<(Value, Vec<Vector>)>,
    /// The numbers of the lanes that permutations take.
    pub(super) orders: Vec<(Order, Vector)>,
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
            if let Instruction::Load(slot, _)
            | Instruction::Store(slot, ..)
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
        let orders = orders(recording);
        let cycles = cycles(recording)?;
        let kept = kept + orders.len() + cycles.iter().map(|(_, vectors)| vectors).sum::<usize>();
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
        let turn = cycles.iter().map(|&(_, vectors)| vectors as u8).max();
        let chains = match turn {
            Some(turn) => Some(turn).filter(|_| folds.is_empty()),
            None => [CHAINS, 2, 1].into_iter().find(|&c| c <= copies && fits(c)),
        }?;
        let counts = which(|i| matches!(i, Instruction::Count(_)));
        if together > 1 && (!chains.is_multiple_of(together) || !counts.is_empty()) {
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
        let in_registers = |(cycle, vectors)| (cycle, (0..vectors).map(|_| take()).collect());
        let cycles = cycles.into_iter().map(in_registers).collect();
        let orders = orders.into_iter().map(|order| (order, take())).collect();
        let streams = slots.into_iter().zip(BASES).collect();
        Some(Registers {
            before,
            streams,
            ready,
            cycles,
            orders,
            folds,
            chains,
            together,
            free,
            last,
        })
    }

    /// Whether a mask is needed for pairs.
    pub(super) fn takes(&self, mask: Mask) -> bool {
        !self.orders.is_empty() && REST_OF_PAIRS.contains(&mask)
    }
}

/// The cycles and how many vectors each has, if they go into one another.
fn cycles(recording: &Recording) -> Option<Vec<(Value, usize)>> {
    let mut cycles = Vec::new();
    for (value, instruction) in recording.instructions.iter().enumerate() {
        if let Instruction::Cycle(_, period) = instruction {
            cycles.push((value as Value, turn(usize::from(*period))?));
        }
    }
    let longest = cycles.iter().map(|&(_, vectors)| vectors).max();
    let whole = |&(_, vectors): &(Value, usize)| longest.is_some_and(|l| l.is_multiple_of(vectors));
    cycles.iter().all(whole).then_some(cycles)
}

/// The permutations that are done.
fn orders(recording: &Recording) -> Vec<Order> {
    let mut orders = Vec::new();
    for instruction in &recording.instructions {
        if let Instruction::Permute(order, ..) = instruction
            && !orders.contains(order)
        {
            orders.push(*order);
        }
    }
    orders
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
        Instruction::Load(..)
            | Instruction::Unary(..)
            | Instruction::Binary(..)
            | Instruction::Permute(..)
            | Instruction::MultiplyAdd(..)
            | Instruction::Blend { .. }
    )
}
