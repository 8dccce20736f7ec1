//! Rules of matrix products. Axis 0 of the left operand and axis 1 of the right are summed
//! over; the result's axis 1 is the left's, its axis 0 the right's; further axes are
//! elementwise.

use egg::Id;

use super::CROWD;
use crate::egraph::facts::Terms;
use crate::egraph::language::{Extents, NO_AXIS, Term};
use crate::egraph::normal::{contract, product, reduce, rename, sum};
use crate::ir::{Combine, Shape};

/// The matrix products in a class.
pub(super) fn contractions(eg: &Terms, class: Id) -> Vec<(u32, Id, Id)> {
    eg[class]
        .nodes
        .iter()
        .filter_map(|node| match node {
            Term::Contract(k, [a, b]) => Some((*k, eg.find(*a), eg.find(*b))),
            _ => None,
        })
        .take(6)
        .collect()
}

/// (p·q)·b = p·(q·b)
pub(super) fn reassociate(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Contract(k, [a, b]) = *term else {
        return Vec::new();
    };
    if eg[class].nodes.len() > CROWD {
        return Vec::new();
    }
    let mut result = Vec::new();
    for (j, p, q) in contractions(eg, a) {
        let inner = contract(eg, k, q, b);
        result.push(contract(eg, j, p, inner));
    }
    for (j, p, q) in contractions(eg, b) {
        let inner = contract(eg, k, a, p);
        result.push(contract(eg, j, inner, q));
    }
    result
}

/// Numbers and factors that are constant along the summed axis come out of an operand.
pub(super) fn scale_outside(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Contract(k, [a, b]) = *term else {
        return Vec::new();
    };
    let mut result = Vec::new();
    for (operand, other, axis) in [(a, b, 0), (b, a, 1)] {
        for node in eg[operand].nodes.clone() {
            let with = |eg: &mut Terms, inner: Id| match axis {
                0 => contract(eg, k, inner, other),
                _ => contract(eg, k, other, inner),
            };
            match node {
                Term::Sum(c, t) if t.len() == 1 && c[0].value() != 0.0 => {
                    let inner = with(eg, t[0]);
                    result.push(sum(eg, &[(c[0].value(), inner)]));
                }
                Term::Product(halves, t) => {
                    let factors = halves.iter().copied().zip(t.iter().copied());
                    let (outside, inside): (Vec<_>, Vec<_>) =
                        factors.partition(|factor| !eg[factor.1].data.extents.varies(axis));
                    if outside.is_empty() || inside.is_empty() {
                        continue;
                    }
                    let inner = product(eg, &inside);
                    let inner = with(eg, inner);
                    let mut factors = outside;
                    factors.push((2, inner));
                    result.push(product(eg, &factors));
                }
                _ => {}
            }
        }
    }
    result
}

/// Factors of a matrix product that are constant along an axis of the result go into the
/// operand that lacks that axis.
pub(super) fn scale_inside(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Product(halves, children) = term else {
        return Vec::new();
    };
    if eg[class].nodes.len() > CROWD {
        return Vec::new();
    }
    let factors: Vec<(i16, Id)> = halves
        .iter()
        .copied()
        .zip(children.iter().copied())
        .collect();
    let mut result = Vec::new();
    for (index, &(half, factor)) in factors.iter().enumerate() {
        if half != 2 {
            continue;
        }
        for (k, a, b) in contractions(eg, factor) {
            for axis in [0, 1] {
                let others = factors.iter().enumerate();
                let others = others.filter(|(other, _)| *other != index).map(|(_, f)| *f);
                let (inside, outside): (Vec<_>, Vec<_>) =
                    others.partition(|f| !eg[f.1].data.extents.varies(axis));
                if inside.is_empty() {
                    continue;
                }
                let mut scaled = inside;
                scaled.push((2, if axis == 0 { a } else { b }));
                let scaled = product(eg, &scaled);
                let inner = match axis {
                    0 => contract(eg, k, scaled, b),
                    _ => contract(eg, k, a, scaled),
                };
                let mut all = outside;
                all.push((2, inner));
                result.push(product(eg, &all));
            }
        }
    }
    result
}

/// A multiple of a matrix product is the product of a multiple.
pub(super) fn multiple_inside(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Sum(c, t) = term else {
        return Vec::new();
    };
    if t.len() != 1 || c[0].value() == 0.0 {
        return Vec::new();
    }
    let mut result = Vec::new();
    for (k, a, b) in contractions(eg, t[0]) {
        let left = sum(eg, &[(c[0].value(), a)]);
        result.push(contract(eg, k, left, b));
        let right = sum(eg, &[(c[0].value(), b)]);
        result.push(contract(eg, k, a, right));
    }
    result
}

/// The sum of a matrix product along an axis that only one operand has is the product with
/// that operand's sum.
pub(super) fn reduce_before(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Reduce(Combine::Sum, span, [child]) = term else {
        return Vec::new();
    };
    let mut result = Vec::new();
    for (k, a, b) in contractions(eg, *child) {
        let (mut left, mut right, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for &(axis, extent) in span {
            let varies = |id: Id| eg[id].data.extents.varies(usize::from(axis));
            match axis {
                0 => right.push((axis, extent)),
                1 => left.push((axis, extent)),
                _ if !varies(b) => left.push((axis, extent)),
                _ if !varies(a) => right.push((axis, extent)),
                _ => rest.push((axis, extent)),
            }
        }
        if left.is_empty() && right.is_empty() {
            continue;
        }
        let a = reduce(eg, Combine::Sum, &left, a);
        let b = reduce(eg, Combine::Sum, &right, b);
        let inner = contract(eg, k, a, b);
        result.push(reduce(eg, Combine::Sum, &rest, inner));
    }
    result
}

/// (a·b)ᵀ = bᵀ·aᵀ, and other orders of the further axes.
pub(super) fn transpose_before(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Rename(sources, [child]) = term else {
        return Vec::new();
    };
    let source = |axis: usize| sources.get(axis).copied().unwrap_or(NO_AXIS);
    let further = (2..sources.len()).all(|axis| source(axis) >= 2);
    let is = |axis: usize, wanted: u8| matches!(source(axis), s if s == wanted || s == NO_AXIS);
    let swapped = is(0, 1) && is(1, 0);
    let kept = is(0, 0) && is(1, 1);
    if !further || !swapped && !kept {
        return Vec::new();
    }
    let mut result = Vec::new();
    for (k, a, b) in contractions(eg, *child) {
        let mut map = sources.to_vec();
        map.resize(map.len().max(2), NO_AXIS);
        (map[0], map[1]) = if swapped { (1, 0) } else { (0, 1) };
        let (a, b) = (rename(eg, &map, a), rename(eg, &map, b));
        result.push(if swapped {
            contract(eg, k, b, a)
        } else {
            contract(eg, k, a, b)
        });
    }
    result
}

/// Leading axes that are merged only for the sake of a matrix product with one matrix need
/// not be.
pub(super) fn reshape_around(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Apply(op, children) = term else {
        return Vec::new();
    };
    let outer = eg.analysis.ops[*op as usize].clone();
    if !outer.reshape {
        return Vec::new();
    }
    let (flat, wide) = (&outer.operands[0].shape, &outer.result.shape);
    let mut result = Vec::new();
    for (k, a, b) in contractions(eg, children[0]) {
        if flat.rank() != 2 || wide.rank() < 2 || eg[b].data.extents.rank() > 2 {
            continue;
        }
        for node in eg[a].nodes.clone() {
            let Term::Apply(inner, of) = node else {
                continue;
            };
            let inner = eg.analysis.ops[inner as usize].clone();
            if !inner.reshape {
                continue;
            }
            let (from, to) = (&inner.operands[0].shape, &inner.result.shape);
            let lead = wide.rank() - 1;
            let fits = from.rank() == wide.rank()
                && from.dims()[..lead] == wide.dims()[..lead]
                && from.last() == k as usize
                && to.dims() == [flat.dims()[0], k as usize]
                && wide.last() == flat.last();
            if fits {
                result.push(contract(eg, k, of[0], b));
            }
        }
    }
    result
}

/// An operand that is constant along the summed axis needs no matrix product.
pub(super) fn constant_operand(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Contract(k, [a, b]) = *term else {
        return Vec::new();
    };
    let mut result = Vec::new();
    if !eg[a].data.extents.varies(0) {
        let summed = reduce(eg, Combine::Sum, &[(1, k)], b);
        result.push(product(eg, &[(2, a), (2, summed)]));
    }
    if !eg[b].data.extents.varies(1) {
        let summed = reduce(eg, Combine::Sum, &[(0, k)], a);
        result.push(product(eg, &[(2, summed), (2, b)]));
    }
    result
}

/// a·b + a·c = a·(b + c)
pub(super) fn common_operand(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Sum(c, t) = term else {
        return Vec::new();
    };
    if t.len() < 2 || t.len() > 6 || eg[class].nodes.len() > CROWD {
        return Vec::new();
    }
    let mut result = Vec::new();
    for first in 0..t.len() {
        for second in first + 1..t.len() {
            let (x, y) = (c[first].value(), c[second].value());
            if x == 0.0 || y == 0.0 {
                continue;
            }
            for (k, a, b) in contractions(eg, t[first]) {
                for (l, p, q) in contractions(eg, t[second]) {
                    if k != l || a != p && b != q {
                        continue;
                    }
                    let merged = if a == p {
                        let right = sum(eg, &[(x, b), (y, q)]);
                        contract(eg, k, a, right)
                    } else {
                        let left = sum(eg, &[(x, a), (y, p)]);
                        contract(eg, k, left, b)
                    };
                    let rest = (0..t.len()).filter(|index| *index != first && *index != second);
                    let mut terms: Vec<(f64, Id)> =
                        rest.map(|index| (c[index].value(), t[index])).collect();
                    terms.push((1.0, merged));
                    result.push(sum(eg, &terms));
                }
            }
        }
    }
    result
}

/// A matrix product over axes that were merged into one, `Σ_bt x(b,t,m)·y(b,t,n)`, where one
/// operand is constant along some of them: the other is summed along those first.
pub(super) fn sum_before_merging(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Contract(k, [a, b]) = *term else {
        return Vec::new();
    };
    let mut result = Vec::new();
    for (left, from) in merged_rows(eg, a, true) {
        for (right, other) in merged_rows(eg, b, false) {
            let lead = from.rank() - 1;
            if other.rank() - 1 != lead || from.dims()[..lead] != other.dims()[..lead] {
                continue;
            }
            result.extend(sum_merged(eg, k, left, right, &from));
        }
    }
    result
}

/// What a class is a reshape of that merges all axes but the last: the operand and its shape.
/// The rows come last when `turned`.
fn merged_rows(eg: &Terms, class: Id, turned: bool) -> Vec<(Id, Shape)> {
    let reshapes = |class: Id| {
        let nodes = eg[class].nodes.iter();
        nodes.filter_map(|node| match node {
            Term::Apply(op, of) => {
                let applied = &eg.analysis.ops[*op as usize];
                let from = &applied.operands.first()?.shape;
                let to = &applied.result.shape;
                let merges = applied.reshape
                    && (to.rank() == 2 && from.rank() > 2)
                    && from.last() == to.last();
                merges.then(|| (eg.find(of[0]), from.clone()))
            }
            _ => None,
        })
    };
    if !turned {
        return reshapes(class).take(2).collect();
    }
    let turns = eg[class].nodes.iter().filter_map(|node| match node {
        Term::Rename(sources, [child]) if sources[..] == [1, 0] => Some(eg.find(*child)),
        _ => None,
    });
    turns
        .take(2)
        .flat_map(|child| reshapes(child).take(2))
        .collect()
}

fn sum_merged(eg: &mut Terms, k: u32, left: Id, right: Id, from: &Shape) -> Option<Id> {
    let (a, b) = (eg[left].data.extents, eg[right].data.extents);
    let extents = Extents::of(from);
    let merged = (1..from.rank()).filter(|&axis| extents.varies(axis));
    let (mut of_left, mut of_right, mut idle, mut both) = (Vec::new(), Vec::new(), 1.0, Vec::new());
    for axis in merged {
        let along = (axis as u8, extents.get(axis));
        match (a.varies(axis), b.varies(axis)) {
            (true, true) => both.push(axis as u8),
            (true, false) => of_left.push(along),
            (false, true) => of_right.push(along),
            (false, false) => idle *= f64::from(along.1),
        }
    }
    if both.len() > 1 || both.len() == 1 && extents.get(usize::from(both[0])) == k {
        return None;
    }
    let left = reduce(eg, Combine::Sum, &of_left, left);
    let right = reduce(eg, Combine::Sum, &of_right, right);
    let value = match both[..] {
        [axis] => {
            let left = rename(eg, &[axis, 0], left);
            let right = rename(eg, &[0, axis], right);
            let k = extents.get(usize::from(axis));
            contract(eg, k, left, right)
        }
        _ => {
            let left = rename(eg, &[NO_AXIS, 0], left);
            product(eg, &[(2, left), (2, right)])
        }
    };
    Some(sum(eg, &[(idle, value)]))
}
