//! The rules. Each looks at one node of a class and gives classes equal to it.
//!
//! The normal forms of [`super::normal`] know commutativity, associativity and constants;
//! what is left are laws that choose between forms. Whatever a rule gives must be equal over
//! the reals, be NaN or infinite in the same places, and compute with numbers no larger than
//! what it replaces: differences from a mean or a maximum are never taken apart, squares
//! never expanded.

mod choice;
mod contraction;
mod movement;
mod products;
mod reductions;
mod siblings;
mod sums;
#[cfg(test)]
mod tests;

use egg::Id;

use super::facts::Terms;
use super::language::{Kind, Term};
use crate::ir::Combine;

/// A rewrite as data.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    /// Its name in reports.
    pub name: &'static str,
    /// The kind of node it looks at.
    pub kind: Kind,
    /// Classes equal to the class of a node.
    pub find: fn(&mut Terms, Id, &Term) -> Vec<Id>,
}

const fn rule(name: &'static str, kind: Kind, find: fn(&mut Terms, Id, &Term) -> Vec<Id>) -> Rule {
    Rule { name, kind, find }
}

/// Once a class holds this many nodes, rules that only offer alternatives leave it alone.
pub(super) const CROWD: usize = 24;

/// Brings terms to fewer and simpler ones.
pub(super) const SIMPLIFY: &[Rule] = &[
    rule("merge sums", Kind::Sum, sums::merge),
    rule("merge products", Kind::Product, products::merge),
    rule("reduce linearly", Kind::Reduce, reductions::linear),
    rule("reduce in turn", Kind::Reduce, reductions::in_turn),
    rule("distribute", Kind::Product, reductions::distribute),
    rule("fold numbers", Kind::Apply, choice::fold_numbers),
    rule("choose", Kind::Apply, choice::choose),
    rule("pick one", Kind::Reduce, choice::pick_one),
    rule("log of exp", Kind::Apply, products::log_of_exp),
    rule("compose views", Kind::Rename, movement::compose_renames),
    rule("compose reshapes", Kind::Apply, movement::compose_reshapes),
    rule("reduce renamed", Kind::Reduce, movement::reduce_renamed),
];

/// Matrix products: order, scale, and what can be summed before.
pub(super) const CONTRACT: &[Rule] = &[
    rule("reassociate", Kind::Contract, contraction::reassociate),
    rule("scale outside", Kind::Contract, contraction::scale_outside),
    rule("scale inside", Kind::Product, contraction::scale_inside),
    rule("multiple inside", Kind::Sum, contraction::multiple_inside),
    rule("reduce before", Kind::Reduce, contraction::reduce_before),
    rule(
        "transpose before",
        Kind::Rename,
        contraction::transpose_before,
    ),
    rule("reshape around", Kind::Apply, contraction::reshape_around),
    rule(
        "constant operand",
        Kind::Contract,
        contraction::constant_operand,
    ),
    rule("common operand", Kind::Sum, contraction::common_operand),
    rule(
        "sum before merging",
        Kind::Contract,
        contraction::sum_before_merging,
    ),
];

/// Products with matrices that lie side by side.
pub(super) const SIBLINGS: &[Rule] = &[
    rule("product of all", Kind::Contract, siblings::product_of_all),
    rule("sum of columns", Kind::Sum, siblings::sum_of_columns),
    rule(
        "reshape of columns",
        Kind::Apply,
        siblings::reshape_of_columns,
    ),
    rule("sum of siblings", Kind::Sum, siblings::sum_of_siblings),
];

/// Takes common factors out of sums.
pub(super) const FACTOR: &[Rule] = &[
    rule("merge sums", Kind::Sum, sums::merge),
    rule("merge products", Kind::Product, products::merge),
    rule("reduce linearly", Kind::Reduce, reductions::linear),
    rule("factor", Kind::Sum, sums::factor),
];

/// Offers parts that other terms already compute.
pub(super) const SHARE: &[Rule] = &[
    rule("reuse", Kind::Product, products::reuse),
    rule("fold coefficient", Kind::Sum, sums::fold_coefficient),
];

/// Every rule once.
pub(super) fn all() -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in [SIMPLIFY, CONTRACT, SIBLINGS, FACTOR, SHARE].concat() {
        if rules.iter().all(|known| known.name != rule.name) {
            rules.push(rule);
        }
    }
    rules
}

/// Terms of a sum.
type Terms1 = Vec<(f64, Id)>;
/// Factors of a product.
type Factors = Vec<(i16, Id)>;

/// The sums of at least two terms in a class.
fn sums_of(eg: &Terms, class: Id, most: usize) -> Vec<Terms1> {
    eg[class]
        .nodes
        .iter()
        .filter_map(|node| match node {
            Term::Sum(c, t) if t.len() > 1 => {
                Some(c.iter().map(|c| c.value()).zip(found(eg, t)).collect())
            }
            _ => None,
        })
        .take(most)
        .collect()
}

/// The products in a class.
fn products_of(eg: &Terms, class: Id, most: usize) -> Vec<Factors> {
    eg[class]
        .nodes
        .iter()
        .filter_map(|node| match node {
            Term::Product(halves, t) => Some(halves.iter().copied().zip(found(eg, t)).collect()),
            _ => None,
        })
        .take(most)
        .collect()
}

fn found<'a>(eg: &'a Terms, ids: &'a [Id]) -> impl Iterator<Item = Id> + 'a {
    ids.iter().map(|id| eg.find(*id))
}

/// A class and the classes it is a multiple of.
fn multiples(eg: &Terms, class: Id) -> Vec<(f64, Id)> {
    let mut result = vec![(1.0, eg.find(class))];
    let steps = eg[class].nodes.iter().filter_map(|node| match node {
        Term::Sum(c, t) if t.len() == 1 && eg.find(t[0]) != eg.find(class) => {
            Some((c[0].value(), eg.find(t[0])))
        }
        _ => None,
    });
    result.extend(steps.filter(|step| step.0 != 0.0).take(4));
    result
}

/// The sums equal to a class, also through a multiple.
fn scaled_sums(eg: &Terms, class: Id, most: usize) -> Vec<Terms1> {
    let mut result: Vec<Terms1> = Vec::new();
    for (scale, base) in multiples(eg, class) {
        for mut sum in sums_of(eg, base, most) {
            for term in &mut sum {
                term.0 *= scale;
            }
            result.push(sum);
        }
    }
    result.truncate(most);
    result
}

/// The products equal to a class, also through a multiple, as scale and factors.
fn scaled_products(eg: &Terms, class: Id, most: usize) -> Vec<(f64, Factors)> {
    let mut result = Vec::new();
    for (scale, base) in multiples(eg, class) {
        for product in products_of(eg, base, most) {
            if product.iter().all(|f| eg[f.1].data.constant.is_none()) {
                result.push((scale, product));
            }
        }
    }
    result.truncate(most);
    result
}

/// Whether a class holds a reduction of this kind.
fn is_reduction(eg: &Terms, class: Id, wanted: Combine) -> bool {
    eg[class]
        .nodes
        .iter()
        .any(|node| matches!(node, Term::Reduce(combine, ..) if *combine == wanted))
}

/// A difference that was formed for the sake of stability: x less its mean or its maximum.
/// It is never taken apart.
fn guarded(eg: &Terms, class: Id) -> bool {
    multiples(eg, class)
        .into_iter()
        .any(|(_, base)| guarded_base(eg, base))
}

fn guarded_base(eg: &Terms, class: Id) -> bool {
    sums_of(eg, class, 6).iter().any(|sum| {
        let largest = |term: &(f64, Id)| is_reduction(eg, term.1, Combine::Maximum);
        sum.len() == 2 && (sum.iter().any(largest) || is_centred(eg, sum))
    })
}

/// x − k·Σx, where k is about one over the number of elements.
fn is_centred(eg: &Terms, sum: &[(f64, Id)]) -> bool {
    let mean_of = |mean: (f64, Id), x: (f64, Id)| {
        eg[mean.1].nodes.iter().any(|node| match node {
            Term::Reduce(Combine::Sum, span, [child]) => {
                let count: f64 = span.iter().map(|(_, extent)| f64::from(*extent)).product();
                let child = eg.find(*child);
                // The mean may be that of a multiple of x.
                multiples(eg, child).into_iter().any(|(scale, base)| {
                    base == x.1 && (scale * mean.0 * count + x.0).abs() < 1e-9 * x.0.abs()
                })
            }
            _ => false,
        })
    };
    mean_of(sum[0], sum[1]) || mean_of(sum[1], sum[0])
}

/// A quotient by a maximum, formed so that nothing overflows.
fn guarded_quotient(eg: &Terms, factors: &[(i16, Id)]) -> bool {
    factors
        .iter()
        .any(|&(half, base)| half < 0 && is_reduction(eg, base, Combine::Maximum))
}
