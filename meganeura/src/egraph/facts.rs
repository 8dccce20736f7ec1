//! What is known of every class: extents, element type, constants, bounds.

use egg::{Analysis, DidMerge, EGraph, Id};
use rustc_hash::FxHashMap;

use super::explain::Made;
use super::language::{Applied, Coefficient, Extents, LeafType, NO_AXIS, Term};
use crate::ir::{Combine, DType, Lowering, ScalarOp};

/// An e-graph of this language.
pub(super) type Terms = EGraph<Term, Facts>;

/// What is known of a class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    /// What it varies over.
    pub extents: Extents,
    /// Its element type.
    pub dtype: DType,
    /// Its value, if it is a number.
    pub constant: Option<Coefficient>,
    /// No element is smaller (NaN aside): -∞, 0, or a power of two of at most 1.
    pub low: f64,
    /// No element is NaN or infinite.
    pub finite: bool,
    /// Its integers are smaller.
    pub bound: Option<u32>,
    /// The layer it came from, as an index into the region's list.
    pub scope: Option<u32>,
}

impl Known {
    /// Not negative.
    pub(super) fn nonnegative(&self) -> bool {
        self.low >= 0.0
    }

    /// Greater than 0.
    pub(super) fn positive(&self) -> bool {
        self.low > 0.0
    }
}

/// The tables that nodes refer to, and the state of the analysis.
#[derive(Clone, Default, Debug)]
pub(super) struct Facts {
    /// What [`Term::Apply`] applies.
    pub ops: Vec<Applied>,
    known_ops: FxHashMap<Applied, u32>,
    /// What [`Term::Leaf`] stands for.
    pub leaves: Vec<LeafType>,
    /// The layer of nodes made now.
    pub scope: Option<u32>,
    /// What rules did.
    pub log: Vec<Made>,
}

impl Facts {
    /// For a region with these leaves.
    pub(super) fn new(leaves: Vec<LeafType>) -> Facts {
        Facts {
            leaves,
            ..Facts::default()
        }
    }

    /// The place of an applied op in the table.
    pub(super) fn intern(&mut self, applied: Applied) -> u32 {
        if let Some(&index) = self.known_ops.get(&applied) {
            return index;
        }
        let index = self.ops.len() as u32;
        self.ops.push(applied.clone());
        self.known_ops.insert(applied, index);
        index
    }

    /// The scalar instruction of an elementwise op.
    pub(super) fn scalar(&self, op: u32) -> Option<ScalarOp> {
        match self.ops[op as usize].op.def.lowering {
            Lowering::Pointwise(scalar) => Some(scalar),
            _ => None,
        }
    }
}

/// A lower bound as it is kept: none when negative, else rounded down to a power of two of at
/// most 1. So coarse that bounds cannot creep up around a cycle of equal terms.
fn coarse(low: f64) -> f64 {
    match low {
        _ if low.is_nan() || low < 0.0 => f64::NEG_INFINITY,
        _ if low >= 1.0 => 1.0,
        _ if low < 1e-30 => low.min(f64::MIN_POSITIVE),
        _ => low.log2().floor().exp2(),
    }
}

fn of_sum(eg: &Terms, coefficients: &[Coefficient], children: &[Id]) -> (f64, bool) {
    let mut low = 0.0;
    let mut finite = true;
    for (coefficient, child) in coefficients.iter().zip(children) {
        let (c, known) = (coefficient.value(), &eg[*child].data);
        finite &= known.finite;
        low += match known.constant {
            Some(k) => c * k.value(),
            None if c > 0.0 => c * known.low,
            None if c == 0.0 => 0.0,
            None => f64::NEG_INFINITY,
        };
    }
    (low, finite)
}

fn of_product(eg: &Terms, halves: &[i16], children: &[Id]) -> (f64, bool) {
    let (mut low, mut finite) = (1.0, true);
    for (&half, child) in halves.iter().zip(children) {
        let known = &eg[*child].data;
        finite &= known.finite && half > 0 && (half % 2 == 0 || known.nonnegative());
        let factor = match half {
            _ if half > 0 && known.nonnegative() => known.low.powf(f64::from(half) / 2.0),
            _ if half % 4 == 0 || known.nonnegative() => 0.0,
            // An odd power of a root is a root: not negative.
            _ if half % 2 != 0 => 0.0,
            _ => f64::NEG_INFINITY,
        };
        low = if low < 0.0 || factor < 0.0 {
            f64::NEG_INFINITY
        } else {
            low * factor
        };
    }
    // A reciprocal of something greater than 0 is greater than 0, though by no known amount.
    let positive = children.iter().all(|child| eg[*child].data.positive());
    if positive && low == 0.0 {
        low = f64::MIN_POSITIVE;
    }
    (low, finite)
}

fn of_scalar(scalar: ScalarOp, operands: &[&Known]) -> (f64, bool) {
    let finite = operands.iter().all(|known| known.finite);
    let truth = (0.0, true);
    match scalar {
        // Underflow to 0 aside, which no rule relies on.
        ScalarOp::Exp => (f64::MIN_POSITIVE, false),
        ScalarOp::Absolute => (0.0, finite),
        ScalarOp::Sigmoid => (0.0, finite),
        ScalarOp::Tanh | ScalarOp::Erf | ScalarOp::Sin | ScalarOp::Cos => (-1.0, finite),
        ScalarOp::Less | ScalarOp::LessEqual | ScalarOp::Equal => truth,
        ScalarOp::Maximum => (operands[0].low.max(operands[1].low), finite),
        ScalarOp::Minimum => (operands[0].low.min(operands[1].low), finite),
        ScalarOp::Select => (
            operands[1].low.min(operands[2].low),
            operands[1].finite && operands[2].finite,
        ),
        ScalarOp::Identity => (operands[0].low, finite),
        ScalarOp::First => (operands[0].low, operands[0].finite),
        ScalarOp::Random => (0.0, finite),
        _ => (f64::NEG_INFINITY, false),
    }
}

fn of_apply(eg: &Terms, op: u32, children: &[Id]) -> Known {
    let applied = &eg.analysis.ops[op as usize];
    let operands: Vec<&Known> = children.iter().map(|child| &eg[*child].data).collect();
    let dtype = applied.result.dtype;
    let mut known = Known {
        extents: Extents::SCALAR,
        dtype,
        constant: None,
        low: f64::NEG_INFINITY,
        finite: dtype != DType::F32,
        bound: None,
        scope: None,
    };
    if applied.elementwise {
        for operand in &operands {
            known.extents = known.extents.join(&operand.extents);
        }
        if let Some(scalar) = eg.analysis.scalar(op) {
            let (low, finite) = of_scalar(scalar, &operands);
            known.low = low;
            known.finite |= finite;
        }
        return known;
    }
    known.extents = Extents::of(&applied.result.shape);
    if applied.reshape {
        let operand = operands[0];
        known.low = operand.low;
        known.finite = operand.finite;
        known.bound = operand.bound;
        if operand.extents == Extents::SCALAR {
            known.extents = Extents::SCALAR;
        }
    }
    if matches!(applied.op.def.lowering, Lowering::Index) {
        known.low = 0.0;
    }
    known
}

impl Analysis<Term> for Facts {
    type Data = Known;

    fn make(eg: &mut Terms, term: &Term, _: Id) -> Known {
        let mut known = Known {
            extents: Extents::SCALAR,
            dtype: DType::F32,
            constant: None,
            low: f64::NEG_INFINITY,
            finite: false,
            bound: None,
            scope: None,
        };
        match term {
            Term::Leaf(index) => {
                let leaf = &eg.analysis.leaves[*index as usize];
                known.extents = Extents::of(&leaf.ty.shape);
                known.dtype = leaf.ty.dtype;
                known.finite = !leaf.is_float();
                known.bound = leaf.bound.and_then(|bound| u32::try_from(bound).ok());
                if known.finite {
                    known.low = 0.0;
                }
            }
            Term::Constant(value) => {
                known.constant = Some(*value);
                known.low = value.value();
                known.finite = true;
            }
            Term::Sum(coefficients, children) => {
                (known.low, known.finite) = of_sum(eg, coefficients, children);
                for child in children {
                    known.extents = known.extents.join(&eg[*child].data.extents);
                }
            }
            Term::Product(halves, children) => {
                (known.low, known.finite) = of_product(eg, halves, children);
                for child in children {
                    known.extents = known.extents.join(&eg[*child].data.extents);
                }
            }
            Term::Reduce(combine, span, [child]) => {
                let operand = &eg[*child].data;
                known.extents = operand.extents;
                known.finite = operand.finite;
                known.low = match combine {
                    Combine::Maximum => operand.low,
                    Combine::Sum if operand.nonnegative() => {
                        operand.low * span.iter().map(|(_, n)| f64::from(*n)).product::<f64>()
                    }
                    Combine::Sum => f64::NEG_INFINITY,
                };
                for &(axis, _) in span {
                    known.extents.set(usize::from(axis), 1);
                }
            }
            Term::Rename(sources, [child]) => {
                known = eg[*child].data.clone();
                known.scope = None;
                known.extents = Extents::SCALAR;
                for (axis, &source) in sources.iter().enumerate() {
                    if source != NO_AXIS {
                        let extent = eg[*child].data.extents.get(usize::from(source));
                        known.extents.set(axis, extent);
                    }
                }
            }
            Term::Contract(_, [left, right]) => {
                let (left, right) = (&eg[*left].data, &eg[*right].data);
                let (mut a, mut b) = (left.extents, right.extents);
                a.set(0, 1);
                b.set(1, 1);
                known.extents = a.join(&b);
                known.finite = left.finite && right.finite;
                if left.nonnegative() && right.nonnegative() {
                    known.low = 0.0;
                }
            }
            Term::Apply(op, children) => known = of_apply(eg, *op, children),
        }
        known.low = coarse(known.low);
        known.scope = eg.analysis.scope;
        known
    }

    fn merge(&mut self, a: &mut Known, b: Known) -> DidMerge {
        let smaller = |a: Option<u32>, b: Option<u32>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            _ => a.or(b),
        };
        let merged = Known {
            extents: a.extents.meet(&b.extents),
            dtype: a.dtype,
            constant: a.constant.or(b.constant),
            low: a.low.max(b.low),
            finite: a.finite || b.finite,
            bound: smaller(a.bound, b.bound),
            scope: smaller(a.scope, b.scope),
        };
        let (left, right) = (merged != *a, merged != b);
        *a = merged;
        DidMerge(left, right)
    }

    fn modify(eg: &mut Terms, id: Id) {
        if let Some(value) = eg[id].data.constant {
            if eg[id].nodes.len() == 1 && matches!(eg[id].nodes[0], Term::Constant(_)) {
                return;
            }
            let constant = eg.add(Term::Constant(value));
            eg.union(id, constant);
            eg[id]
                .nodes
                .retain(|node| matches!(node, Term::Constant(_)));
        }
    }
}
