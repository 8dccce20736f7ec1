//! From a recording to code: registers, and the loop around it.

use std::ops::Range;

use super::encode::{
    self, Assembler, Condition, MASKS, MOVE, Mask, Opcode, Operand, REST, REST_OF_PAIRS, Vector,
};
use super::registers::Registers;
use super::trace::{Binary, Comparison, Instruction, Order, Part, Recording, Slot, Unary, Value};
use crate::ir::Combine;

/// Numbers of vectors that take turns at every instruction, if there are registers enough. A body
/// waits for itself most of the time, and the processor sees only a few of them at once.
const TOGETHER: [u8; 2] = [2, 1];

/// Code for a recording, if there are registers enough.
pub(super) fn emit(recording: &Recording) -> Option<Vec<u8>> {
    TOGETHER.into_iter().find_map(|together| {
        let plan = Registers::plan(recording, together)?;
        Emitter::new(recording, &plan).emit()
    })
}

struct Emitter<'a> {
    plan: &'a Registers,
    recording: &'a Recording,
    code: Assembler,
    /// The register of each value that is in one now, for all vectors that take turns.
    places: Vec<Option<u8>>,
    /// Whose turn it is.
    turn: usize,
    vectors: Vec<Vector>,
    masks: Vec<Mask>,
}

impl<'a> Emitter<'a> {
    fn new(recording: &'a Recording, plan: &'a Registers) -> Self {
        let values = recording.instructions.len() * usize::from(plan.together);
        Emitter {
            plan,
            recording,
            code: Assembler::default(),
            places: vec![None; values],
            turn: 0,
            vectors: plan.free.clone(),
            masks: MASKS.rev().filter(|mask| !plan.takes(*mask)).collect(),
        }
    }

    fn emit(mut self) -> Option<Vec<u8>> {
        let plan = self.plan;
        self.enter()?;
        if plan.chains > 1 || !plan.cycles.is_empty() {
            self.turns(plan.chains)?;
        }
        if plan.cycles.is_empty() {
            self.turns(1)?;
            self.rest()?;
        }
        self.leave()?;
        Some(self.code.finish())
    }

    /// As often as there are so many vectors, the work on them.
    fn turns(&mut self, vectors: u8) -> Option<()> {
        let together = self.plan.together.min(vectors);
        self.code.compare(vectors);
        let none = self.code.jump(Condition::Below);
        let head = self.code.loop_head();
        for first in (0..vectors).step_by(usize::from(together)) {
            self.body(first..first + together, false)?;
        }
        self.code.advance(vectors);
        self.code.compare(vectors);
        self.code.jump_back(Condition::NotBelow, head);
        self.code.land(none);
        Some(())
    }

    /// The work on what is left of a vector.
    fn rest(&mut self) -> Option<()> {
        self.code.rest();
        let none = self.code.jump(Condition::Zero);
        if !self.plan.orders.is_empty() {
            self.code.rest_of_pairs();
        }
        self.body(0..1, true)?;
        self.code.land(none);
        Some(())
    }

    /// Where the register of a value stands for the vector whose turn it is.
    fn at(&self, value: usize) -> usize {
        let shared = match self.recording.instructions[value] {
            Instruction::Constant(_) | Instruction::Splat(_) | Instruction::Count(_) => true,
            Instruction::Cycle(..) => false,
            _ => value < self.plan.before,
        };
        match shared {
            true => value,
            false => value + self.turn * self.recording.instructions.len(),
        }
    }

    fn instruction(&self, value: Value) -> Instruction {
        self.recording.instructions[usize::from(value)]
    }

    fn enter(&mut self) -> Option<()> {
        self.code.enter();
        for &(value, register) in &self.plan.ready {
            let (opcode, from) = match self.instruction(value) {
                Instruction::Splat(slot) => {
                    self.code.pointer(0, slot);
                    (encode::BROADCAST, Operand::Pointer(0))
                }
                Instruction::Count(slot) => {
                    self.code.pointer(0, slot);
                    (encode::LOAD, Operand::Pointer(0))
                }
                Instruction::Constant(bits) => (encode::BROADCAST, self.code.number(bits)),
                _ => continue,
            };
            self.code.two(opcode, register, from);
            self.places[usize::from(value)] = Some(register);
        }
        for (cycle, registers) in &self.plan.cycles {
            self.cycle(*cycle, registers);
        }
        for &(order, register) in &self.plan.orders {
            let lanes = self.code.bytes(lanes(order));
            self.code.two(encode::WIDEN, register, lanes);
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

    /// The vectors of a cycle, each from as many places as it begins anew.
    fn cycle(&mut self, cycle: Value, registers: &[Vector]) {
        let Instruction::Cycle(slot, period) = self.instruction(cycle) else {
            return;
        };
        let (period, lanes) = (i32::from(period), 16);
        self.code.pointer(0, slot);
        for (first, &register) in (0..).step_by(16).zip(registers) {
            for begin in first / period..=(first + lanes - 1) / period {
                let from = Operand::Pointer(4 * (first - begin * period));
                let here = |lane: &i32| (first + lane) / period == begin;
                let elements = (0..lanes)
                    .filter(here)
                    .fold(0, |mask, lane| mask | 1 << lane);
                self.code.mask(elements);
                self.code
                    .masked(encode::LOAD, register, 0, from, REST, false);
            }
        }
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
                    self.code.two(encode::BROADCAST, to, Operand::Pointer(0));
                    self.places[index] = Some(to);
                }
                Instruction::Store(slot, _, value) => {
                    let (from, temporary) = self.operand(value)?;
                    self.code.pointer(0, slot);
                    let to = Operand::Pointer(0);
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
            let to = Operand::Pointer(0);
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

    /// The work on some vectors after the index, or what is left of one. They take turns.
    fn body(&mut self, copies: Range<u8>, rest: bool) -> Option<()> {
        for (cycle, registers) in &self.plan.cycles {
            for copy in copies.clone() {
                self.turn = usize::from(copy - copies.start);
                let at = self.at(usize::from(*cycle));
                let register = registers.iter().cycle().nth(usize::from(copy));
                self.places[at] = register.copied();
            }
        }
        for index in self.plan.before..self.recording.instructions.len() {
            for copy in copies.clone() {
                self.turn = usize::from(copy - copies.start);
                self.step(index, copy, rest)?;
            }
        }
        self.turn = 0;
        self.count_on()
    }

    /// One instruction's work on a vector.
    fn step(&mut self, index: usize, copy: u8, rest: bool) -> Option<()> {
        let instruction = self.recording.instructions[index];
        match instruction {
            Instruction::Constant(_) | Instruction::Splat(_) => {}
            Instruction::Count(_) | Instruction::Cycle(..) => {}
            Instruction::Load(slot, part) => {
                let to = self.vectors.pop()?;
                let (from, mask) = (self.elements(slot, part, copy)?, mask(part, rest));
                self.code.masked(encode::LOAD, to, 0, from, mask, true);
                let at = self.at(index);
                self.places[at] = Some(to);
            }
            Instruction::Fetch {
                slot,
                part,
                bytes,
                written,
            } => {
                let (twice, vectors) = vectors(part, copy);
                let bytes = bytes + u32::from(vectors) * 64;
                self.code.fetch(self.base(slot)?, twice, bytes, written);
            }
            Instruction::Store(slot, part, value) => {
                let (to, mask) = (self.elements(slot, part, copy)?, mask(part, rest));
                let (from, temporary) = self.operand(value)?;
                self.code.masked(encode::STORE, from, 0, to, mask, false);
                self.release(index, instruction, [temporary, None, None]);
            }
            Instruction::Fold(how, value, _) | Instruction::Whole(how, value, _) => {
                let mut folds = self.plan.folds.iter();
                let (_, chains) = folds.find(|(fold, _)| *fold == index)?;
                let to = chains[usize::from(copy)];
                let (from, temporary) = self.operand(value)?;
                self.combine(how, to, from, mask(Part::Whole, rest))?;
                self.release(index, instruction, [temporary, None, None]);
            }
            _ => self.compute(index, instruction)?,
        }
        if self.plan.last[index] == index {
            self.free(index);
        }
        Some(())
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

    /// Where elements are, the `copy`th vector (or two) after the index.
    fn elements(&self, slot: Slot, part: Part, copy: u8) -> Option<Operand> {
        let base = self.base(slot)?;
        Some(match vectors(part, copy) {
            (false, vectors) => Operand::Stream(base, vectors),
            (true, vectors) => Operand::Pairs(base, vectors),
        })
    }

    /// The register of a value, and whether it is to be free after this instruction.
    fn operand(&mut self, value: Value) -> Option<(Vector, Option<Vector>)> {
        if let Some(register) = self.places[self.at(usize::from(value))] {
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

    /// A value as last operand, which may be a number in memory.
    fn last_operand(&mut self, value: Value) -> Option<Operand> {
        match (
            self.places[self.at(usize::from(value))],
            self.instruction(value),
        ) {
            (Some(register), _) => Some(Operand::Vector(register)),
            (None, Instruction::Constant(bits)) => Some(self.code.spread(bits)),
            _ => None,
        }
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
            Instruction::Constant(_) | Instruction::Count(_) | Instruction::Cycle(..) => {}
            Instruction::Splat(_) if value >= self.plan.before => {}
            Instruction::Compare(..) => {
                let at = self.at(value);
                self.masks.extend(self.places[at].take());
            }
            _ => {
                let at = self.at(value);
                self.vectors.extend(self.places[at].take());
            }
        }
    }

    fn multiply_add(&mut self, index: usize, [a, b, c]: [Value; 3]) -> Option<()> {
        let to = self.vectors.pop()?;
        match self.last_operand(a)? {
            Operand::Spread(number) => self.code.two(encode::BROADCAST, to, Operand::Pool(number)),
            first => self.code.two(MOVE, to, first),
        }
        // One of the two may be in memory.
        let temporary = match (self.last_operand(b)?, self.last_operand(c)?) {
            (Operand::Vector(b), c) => {
                self.code.three(encode::MULTIPLY_ADD, to, b, c);
                None
            }
            (b, _) => {
                let (c, temporary) = self.operand(c)?;
                self.code.three(encode::MULTIPLY_ADD_LAST, to, c, b);
                temporary
            }
        };
        let instruction = self.recording.instructions[index];
        self.release(index, instruction, [temporary, None, None]);
        let at = self.at(index);
        self.places[at] = Some(to);
        Some(())
    }

    fn permute(&mut self, index: usize, order: Order, [a, b]: [Value; 2]) -> Option<()> {
        let mut orders = self.plan.orders.iter();
        let (_, lanes) = *orders.find(|(known, _)| *known == order)?;
        let to = self.vectors.pop()?;
        let ((a, one), (b, two)) = (self.operand(a)?, self.operand(b)?);
        self.code.two(MOVE, to, Operand::Vector(a));
        let b = Operand::Vector(b);
        self.code.three(encode::PERMUTE, to, lanes, b);
        let instruction = self.recording.instructions[index];
        self.release(index, instruction, [one, two, None]);
        let at = self.at(index);
        self.places[at] = Some(to);
        Some(())
    }

    /// Instructions that read before they write, so that the result may be where an operand is.
    fn compute(&mut self, index: usize, instruction: Instruction) -> Option<()> {
        let (opcode, a, b, mask) = match instruction {
            Instruction::MultiplyAdd(a, b, c) => return self.multiply_add(index, [a, b, c]),
            Instruction::Permute(order, a, b) => return self.permute(index, order, [a, b]),
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
        let b = self.last_operand(b)?;
        let mask = match mask {
            Some(mask) => self.places[self.at(usize::from(mask))]?,
            None => 0,
        };
        self.release(index, instruction, [one, None, None]);
        let to = match instruction {
            Instruction::Compare(..) => self.masks.pop()?,
            _ => self.vectors.pop()?,
        };
        self.code.masked(opcode, to, a, b, mask, false);
        let at = self.at(index);
        self.places[at] = Some(to);
        Some(())
    }
}

/// The mask of some elements: all, or the rest.
fn mask(part: Part, rest: bool) -> Mask {
    match part {
        _ if !rest => 0,
        Part::Whole => REST,
        Part::First => REST_OF_PAIRS[0],
        Part::Second => REST_OF_PAIRS[1],
    }
}

/// Whether elements are at twice the index, and how many vectors further.
fn vectors(part: Part, copy: u8) -> (bool, u8) {
    match part {
        Part::Whole => (false, copy),
        Part::First => (true, 2 * copy),
        Part::Second => (true, 2 * copy + 1),
    }
}

/// The lanes of two vectors that a permutation takes.
fn lanes(order: Order) -> [u8; 16] {
    std::array::from_fn(|lane| {
        let lane = lane as u8;
        match order {
            Order::Even => 2 * lane,
            Order::Odd => 2 * lane + 1,
            Order::Lower => lane / 2 + lane % 2 * 16,
            Order::Upper => lane / 2 + lane % 2 * 16 + 8,
        }
    })
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
