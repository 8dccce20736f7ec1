//! Rules of sums along axes.

use egg::Id;

use super::{CROWD, guarded, guarded_quotient, scaled_products, scaled_sums};
use crate::egraph::facts::Terms;
use crate::egraph::language::{Coefficient, Term};
use crate::egraph::normal::{constant_along, product, reduce, strip, sum};
use crate::ir::Combine;

/// The sum of a sum is the sum of the sums; a factor that is constant along the axes comes
/// out; sums along several axes become one.
pub(super) fn linear(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Reduce(combine, span, [child]) = term else {
        return Vec::new();
    };
    let child = eg.find(*child);
    let mut result = Vec::new();
    if span
        .iter()
        .any(|(axis, _)| !eg[child].data.extents.varies(usize::from(*axis)))
    {
        result.push(reduce(eg, *combine, span, child));
    }
    let whole = guarded(eg, child);
    for node in eg[child].nodes.clone() {
        match node {
            Term::Sum(c, t) if *combine == Combine::Sum => {
                if whole && !sums_to_nothing(eg, span, &c, &t) {
                    continue;
                }
                let mut terms = Vec::new();
                for (c, t) in c.iter().zip(t.iter()) {
                    terms.push((c.value(), reduce(eg, Combine::Sum, span, *t)));
                }
                result.push(sum(eg, &terms));
            }
            Term::Product(halves, t) if *combine == Combine::Sum => {
                let factors = halves.iter().copied().zip(t.iter().map(|t| eg.find(*t)));
                let (outside, inside): (Vec<_>, Vec<_>) =
                    factors.partition(|factor| constant_along(eg, span, factor.1));
                if outside.is_empty() || inside.is_empty() || guarded_quotient(eg, &outside) {
                    continue;
                }
                let inner = product(eg, &inside);
                let inner = reduce(eg, Combine::Sum, span, inner);
                let mut factors = outside;
                factors.push((2, inner));
                result.push(product(eg, &factors));
            }
            Term::Reduce(inner, more, [of]) if inner == *combine && eg.find(of) != class => {
                let mut all: Vec<(u8, u32)> = span.iter().chain(more.iter()).copied().collect();
                all.sort_unstable();
                all.dedup_by_key(|axis| axis.0);
                result.push(reduce(eg, *combine, &all, of));
            }
            _ => {}
        }
    }
    result
}

/// Σᵢⱼ wⱼ·zᵢⱼ = Σⱼ wⱼ·(Σᵢ zᵢⱼ): along several axes, first along one that some factors are
/// constant along.
pub(super) fn in_turn(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Reduce(Combine::Sum, span, [child]) = term else {
        return Vec::new();
    };
    if span.len() < 2 || eg[class].nodes.len() > CROWD {
        return Vec::new();
    }
    let mut result = Vec::new();
    for (scale, factors) in scaled_products(eg, *child, 3) {
        for (index, axis) in span.iter().enumerate() {
            let (outside, inside): (Vec<_>, Vec<_>) = factors
                .iter()
                .partition(|factor| constant_along(eg, &[*axis], factor.1));
            if outside.is_empty() || inside.is_empty() || guarded_quotient(eg, &outside) {
                continue;
            }
            let mut rest = span.to_vec();
            rest.remove(index);
            let inner = product(eg, &inside);
            let inner = reduce(eg, Combine::Sum, &[*axis], inner);
            let mut all = outside;
            all.push((2, inner));
            let outer = product(eg, &all);
            let outer = reduce(eg, Combine::Sum, &rest, outer);
            result.push(sum(eg, &[(scale, outer)]));
        }
    }
    result
}

/// Whether a centred sum along the axes it is centred along cancels: in a row, which kernels
/// centre to the last digit. Along other axes what is left of a rounded mean counts.
fn sums_to_nothing(
    eg: &mut Terms,
    span: &[(u8, u32)],
    coefficients: &[Coefficient],
    terms: &[Id],
) -> bool {
    if !matches!(span, [(0, _)]) {
        return false;
    }
    let mut sums = Vec::new();
    for (c, t) in coefficients.iter().zip(terms) {
        if super::is_reduction(eg, *t, Combine::Maximum) {
            return false;
        }
        sums.push((c.value(), reduce(eg, Combine::Sum, span, *t)));
    }
    let total = sum(eg, &sums);
    strip(eg, total).0 == 0.0
}

/// A product that is summed along axes, with a sum as one of its factors, multiplied out:
/// then each part may be summed on its own.
pub(super) fn distribute(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Product(halves, children) = term else {
        return Vec::new();
    };
    if eg[class].nodes.len() > CROWD || !is_summed(eg, class) {
        return Vec::new();
    }
    let factors: Vec<(i16, Id)> = halves
        .iter()
        .copied()
        .zip(children.iter().map(|child| eg.find(*child)))
        .collect();
    let mut result = Vec::new();
    for (index, &(half, factor)) in factors.iter().enumerate() {
        if half != 2 || guarded(eg, factor) {
            continue;
        }
        for parts in scaled_sums(eg, factor, 2) {
            if parts.len() > 4 {
                continue;
            }
            let mut terms = Vec::new();
            for (c, part) in parts {
                let mut all = factors.clone();
                all[index] = (2, part);
                terms.push((c, product(eg, &all)));
            }
            result.push(sum(eg, &terms));
        }
    }
    result
}

/// Whether a class, or a multiple of it, is summed along axes somewhere.
fn is_summed(eg: &Terms, class: Id) -> bool {
    let class = eg.find(class);
    let sums = |user: Id, of: Id| {
        eg[user].nodes.iter().any(
            |node| matches!(node, Term::Reduce(Combine::Sum, _, [child]) if eg.find(*child) == of),
        )
    };
    let mut users: Vec<Id> = eg[class].parents().map(|user| eg.find(user)).collect();
    users.sort_unstable();
    users.dedup();
    users.iter().any(|&user| {
        sums(user, class)
            || eg[user].nodes.iter().any(
                |node| matches!(node, Term::Sum(_, t) if t.len() == 1 && eg.find(t[0]) == class),
            ) && eg[user].parents().any(|next| sums(eg.find(next), user))
    })
}
