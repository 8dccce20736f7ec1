//! Rules of views.

use egg::Id;

use crate::egraph::encode::view;
use crate::egraph::facts::Terms;
use crate::egraph::language::{Extents, NO_AXIS, Term};
use crate::egraph::normal::{compose, reduce, rename, sum};

/// A renaming of a renaming is one, or none.
pub(super) fn compose_renames(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Rename(sources, [child]) = term else {
        return Vec::new();
    };
    let mut result = vec![rename(eg, sources, *child)];
    for node in eg[*child].nodes.clone() {
        match node {
            Term::Rename(inner, [of]) if eg.find(of) != eg.find(class) => {
                result.push(rename(eg, &compose(sources, &inner), of));
            }
            Term::Sum(c, t) if t.len() == 1 => {
                let moved = rename(eg, sources, t[0]);
                result.push(sum(eg, &[(c[0].value(), moved)]));
            }
            _ => {}
        }
    }
    result
}

/// A reshape of a reshape is one; back to where it came from, none.
pub(super) fn compose_reshapes(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Apply(op, children) = term else {
        return Vec::new();
    };
    let outer = eg.analysis.ops[*op as usize].clone();
    if !outer.reshape {
        return Vec::new();
    }
    let mut result = Vec::new();
    for node in eg[children[0]].nodes.clone() {
        match node {
            Term::Apply(inner, of) => {
                let inner = eg.analysis.ops[inner as usize].clone();
                if !inner.reshape {
                    continue;
                }
                let (from, to) = (&inner.operands[0], &outer.result);
                result.push(if Extents::of(&from.shape) == Extents::of(&to.shape) {
                    of[0]
                } else {
                    view(eg, &outer.op, of[0], from, to, true)
                });
            }
            Term::Sum(c, t) if t.len() == 1 => {
                let inner = eg.add(Term::Apply(*op, [t[0]].into()));
                result.push(sum(eg, &[(c[0].value(), inner)]));
            }
            _ => {}
        }
    }
    result
}

/// A reduction of a renamed term runs over the axes the term really has.
pub(super) fn reduce_renamed(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Reduce(combine, span, [child]) = term else {
        return Vec::new();
    };
    let mut result = Vec::new();
    for node in eg[*child].nodes.clone() {
        let Term::Rename(sources, [of]) = node else {
            continue;
        };
        let source = |axis: u8| sources.get(usize::from(axis)).copied().unwrap_or(NO_AXIS);
        if span.iter().any(|(axis, _)| source(*axis) == NO_AXIS) {
            continue;
        }
        let mut inner: Vec<(u8, u32)> = span.iter().map(|&(axis, n)| (source(axis), n)).collect();
        inner.sort_unstable();
        let mut left = sources.to_vec();
        for (axis, _) in span {
            left[usize::from(*axis)] = NO_AXIS;
        }
        let reduced = reduce(eg, *combine, &inner, of);
        result.push(rename(eg, &left, reduced));
    }
    result
}
