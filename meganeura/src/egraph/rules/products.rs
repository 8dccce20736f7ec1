//! Rules of products.

use std::collections::BTreeMap;

use egg::Id;

use super::sums::divided;
use super::{CROWD, Factors, guarded_quotient, products_of, scaled_products};
use crate::egraph::facts::Terms;
use crate::egraph::language::Term;
use crate::egraph::normal::{product, raw_product, sum};
use crate::ir::ScalarOp;

fn factors_of(term: &Term, eg: &Terms) -> Factors {
    match term {
        Term::Product(halves, t) => halves
            .iter()
            .zip(t.iter())
            .map(|(half, t)| (*half, eg.find(*t)))
            .collect(),
        _ => Vec::new(),
    }
}

/// Products in products become one. A power stays one factor, and so does a quotient whose
/// parts might overflow.
pub(super) fn merge(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let factors = factors_of(term, eg);
    let mut result = vec![product(eg, &factors)];
    if eg[class].nodes.len() > CROWD {
        return result;
    }
    for (index, &(half, inner)) in factors.iter().enumerate() {
        if half != 2 {
            continue;
        }
        for (scale, parts) in scaled_products(eg, inner, 3) {
            let cyclic = |part: &(i16, Id)| part.1 == eg.find(class) || part.1 == inner;
            let quotient = guarded_quotient(eg, &parts) || deepens(eg, &factors, &parts);
            if parts.len() + factors.len() > 8 || quotient || parts.iter().any(cyclic) {
                continue;
            }
            let mut all = factors.clone();
            all.remove(index);
            all.extend(parts);
            let merged = product(eg, &all);
            result.push(sum(eg, &[(scale, merged)]));
        }
    }
    result
}

/// Whether merging would divide twice by something that may be tiny: (x/d)·(y/d) is safe
/// where x·y/d² overflows.
fn deepens(eg: &Terms, factors: &[(i16, Id)], parts: &[(i16, Id)]) -> bool {
    parts.iter().any(|&(half, base)| {
        half < 0
            && eg[base].data.low < 1e-12
            && factors
                .iter()
                .any(|&(other, factor)| other < 0 && factor == base)
    })
}

/// Offer a product as g · rest, where g is what it shares with another product: computed
/// once, it may serve both.
pub(super) fn reuse(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let factors = factors_of(term, eg);
    let plain = factors.len() < 3 && factors.iter().all(|factor| factor.0 == 2);
    let full = |eg: &Terms, id: Id| eg[id].data.extents.varies(0);
    if plain || eg[class].nodes.len() > CROWD || !full(eg, class) {
        return Vec::new();
    }
    let class = eg.find(class);
    let mut others: Vec<Id> = factors
        .iter()
        .flat_map(|factor| eg[factor.1].parents().collect::<Vec<Id>>())
        .map(|user| eg.find(user))
        .filter(|&user| user != class && full(eg, user))
        .collect();
    others.sort_unstable();
    others.dedup();
    let mut shared: BTreeMap<Factors, usize> = BTreeMap::new();
    for other in others {
        for product in products_of(eg, other, 3) {
            let common = common(&factors, &product);
            let useful = common.len() > 1 || common.iter().any(|factor| factor.0 != 2);
            if useful && common != factors && common.iter().any(|factor| full(eg, factor.1)) {
                *shared.entry(common).or_default() += 1;
            }
        }
    }
    let mut shared: Vec<(Factors, usize)> = shared.into_iter().collect();
    shared.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let mut result = Vec::new();
    for (common, _) in shared.into_iter().take(6) {
        let mut rest = divided(&factors, &common);
        let whole = raw_product(eg, common);
        rest.push((2, whole));
        result.push(raw_product(eg, rest));
    }
    result
}

/// The factors two products share.
fn common(a: &[(i16, Id)], b: &[(i16, Id)]) -> Factors {
    let mut result: Factors = a
        .iter()
        .filter_map(|&(half, base)| {
            let other = b
                .iter()
                .find(|other| other.1 == base && (other.0 < 0) == (half < 0))?
                .0;
            let shared = if half < 0 {
                half.max(other)
            } else {
                half.min(other)
            };
            // A root is shared whole or not at all.
            let whole = half == other || (half % 2 == 0 && other % 2 == 0);
            whole.then_some((shared, base))
        })
        .collect();
    result.sort_by_key(|factor| factor.1);
    result
}

/// ln(eᶻ/s) = z − ln s: finite where eᶻ underflows.
pub(super) fn log_of_exp(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Apply(op, children) = term else {
        return Vec::new();
    };
    if eg.analysis.scalar(*op) != Some(ScalarOp::Log) {
        return Vec::new();
    }
    let (op, inside) = (*op, children[0]);
    let mut result = Vec::new();
    let mut ways = scaled_products(eg, inside, 4);
    ways.push((1.0, vec![(2, inside)]));
    for (scale, factors) in ways {
        let positive = |factor: &(i16, Id)| eg[factor.1].data.positive();
        if scale != 1.0 || !factors.iter().all(positive) {
            continue;
        }
        let exponents: Vec<Option<Id>> = factors
            .iter()
            .map(|&(half, base)| exponent(eg, base).filter(|_| half > 0))
            .collect();
        if exponents.iter().all(Option::is_none) {
            continue;
        }
        let mut terms = Vec::new();
        for (&(half, base), exponent) in factors.iter().zip(exponents) {
            let logarithm = match exponent {
                Some(exponent) => exponent,
                None => eg.add(Term::Apply(op, [base].into())),
            };
            terms.push((f64::from(half) / 2.0, logarithm));
        }
        result.push(sum(eg, &terms));
    }
    result
}

/// z, if the class is eᶻ.
fn exponent(eg: &Terms, class: Id) -> Option<Id> {
    eg[class].nodes.iter().find_map(|node| match node {
        Term::Apply(op, x) if eg.analysis.scalar(*op) == Some(ScalarOp::Exp) => Some(eg.find(x[0])),
        _ => None,
    })
}
