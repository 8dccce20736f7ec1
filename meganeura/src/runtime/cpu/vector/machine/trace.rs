//! Loops as programs: what the functions on vectors do is written down instead of done.
//!
//! [`Traced`] is a vector of [`Lanes`] that only has a number, so that every function has one
//! source here, too.

use std::cell::RefCell;

use super::super::lanes::Lanes;
use super::super::steps;
use crate::ir::{Combine, ScalarOp};

/// A place in the table of pointers.
pub(in super::super::super) type Slot = u16;
/// The number of the instruction that makes a value.
pub(in super::super::super) type Value = u16;

/// Which elements a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// One for each lane.
    Whole,
    /// Two for each lane, side by side: the first vector of them.
    First,
    /// The second.
    Second,
}

/// Which of two vectors' lanes, one after the other, become a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Every second, from the first on.
    Even,
    /// Every second, from the second on.
    Odd,
    /// One of the first vector and one of the second in turn: their lower halves.
    Lower,
    /// Their upper halves.
    Upper,
}

/// What happens to the vector at some elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Instruction {
    /// A float by its bits, in all lanes.
    Constant(u32),
    /// The float that a pointer leads to, in all lanes.
    Splat(Slot),
    /// The elements that a pointer leads to, in the loop.
    Load(Slot, Part),
    /// The floats that a pointer leads to for the first vector, more by 16 for each that follows.
    Count(Slot),
    /// So many floats that a pointer leads to, again and again.
    Cycle(Slot, u16),
    Unary(Unary, Value),
    Binary(Binary, Value, Value),
    /// `a · b + c`
    MultiplyAdd(Value, Value, Value),
    Compare(Comparison, Value, Value),
    /// Lanes of two vectors.
    Permute(Order, Value, Value),
    /// `mask ? yes : no`
    Blend {
        mask: Value,
        yes: Value,
        no: Value,
    },
    /// To the elements that a pointer leads to, or to its float before the loop.
    Store(Slot, Part, Value),
    /// Asks for the elements so many bytes further, to write to them or to read them.
    Fetch {
        slot: Slot,
        part: Part,
        bytes: u32,
        written: bool,
    },
    /// Combined with all other elements and with the double that a pointer leads to.
    Fold(Combine, Value, Slot),
    /// Combined with all other elements, to the float that a pointer leads to.
    Whole(Combine, Value, Slot),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unary {
    Sqrt,
    Exponent,
    Mantissa,
    Round,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Larger,
    Smaller,
    And,
    AndNot,
    Or,
    Xor,
    Scale,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comparison {
    Less,
    LessEqual,
    Equal,
}

impl Instruction {
    /// The values it is made of.
    pub(super) fn operands(self) -> impl Iterator<Item = Value> {
        let operands = match self {
            Self::Constant(_) | Self::Splat(_) | Self::Load(..) => [None; 3],
            Self::Count(_) | Self::Cycle(..) | Self::Fetch { .. } => [None; 3],
            Self::Unary(_, a) | Self::Store(_, _, a) => [Some(a), None, None],
            Self::Fold(_, a, _) | Self::Whole(_, a, _) => [Some(a), None, None],
            Self::Binary(_, a, b) | Self::Compare(_, a, b) => [Some(a), Some(b), None],
            Self::Permute(_, a, b) => [Some(a), Some(b), None],
            Self::MultiplyAdd(a, b, c) => [Some(a), Some(b), Some(c)],
            Self::Blend { mask, yes, no } => [Some(mask), Some(yes), Some(no)],
        };
        operands.into_iter().flatten()
    }

    /// The operand that cannot be read from memory.
    pub(super) fn in_register(self) -> Option<Value> {
        match self {
            Self::Binary(_, a, _) | Self::Compare(_, a, _) | Self::Permute(_, a, _) => Some(a),
            Self::Blend { no, .. } => Some(no),
            Self::Store(_, _, a) | Self::Fold(_, a, _) | Self::Whole(_, a, _) => Some(a),
            _ => None,
        }
    }
}

/// A loop's body, and what happens once before it.
#[derive(Clone, Debug, Default)]
pub(in super::super::super) struct Recording {
    pub(super) instructions: Vec<Instruction>,
    /// How many of the instructions happen before the loop. What they make is the same in all
    /// lanes.
    pub(super) before: usize,
}

impl Recording {
    fn push(&mut self, instruction: Instruction) -> Value {
        if matches!(
            instruction,
            Instruction::Constant(_)
                | Instruction::Splat(_)
                | Instruction::Count(_)
                | Instruction::Cycle(..)
        ) && let Some(known) = self.instructions.iter().position(|&i| i == instruction)
        {
            return known as Value;
        }
        self.instructions.push(instruction);
        (self.instructions.len() - 1) as Value
    }

    /// What follows happens to every vector.
    pub(in super::super::super) fn begin(&mut self) {
        self.before = self.instructions.len();
    }

    /// The elements at a slot.
    pub(in super::super::super) fn load(&mut self, slot: Slot) -> Value {
        self.push(Instruction::Load(slot, Part::Whole))
    }

    /// The pairs of elements at a slot: the first of each, and the second of each.
    pub(in super::super::super) fn load_pairs(&mut self, slot: Slot) -> [Value; 2] {
        let [a, b] = [Part::First, Part::Second].map(|p| self.push(Instruction::Load(slot, p)));
        [Order::Even, Order::Odd].map(|order| self.push(Instruction::Permute(order, a, b)))
    }

    /// The 16 numbers at a slot, and so on by 16 from vector to vector.
    pub(in super::super::super) fn count(&mut self, slot: Slot) -> Value {
        self.push(Instruction::Count(slot))
    }

    /// So many floats at a slot, again and again, for loops over whole turns ([`turn`]) only.
    pub(in super::super::super) fn cycle(&mut self, slot: Slot, period: u16) -> Value {
        self.push(Instruction::Cycle(slot, period))
    }

    /// The float at a slot, which stays as it is during the loop.
    pub(in super::super::super) fn splat(&mut self, slot: Slot) -> Value {
        self.push(Instruction::Splat(slot))
    }

    /// Writes to the elements at a slot; before the loop, to its float.
    pub(in super::super::super) fn store(&mut self, slot: Slot, value: Value) {
        self.push(Instruction::Store(slot, Part::Whole, value));
    }

    /// Writes pairs of elements to a slot.
    pub(in super::super::super) fn store_pairs(&mut self, slot: Slot, [a, b]: [Value; 2]) {
        for (order, part) in [(Order::Lower, Part::First), (Order::Upper, Part::Second)] {
            let value = self.push(Instruction::Permute(order, a, b));
            self.push(Instruction::Store(slot, part, value));
        }
    }

    /// Asks for the elements so many bytes further.
    pub(in super::super::super) fn fetch(&mut self, slot: Slot, bytes: u32, written: bool) {
        self.fetch_part(slot, Part::Whole, bytes, written);
    }

    /// Asks for the pairs of elements so many bytes further.
    pub(in super::super::super) fn fetch_pairs(&mut self, slot: Slot, bytes: u32, written: bool) {
        self.fetch_part(slot, Part::First, bytes, written);
        self.fetch_part(slot, Part::Second, bytes, written);
    }

    fn fetch_part(&mut self, slot: Slot, part: Part, bytes: u32, written: bool) {
        self.push(Instruction::Fetch {
            slot,
            part,
            bytes,
            written,
        });
    }

    /// Combines all elements, and the result with the double at a slot.
    pub(in super::super::super) fn fold(&mut self, how: Combine, value: Value, slot: Slot) {
        self.push(Instruction::Fold(how, value, slot));
    }

    /// Combines all elements to the float at a slot, which nobody reads in the loop.
    pub(in super::super::super) fn whole(&mut self, how: Combine, value: Value, slot: Slot) {
        self.push(Instruction::Whole(how, value, slot));
    }

    /// An operation on values.
    pub(in super::super::super) fn scalar(&mut self, op: ScalarOp, [a, b, c]: [Value; 3]) -> Value {
        TRACE.set(std::mem::take(self));
        let Traced(value) = steps::apply(op, Traced(a), Traced(b), Traced(c));
        *self = TRACE.take();
        value
    }
}

/// After how many vectors a cycle begins with a vector anew, if it is worth having them in registers.
pub(in super::super::super) fn turn(period: usize) -> Option<usize> {
    /// Vectors of a cycle at most.
    const MOST: usize = 4;
    (1..=MOST).find(|vectors| period > 0 && (vectors * Traced::COUNT).is_multiple_of(period))
}

/// Whether an operation looks at vectors as a whole only, and can be written down.
pub(in super::super::super) fn traceable(op: ScalarOp) -> bool {
    !matches!(op, ScalarOp::Sin | ScalarOp::Cos | ScalarOp::Random)
}

thread_local! {
    static TRACE: RefCell<Recording> = RefCell::default();
}

fn record(instruction: Instruction) -> Value {
    TRACE.with_borrow_mut(|recording| recording.push(instruction))
}

/// A value of the program being written.
#[derive(Clone, Copy)]
pub(super) struct Traced(Value);

/// A truth value for each lane.
#[derive(Clone, Copy)]
pub(super) struct TracedMask(Value);

fn constant(value: f32) -> Value {
    record(Instruction::Constant(value.to_bits()))
}

fn unary(op: Unary, x: Traced) -> Traced {
    Traced(record(Instruction::Unary(op, x.0)))
}

fn binary(op: Binary, a: Traced, b: Traced) -> Traced {
    Traced(record(Instruction::Binary(op, a.0, b.0)))
}

fn compare(op: Comparison, a: Traced, b: Traced) -> TracedMask {
    TracedMask(record(Instruction::Compare(op, a.0, b.0)))
}

/// Only its sign.
fn sign() -> Traced {
    Traced(constant(-0.0))
}

impl Lanes for Traced {
    type Mask = TracedMask;
    const COUNT: usize = 16;

    unsafe fn splat(value: f32) -> Self {
        Traced(constant(value))
    }

    // Memory is read and written by instructions of their own; `traceable` keeps away the
    // functions that look at single lanes.
    unsafe fn load(_: *const f32) -> Self {
        Traced(constant(f32::NAN))
    }

    unsafe fn load_partial(_: *const f32, _: usize) -> Self {
        Traced(constant(f32::NAN))
    }

    unsafe fn store(self, _: *mut f32) {}

    unsafe fn store_partial(self, _: *mut f32, _: usize) {}

    unsafe fn load_halves(_: *const u16) -> Self {
        Traced(constant(f32::NAN))
    }

    unsafe fn store_halves(self, _: *mut u16) {}

    fn add(self, other: Self) -> Self {
        binary(Binary::Add, self, other)
    }

    fn subtract(self, other: Self) -> Self {
        binary(Binary::Subtract, self, other)
    }

    fn multiply(self, other: Self) -> Self {
        binary(Binary::Multiply, self, other)
    }

    fn divide(self, other: Self) -> Self {
        binary(Binary::Divide, self, other)
    }

    fn multiply_add(self, factor: Self, term: Self) -> Self {
        Traced(record(Instruction::MultiplyAdd(self.0, factor.0, term.0)))
    }

    fn sqrt(self) -> Self {
        unary(Unary::Sqrt, self)
    }

    fn larger(self, other: Self) -> Self {
        binary(Binary::Larger, self, other)
    }

    fn smaller(self, other: Self) -> Self {
        binary(Binary::Smaller, self, other)
    }

    fn absolute(self) -> Self {
        binary(Binary::AndNot, sign(), self)
    }

    fn negate(self) -> Self {
        binary(Binary::Xor, self, sign())
    }

    fn negative(self) -> Self {
        binary(Binary::Or, self, sign())
    }

    fn copy_sign(self, other: Self) -> Self {
        let (magnitude, sign) = (self.absolute(), binary(Binary::And, other, sign()));
        binary(Binary::Or, magnitude, sign)
    }

    fn less(self, other: Self) -> TracedMask {
        compare(Comparison::Less, self, other)
    }

    fn less_equal(self, other: Self) -> TracedMask {
        compare(Comparison::LessEqual, self, other)
    }

    fn equal(self, other: Self) -> TracedMask {
        compare(Comparison::Equal, self, other)
    }

    fn select(mask: TracedMask, yes: Self, no: Self) -> Self {
        let (mask, yes, no) = (mask.0, yes.0, no.0);
        Traced(record(Instruction::Blend { mask, yes, no }))
    }

    fn all(_: TracedMask) -> bool {
        true
    }

    fn scale(self, n: Self) -> Self {
        binary(Binary::Scale, self, n)
    }

    fn split(self) -> (Self, Self) {
        (unary(Unary::Mantissa, self), unary(Unary::Exponent, self))
    }

    fn round(self) -> Self {
        unary(Unary::Round, self)
    }
}
