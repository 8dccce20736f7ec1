//! What a graph costs: an estimate of its time after fusion, from a device's rates.
//!
//! It follows what the scheduler fuses. Elementwise work and reductions of rows share a loop
//! kernel, so a value between them costs no memory; a contraction takes elementwise work in
//! its epilogue; a sum over rows is complete only when its kernel ends. What crosses such a
//! border is written once and read once by each kernel behind it, or computed there again. Each further reduction of
//! rows that needs the one before it walks the row once more.

mod estimate;
mod traffic;

pub use estimate::Estimate;
pub(super) use traffic::Scratch;

use super::emit::{Arithmetic, Binary, Unary};
use super::language::{Extents, NO_AXIS};
use crate::ir::ScalarOp;

/// A device's rates, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    /// One floating-point operation of a contraction.
    pub flop: f64,
    /// One scalar instruction on one element.
    pub instruction: f64,
    /// One byte from memory.
    pub byte: f64,
    /// One byte to memory. A processor's cache reads what it is to write in part.
    pub store: f64,
    /// One kernel.
    pub launch: f64,
    /// Walking over a row once more, for each element.
    pub pass: f64,
    /// Whether memory holds bf16 in two bytes; if not, floats are rounded to it.
    pub halves: bool,
}

impl Default for CostModel {
    /// Two cores with AVX-512, fitted to the yardstick's workloads: 225 GFLOP/s in
    /// contractions, 35 GB/s, 60 elementwise instructions a nanosecond, 2 µs a kernel.
    fn default() -> CostModel {
        CostModel {
            flop: 1.0 / 225.0,
            instruction: 1.0 / 60.0,
            byte: 1.0 / 35.0,
            store: 2.0 / 35.0,
            launch: 2000.0,
            pass: 1.0 / 30.0,
            halves: true,
        }
    }
}

impl CostModel {
    /// A desktop graphics card: about 10 TFLOP/s in contractions, 500 GB/s.
    pub fn gpu() -> CostModel {
        CostModel {
            flop: 1e-4,
            instruction: 2e-4,
            byte: 2e-3,
            store: 2e-3,
            launch: 4000.0,
            pass: 5e-4,
            halves: false,
        }
    }
}

/// How a node takes part in kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A number: part of the program.
    Number,
    /// In memory from the start.
    Leaf,
    /// Another view of its operand.
    View,
    /// A view of a part, or with the axes elsewhere: what is computed must be in memory to be
    /// seen so.
    Turn,
    /// Elementwise.
    Elementwise,
    /// A reduction along the columns of a row.
    RowReduction,
    /// A reduction over rows.
    ColumnReduction,
    /// A contraction.
    Contraction,
    /// A kernel of its own that reads memory.
    Memory,
}

/// What a node adds to the cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// How it takes part.
    pub role: Role,
    /// Time of its own.
    pub time: f64,
    /// Elements of the result.
    pub elements: f64,
    /// Elements of the operand of a reduction.
    pub reduced: f64,
    /// Of a leaf that is computed elsewhere: after how many kernels.
    pub since: Option<u32>,
}

impl CostModel {
    /// The time of an instruction for each element.
    pub(crate) fn scalar(&self, op: ScalarOp) -> f64 {
        let weight = match op {
            ScalarOp::Identity => 0.0,
            ScalarOp::Divide | ScalarOp::Reciprocal | ScalarOp::Sqrt => 4.0,
            ScalarOp::ReciprocalSqrt => 5.0,
            ScalarOp::Exp | ScalarOp::Log | ScalarOp::Sigmoid | ScalarOp::Tanh => 10.0,
            ScalarOp::Sin | ScalarOp::Cos | ScalarOp::Erf => 14.0,
            // Ten rounds of Philox.
            ScalarOp::Random => 60.0,
            _ => 1.0,
        };
        weight * self.instruction
    }

    /// The time of an instruction on all elements. What is one number for a row is computed
    /// one by one, not in vectors.
    pub(super) fn elementwise(&self, op: ScalarOp, extents: &Extents) -> f64 {
        let lanes = if extents.varies(0) { 1.0 } else { 4.0 };
        self.scalar(op) * extents.elements() * lanes
    }

    /// A matrix product: launch, arithmetic and traffic.
    pub(super) fn contraction(&self, left: f64, right: f64, result: f64, k: f64) -> f64 {
        let arithmetic = 2.0 * result * k * self.flop;
        self.launch + arithmetic + self.read(left + right) + self.written(result)
    }

    /// A kernel that reads and writes so many elements.
    pub(super) fn memory(&self, read: f64, written: f64) -> f64 {
        self.launch + self.read(read) + self.written(written)
    }

    /// The time of reading elements.
    pub(crate) fn read(&self, elements: f64) -> f64 {
        elements * 4.0 * self.byte
    }

    /// The time of writing elements.
    pub(crate) fn written(&self, elements: f64) -> f64 {
        elements * 4.0 * self.store
    }

    /// A reduction of a value that varies over `extents`; sums over rows keep many sums at
    /// once.
    pub(super) fn reduction(&self, extents: &Extents, rows: bool) -> f64 {
        let weight = if rows { 1.0 } else { 2.0 };
        let lanes = if extents.varies(0) { 1.0 } else { 4.0 };
        extents.elements() * self.instruction * weight * lanes
    }
}

/// Whether a view moves axes so that rows do not stay rows.
pub(super) fn turn(sources: &[u8]) -> Role {
    let used = sources.iter().filter(|source| **source != NO_AXIS);
    let last_stays = matches!(sources.first(), None | Some(&0 | &NO_AXIS));
    if last_stays && used.is_sorted() {
        Role::View
    } else {
        Role::Turn
    }
}

/// Arithmetic that is only priced.
pub(super) struct Price<'a> {
    pub model: &'a CostModel,
    pub time: f64,
}

impl Arithmetic for Price<'_> {
    type Value = Extents;

    fn extents(&self, value: &Extents) -> Extents {
        *value
    }

    fn number(&mut self, _: f64) -> Extents {
        Extents::SCALAR
    }

    fn binary(&mut self, op: Binary, a: Extents, b: Extents) -> Extents {
        let result = a.join(&b);
        let op = match op {
            Binary::Add => ScalarOp::Add,
            Binary::Subtract => ScalarOp::Subtract,
            Binary::Multiply => ScalarOp::Multiply,
            Binary::Divide => ScalarOp::Divide,
        };
        self.time += self.model.elementwise(op, &result);
        result
    }

    fn unary(&mut self, op: Unary, a: Extents) -> Extents {
        let op = match op {
            Unary::Negate => ScalarOp::Negate,
            Unary::SquareRoot => ScalarOp::Sqrt,
            Unary::ReciprocalSquareRoot => ScalarOp::ReciprocalSqrt,
            Unary::Reciprocal => ScalarOp::Reciprocal,
        };
        self.time += self.model.elementwise(op, &a);
        a
    }
}
