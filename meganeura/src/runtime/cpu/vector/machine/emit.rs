//! From a recording to code: registers, and the loop around it.

use std::ops::Range;

use super::encode::{
    self, Assembler, BASES, Condition, MASKS, MOVE, Mask, Opcode, Operand, REST, Vector,
};
use super::trace::{Binary, Comparison, Instruction, Recording, Slot, Unary, Value};
use crate::ir::Combine;

/// The vector registers.
const VECTORS: u8 = 32;
/// How many vectors a fold keeps at most, so that none waits for the one before.
const CHAINS: u8 = 4;
/// Longer bodies are not repeated for their own sake.
const SHORT: usize = 16;
/// Bodies of loops are not repeated beyond so many instructions.
const LONG: usize = 160;

/// Code for a recording, if there are registers enough.
pub(super) fn emit(recording: &Recording) -> Option<Vec<u8>> {
    let plan = Registers::plan(recording)?;
    let mut emitter = Emitter {
        plan: &plan,
        recording,
        code: Assembler::default(),
        places: vec![None; recording.instructions.len()],
        vectors: plan.free.clone(),
        masks: MASKS.rev().collect(),
    };
    emitter.enter()?;
    let repeated = (plan.chains > 1).then(|| {
        emitter.code.compare(plan.chains);
        let short = emitter.code.jump(Condition::Below);
        let head = emitter.code.loop_head();
        for copy in 0..plan.chains {
            emitter.body(copy, false)?;
        }
        emitter.code.advance(plan.chains);
        emitter.code.compare(plan.chains);
        emitter.code.jump_back(Condition::NotBelow, head);
        emitter.code.land(short);
        Some(())
    });
    if repeated == Some(None) {
        return None;
    }
    emitter.code.compare(1);
    let none = emitter.code.jump(Condition::Below);
    let head = emitter.code.loop_head();
    emitter.body(0, false)?;
    emitter.code.advance(1);
    emitter.code.compare(1);
    emitter.code.jump_back(Condition::NotBelow, head);
    emitter.code.land(none);
    emitter.code.rest();
    let none = emitter.code.jump(Condition::Zero);
    emitter.body(0, true)?;
    emitter.code.land(none);
    emitter.leave()?;
    Some(emitter.code.finish())
}

/// Which register holds what all the time.
struct Registers {
    /// How many instructions come before the loop.
    before: usize,
    /// The base register of each slot whose elements are read or written.
    streams: Vec<(Slot, u8)>,
    /// The constants, splats and counts that are in registers before the loop.
    ready: Vec<(Value, Vector)>,
    /// Of each fold, the registers of its chains.
    folds: Vec<(usize, Vec<Vector>)>,
    /// Copies of the body in the loop.
    chains: u8,
    free: Vec<Vector>,
    /// For each value, the last instruction that uses it.
    last: Vec<usize>,
}

impl Registers {
    fn plan(recording: &Recording) -> Option<Self> {
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
        alive(recording, &last, 0..before)?;
        let kept = (0..before).filter(|&value| last[value] >= before);
        let kept = kept.filter(|&value| recording.makes(value)).count() + splats.len();
        let most = alive(recording, &last, before..instructions.len())?;
        let room = VECTORS.checked_sub(u8::try_from(most + kept).ok()?)?;
        let copies = match folds.len() {
            0 if instructions.len() > SHORT => 1,
            _ => CHAINS,
        };
        let fits = |chains: u8| {
            folds.len() * usize::from(chains) <= usize::from(room)
                && (chains == 1 || instructions.len() * usize::from(chains) <= LONG)
        };
        let chains = [CHAINS, 2, 1]
            .into_iter()
            .find(|&c| c <= copies && fits(c))?;
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
            free,
            last,
        })
    }
}

/// How many registers some instructions need at once for what they make, if no constant is in one
/// already.
fn alive(recording: &Recording, last: &[usize], range: Range<usize>) -> Option<usize> {
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
        // The result, what a fold of NaNs needs, and constants while they are used.
        most = most.max(alive + 2 + constants);
        let mut dead: Vec<Value> = instruction.operands().collect();
        dead.sort_unstable();
        dead.dedup();
        let dead = dead.into_iter().map(usize::from).filter(|&operand| {
            let made = range.contains(&operand) && recording.makes(operand);
            made && last[operand] == index
        });
        let made = recording.makes(index) && last[index] > index;
        alive = (alive + usize::from(made)).checked_sub(dead.count())?;
    }
    Some(most).filter(|&most| most <= usize::from(VECTORS))
}

impl Recording {
    /// Whether an instruction puts something in a vector register when its turn comes.
    fn makes(&self, index: usize) -> bool {
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

struct Emitter<'a> {
    plan: &'a Registers,
    recording: &'a Recording,
    code: Assembler,
    /// The register of each value that is in one now.
    places: Vec<Option<u8>>,
    vectors: Vec<Vector>,
    masks: Vec<Mask>,
}

impl Emitter<'_> {
    fn instruction(&self, value: Value) -> Instruction {
        self.recording.instructions[usize::from(value)]
    }

    fn enter(&mut self) -> Option<()> {
        self.code.enter();
        for &(value, register) in &self.plan.ready {
            let (opcode, from) = match self.instruction(value) {
                Instruction::Splat(slot) => {
                    self.code.pointer(0, slot);
                    (encode::BROADCAST, Operand::Pointer)
                }
                Instruction::Count(slot) => {
                    self.code.pointer(0, slot);
                    (encode::LOAD, Operand::Pointer)
                }
                Instruction::Constant(bits) => (encode::BROADCAST, self.code.number(bits)),
                _ => continue,
            };
            self.code.two(opcode, register, from);
            self.places[usize::from(value)] = Some(register);
        }
        self.once()?;
        for (fold, chains) in &self.plan.folds {
            let (how, _) = self.fold(*fold)?;
            let identity = self.code.number(how.identity().to_bits());
            for &chain in chains {
                self.code.two(encode::BROADCAST, chain, identity);
            }
        }
        for &(slot, base) in &self.plan.streams {
            self.code.pointer(base, slot);
        }
        self.code.begin();
        Some(())
    }

    /// What happens before the loop.
    fn once(&mut self) -> Option<()> {
        let before = self.plan.before;
        let stores = |i: &Instruction| matches!(i, Instruction::Store(..));
        if self.recording.instructions[..before].iter().any(stores) {
            self.code.single();
        }
        for index in 0..before {
            let instruction = self.recording.instructions[index];
            match instruction {
                Instruction::Splat(slot) => {
                    let to = self.vectors.pop()?;
                    self.code.pointer(0, slot);
                    self.code.two(encode::BROADCAST, to, Operand::Pointer);
                    self.places[index] = Some(to);
                }
                Instruction::Store(slot, value) => {
                    let (from, temporary) = self.operand(value)?;
                    self.code.pointer(0, slot);
                    let to = Operand::Pointer;
                    self.code.masked(encode::STORE, from, 0, to, REST, false);
                    self.release(index, instruction, [temporary, None, None]);
                }
                _ => self.compute(index, instruction)?,
            }
            if self.plan.last[index] == index {
                self.free(index);
            }
        }
        Some(())
    }

    /// How a fold combines, and to which float if to none of the doubles.
    fn fold(&self, fold: usize) -> Option<(Combine, Option<Slot>)> {
        match self.recording.instructions[fold] {
            Instruction::Fold(how, ..) => Some((how, None)),
            Instruction::Whole(how, _, slot) => Some((how, Some(slot))),
            _ => None,
        }
    }

    fn leave(&mut self) -> Option<()> {
        let plan = self.plan;
        let mut doubles = Vec::new();
        let mut floats = Vec::new();
        for (fold, chains) in &plan.folds {
            let (how, slot) = self.fold(*fold)?;
            let mut chains = chains.clone();
            // As the loops do it: neighbours first.
            while chains.len() > 1 {
                for pair in chains.chunks_exact(2) {
                    self.combine(how, pair[0], pair[1], 0)?;
                }
                chains = chains.into_iter().step_by(2).collect();
            }
            match slot {
                Some(slot) => floats.push((how, chains[0], slot)),
                None => doubles.push(chains[0]),
            }
        }
        if !floats.is_empty() {
            self.code.single();
        }
        for (how, total, slot) in floats {
            for exchange in encode::EXCHANGES {
                let other = self.vectors.pop()?;
                self.code
                    .three(exchange, other, total, Operand::Vector(total));
                self.combine(how, total, other, 0)?;
                self.vectors.push(other);
            }
            self.code.pointer(0, slot);
            let to = Operand::Pointer;
            self.code.masked(encode::STORE, total, 0, to, REST, false);
        }
        self.code.folds();
        for (number, total) in doubles.into_iter().enumerate() {
            let to = Operand::Folded(number as u8);
            self.code.two(encode::STORE, total, to);
        }
        self.code.leave();
        Some(())
    }

    /// `to = to ∘ from`, where the mask holds.
    fn combine(&mut self, how: Combine, to: Vector, from: Vector, mask: Mask) -> Option<()> {
        if how == Combine::Sum {
            let from = Operand::Vector(from);
            self.code.masked(encode::ADD, to, to, from, mask, false);
            return Some(());
        }
        // The maximum gives its second operand for a NaN in either: right unless it is ours.
        let (larger, lost) = (self.vectors.pop()?, self.masks.pop()?);
        let (code, ours) = (&mut self.code, Operand::Vector(to));
        code.three(encode::LARGER, larger, to, Operand::Vector(from));
        code.three(encode::UNORDERED, lost, to, ours);
        code.masked(MOVE, larger, 0, ours, lost, false);
        code.masked(MOVE, to, 0, Operand::Vector(larger), mask, false);
        self.vectors.push(larger);
        self.masks.push(lost);
        Some(())
    }

    /// The work on one vector: the `copy`th after the index, or what is left of one.
    fn body(&mut self, copy: u8, rest: bool) -> Option<()> {
        let mask = if rest { REST } else { 0 };
        for index in self.plan.before..self.recording.instructions.len() {
            let instruction = self.recording.instructions[index];
            match instruction {
                Instruction::Constant(_) | Instruction::Splat(_) | Instruction::Count(_) => {}
                Instruction::Load(slot) => {
                    let to = self.vectors.pop()?;
                    let from = Operand::Stream(self.base(slot)?, copy);
                    self.code.masked(encode::LOAD, to, 0, from, mask, true);
                    self.places[index] = Some(to);
                }
                Instruction::Fetch {
                    slot,
                    bytes,
                    written,
                } => {
                    let bytes = bytes + u32::from(copy) * 64;
                    self.code.fetch(self.base(slot)?, bytes, written);
                }
                Instruction::Store(slot, value) => {
                    let to = Operand::Stream(self.base(slot)?, copy);
                    let (from, temporary) = self.operand(value)?;
                    self.code.masked(encode::STORE, from, 0, to, mask, false);
                    self.release(index, instruction, [temporary, None, None]);
                }
                Instruction::Fold(how, value, _) | Instruction::Whole(how, value, _) => {
                    let mut folds = self.plan.folds.iter();
                    let (_, chains) = folds.find(|(fold, _)| *fold == index)?;
                    let to = chains[usize::from(copy)];
                    let (from, temporary) = self.operand(value)?;
                    self.combine(how, to, from, mask)?;
                    self.release(index, instruction, [temporary, None, None]);
                }
                _ => self.compute(index, instruction)?,
            }
            if self.plan.last[index] == index {
                self.free(index);
            }
        }
        self.count_on()
    }

    /// Counts are those of the next vector.
    fn count_on(&mut self) -> Option<()> {
        let plan = self.plan;
        for &(value, register) in &plan.ready {
            if let Instruction::Count(_) = self.instruction(value) {
                let lanes = self.vectors.pop()?;
                let number = self.code.number(16_f32.to_bits());
                self.code.two(encode::BROADCAST, lanes, number);
                let step = Operand::Vector(lanes);
                self.code.three(encode::ADD, register, register, step);
                self.vectors.push(lanes);
            }
        }
        Some(())
    }

    fn base(&self, slot: Slot) -> Option<u8> {
        let mut streams = self.plan.streams.iter();
        streams
            .find(|(other, _)| *other == slot)
            .map(|(_, base)| *base)
    }

    /// The register of a value, and whether it is to be free after this instruction.
    fn operand(&mut self, value: Value) -> Option<(Vector, Option<Vector>)> {
        if let Some(register) = self.places[usize::from(value)] {
            return Some((register, None));
        }
        let Instruction::Constant(bits) = self.instruction(value) else {
            return None;
        };
        let register = self.vectors.pop()?;
        let number = self.code.number(bits);
        self.code.two(encode::BROADCAST, register, number);
        Some((register, Some(register)))
    }

    /// Frees what an instruction was the last to use.
    fn release(&mut self, index: usize, instruction: Instruction, also: [Option<Vector>; 3]) {
        self.vectors.extend(also.into_iter().flatten());
        for operand in instruction.operands().map(usize::from) {
            // What was made before the loop stays for its next turn.
            let stays = operand < self.plan.before && index >= self.plan.before;
            if self.plan.last[operand] == index && !stays {
                self.free(operand);
            }
        }
    }

    fn free(&mut self, value: usize) {
        match self.recording.instructions[value] {
            Instruction::Constant(_) | Instruction::Count(_) => {}
            Instruction::Splat(_) if value >= self.plan.before => {}
            Instruction::Compare(..) => self.masks.extend(self.places[value].take()),
            _ => self.vectors.extend(self.places[value].take()),
        }
    }

    fn multiply_add(&mut self, index: usize, [a, b, c]: [Value; 3]) -> Option<()> {
        let to = self.vectors.pop()?;
        let (first, one) = self.operand(a)?;
        self.code.two(MOVE, to, Operand::Vector(first));
        let ((b, two), (c, three)) = (self.operand(b)?, self.operand(c)?);
        let c = Operand::Vector(c);
        self.code.three(encode::MULTIPLY_ADD, to, b, c);
        let instruction = self.recording.instructions[index];
        self.release(index, instruction, [one, two, three]);
        self.places[index] = Some(to);
        Some(())
    }

    /// Instructions that read before they write, so that the result may be where an operand is.
    fn compute(&mut self, index: usize, instruction: Instruction) -> Option<()> {
        let (opcode, a, b, mask) = match instruction {
            Instruction::MultiplyAdd(a, b, c) => return self.multiply_add(index, [a, b, c]),
            Instruction::Unary(op, a) => (unary(op), None, a, None),
            Instruction::Binary(op, a, b) => (binary(op), Some(a), b, None),
            Instruction::Compare(op, a, b) => (comparison(op), Some(a), b, None),
            Instruction::Blend { mask, yes, no } => (encode::BLEND, Some(no), yes, Some(mask)),
            _ => return Some(()),
        };
        let (a, one) = match a {
            Some(a) => self.operand(a)?,
            None => (0, None),
        };
        let (b, two) = self.operand(b)?;
        let mask = match mask {
            Some(mask) => self.places[usize::from(mask)]?,
            None => 0,
        };
        self.release(index, instruction, [one, two, None]);
        let to = match instruction {
            Instruction::Compare(..) => self.masks.pop()?,
            _ => self.vectors.pop()?,
        };
        let b = Operand::Vector(b);
        self.code.masked(opcode, to, a, b, mask, false);
        self.places[index] = Some(to);
        Some(())
    }
}

fn unary(op: Unary) -> Opcode {
    match op {
        Unary::Sqrt => encode::SQRT,
        Unary::Exponent => encode::EXPONENT,
        Unary::Mantissa => encode::MANTISSA,
        Unary::Round => encode::ROUND,
    }
}

fn binary(op: Binary) -> Opcode {
    match op {
        Binary::Add => encode::ADD,
        Binary::Subtract => encode::SUBTRACT,
        Binary::Multiply => encode::MULTIPLY,
        Binary::Divide => encode::DIVIDE,
        Binary::Larger => encode::LARGER,
        Binary::Smaller => encode::SMALLER,
        Binary::And => encode::AND,
        Binary::AndNot => encode::AND_NOT,
        Binary::Or => encode::OR,
        Binary::Xor => encode::XOR,
        Binary::Scale => encode::SCALE,
    }
}

fn comparison(op: Comparison) -> Opcode {
    match op {
        Comparison::Less => encode::LESS,
        Comparison::LessEqual => encode::LESS_EQUAL,
        Comparison::Equal => encode::EQUAL,
    }
}
