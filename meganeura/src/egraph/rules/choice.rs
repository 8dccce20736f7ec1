//! Rules of selections, and of numbers in elementwise ops.

use egg::Id;

use crate::egraph::facts::Terms;
use crate::egraph::language::Term;
use crate::egraph::normal::{constant_along, number, reduce, strip, sum};
use crate::ir::{Combine, DType, Lowering, ScalarOp};

/// An op on numbers is a number.
pub(super) fn fold_numbers(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Apply(op, children) = term else {
        return Vec::new();
    };
    let Some(scalar) = eg.analysis.scalar(*op) else {
        return Vec::new();
    };
    if children.is_empty() || eg.analysis.ops[*op as usize].result.dtype != DType::F32 {
        return Vec::new();
    }
    let values: Option<Vec<f64>> = children
        .iter()
        .map(|child| eg[*child].data.constant.map(|value| value.value()))
        .collect();
    match values.map(|values| scalar.evaluate(&values)) {
        // As finite as it is in the floats that kernels compute with.
        Some(value) if (value as f32).is_finite() => vec![number(eg, value)],
        _ => Vec::new(),
    }
}

/// A selection's op, condition and branches.
fn selection(eg: &Terms, term: &Term) -> Option<(u32, [Id; 3])> {
    match term {
        Term::Apply(op, x) if eg.analysis.scalar(*op) == Some(ScalarOp::Select) => {
            Some((*op, [eg.find(x[0]), eg.find(x[1]), eg.find(x[2])]))
        }
        _ => None,
    }
}

fn is_zero(eg: &Terms, id: Id) -> bool {
    eg[id]
        .data
        .constant
        .is_some_and(|value| value.value() == 0.0)
}

/// Selections between equals, within selections by the same condition, and of multiples.
pub(super) fn choose(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Some((op, [condition, yes, no])) = selection(eg, term) else {
        return Vec::new();
    };
    if yes == no {
        return vec![yes];
    }
    let mut result = Vec::new();
    let select =
        |eg: &mut Terms, yes: Id, no: Id| eg.add(Term::Apply(op, [condition, yes, no].into()));
    for (branch, taken) in [(yes, 1), (no, 2)] {
        for node in eg[branch].nodes.clone() {
            let Some((_, inner)) = selection(eg, &node) else {
                continue;
            };
            if inner[0] == condition {
                let (yes, no) = if taken == 1 {
                    (inner[1], no)
                } else {
                    (yes, inner[2])
                };
                result.push(select(eg, yes, no));
            }
        }
    }
    if eg.analysis.ops[op as usize].result.dtype != DType::F32 {
        return result;
    }
    // A multiple of a selection between something and 0.
    for (branch, other) in [(yes, no), (no, yes)] {
        if !is_zero(eg, other) {
            continue;
        }
        let (scale, base) = strip(eg, branch);
        if scale == 0.0 || scale == 1.0 {
            continue;
        }
        let base = match base {
            Some(base) => base,
            None => number(eg, 1.0),
        };
        let inner = if branch == yes {
            select(eg, base, other)
        } else {
            select(eg, other, base)
        };
        result.push(sum(eg, &[(scale, inner)]));
    }
    result
}

/// The axis along which a condition holds exactly once: an index equal to an integer that is
/// promised to be one of its values.
fn one_hot(eg: &Terms, condition: Id) -> Option<(u8, u32)> {
    eg[condition].nodes.iter().find_map(|node| {
        let Term::Apply(op, x) = node else {
            return None;
        };
        if eg.analysis.scalar(*op) != Some(ScalarOp::Equal) {
            return None;
        }
        let matched = |index: Id, label: Id| {
            let counts = eg[index].nodes.iter().any(|node| match node {
                Term::Apply(op, _) => matches!(
                    eg.analysis.ops[*op as usize].op.def.lowering,
                    Lowering::Index
                ),
                _ => false,
            });
            let extents = eg[index].data.extents;
            let axis = (0..extents.rank()).find(|&axis| extents.varies(axis))?;
            let promised = eg[label].data.bound? <= extents.get(axis);
            let along = !eg[label].data.extents.varies(axis);
            (counts && promised && along).then(|| (axis as u8, extents.get(axis)))
        };
        matched(x[0], x[1]).or_else(|| matched(x[1], x[0]))
    })
}

/// The sum along an axis of what is 0 but for one element is that element.
pub(super) fn pick_one(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Reduce(Combine::Sum, span, [child]) = term else {
        return Vec::new();
    };
    let mut result = Vec::new();
    for node in eg[*child].nodes.clone() {
        if let Some((op, [condition, yes, no])) = selection(eg, &node) {
            result.extend(pick_selected(eg, span, op, [condition, yes, no]));
        }
    }
    result
}

fn pick_selected(
    eg: &mut Terms,
    span: &[(u8, u32)],
    op: u32,
    [condition, yes, no]: [Id; 3],
) -> Option<Id> {
    let (axis, extent) = one_hot(eg, condition)?;
    let hot = span.iter().position(|&(other, _)| other == axis)?;
    let mut rest = span.to_vec();
    rest.remove(hot);
    let along = [(axis, extent)];
    if is_zero(eg, no) {
        if constant_along(eg, &along, yes) {
            return Some(reduce(eg, Combine::Sum, &rest, yes));
        }
        // The picked element of a sum is the sum of the picked elements; those of terms
        // that are constant along the axis are the terms themselves.
        return pick_of_sum(eg, span, op, condition, yes, no);
    }
    if is_zero(eg, yes) && constant_along(eg, &along, no) && extent > 1 {
        let others = sum(eg, &[(f64::from(extent) - 1.0, no)]);
        return Some(reduce(eg, Combine::Sum, &rest, others));
    }
    None
}

fn pick_of_sum(
    eg: &mut Terms,
    span: &[(u8, u32)],
    op: u32,
    condition: Id,
    value: Id,
    zero: Id,
) -> Option<Id> {
    let (axis, extent) = one_hot(eg, condition)?;
    let parts = super::sums_of(eg, value, 4).into_iter().find(|parts| {
        parts.len() <= 3
            && parts
                .iter()
                .any(|part| constant_along(eg, &[(axis, extent)], part.1))
    })?;
    // x − max must stay whole.
    if super::guarded(eg, value) {
        return None;
    }
    let mut terms = Vec::new();
    for (c, part) in parts {
        let picked = eg.add(Term::Apply(op, [condition, part, zero].into()));
        terms.push((c, reduce(eg, Combine::Sum, span, picked)));
    }
    Some(sum(eg, &terms))
}
