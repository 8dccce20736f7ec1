//! The normal forms: sums and products are sorted, merged and folded as they are made, so
//! that the order and the grouping of operands need no rules.
//!
//! Nothing here hides a NaN or an infinity. What cancels leaves a coefficient of 0 behind,
//! `0·x`, which is dropped only where x is known to be finite or where another term is not
//! finite whenever x is not (it *covers* x).

use std::collections::BTreeMap;

use egg::Id;

use super::facts::Terms;
use super::language::{Coefficient, Extents, NO_AXIS, Span, Term};
use crate::ir::Combine;

/// A number.
pub(super) fn number(eg: &mut Terms, value: f64) -> Id {
    let id = eg.add(Term::Constant(Coefficient::new(value)));
    eg.find(id)
}

/// A class as scale · base; no base for a number. Steps to older classes only, so that it
/// ends although equal classes may each be a multiple of the other.
pub(super) fn strip(eg: &Terms, id: Id) -> (f64, Option<Id>) {
    let (mut id, mut scale) = (eg.find(id), 1.0);
    loop {
        if let Some(value) = eg[id].data.constant {
            return (scale * value.value(), None);
        }
        let step = eg[id]
            .nodes
            .iter()
            .filter_map(|node| match node {
                Term::Sum(c, t) if t.len() == 1 && eg.find(t[0]) < id => {
                    Some((eg.find(t[0]), c[0].value()))
                }
                _ => None,
            })
            .min_by_key(|step| step.0);
        match step {
            Some((base, factor)) => {
                scale *= factor;
                id = base;
            }
            None => return (scale, Some(id)),
        }
    }
}

/// Σ coefficient · term.
pub(super) fn sum(eg: &mut Terms, terms: &[(f64, Id)]) -> Id {
    let mut number_part = (0.0, 0.0f64);
    let mut merged: BTreeMap<Id, (f64, f64)> = BTreeMap::new();
    for &(coefficient, term) in terms {
        let (scale, base) = strip(eg, term);
        let value = coefficient * scale;
        let slot = match base {
            None => &mut number_part,
            Some(base) => merged.entry(base).or_default(),
        };
        slot.0 += value;
        slot.1 = slot.1.max(value.abs());
    }
    let settle = |(total, size): (f64, f64)| {
        if total.abs() <= 1e-12 * size {
            0.0
        } else {
            total
        }
    };
    let mut parts: Vec<(f64, Id)> = merged
        .into_iter()
        .map(|(base, slot)| (settle(slot), base))
        .collect();
    drop_zeros(eg, &mut parts);
    let constant = settle(number_part);
    if parts.is_empty() {
        return number(eg, constant);
    }
    if constant != 0.0 {
        let one = number(eg, 1.0);
        parts.push((constant, one));
        parts.sort_by_key(|part| part.1);
    }
    if let [(1.0, base)] = parts[..] {
        return base;
    }
    scaled_sum(eg, &parts)
}

/// A sum of settled parts; equal sums up to scale share a class, whose leading coefficient
/// is 1.
fn scaled_sum(eg: &mut Terms, parts: &[(f64, Id)]) -> Id {
    let add = |eg: &mut Terms, scale: f64| raw_sum(eg, parts.iter().map(|p| (p.0 / scale, p.1)));
    let direct = add(eg, 1.0);
    let lead = parts.iter().map(|part| part.0).find(|c| *c != 0.0);
    match lead {
        Some(lead) if parts.len() > 1 && lead != 1.0 => {
            let base = add(eg, lead);
            let scaled = raw_sum(eg, [(lead, base)]);
            eg.union(direct, scaled);
            eg.find(direct)
        }
        _ => direct,
    }
}

/// A sum exactly as given.
pub(super) fn raw_sum(eg: &mut Terms, parts: impl IntoIterator<Item = (f64, Id)>) -> Id {
    let (coefficients, children): (Vec<_>, Vec<_>) = parts
        .into_iter()
        .map(|(c, id)| (Coefficient::new(c), id))
        .unzip();
    eg.add(Term::Sum(coefficients.into(), children.into()))
}

/// Drop the terms 0·x that carry nothing that another term does not.
fn drop_zeros(eg: &Terms, parts: &mut Vec<(f64, Id)>) {
    let mut index = 0;
    while index < parts.len() {
        let (coefficient, base) = parts[index];
        let idle = coefficient == 0.0
            && (eg[base].data.finite
                || parts
                    .iter()
                    .enumerate()
                    .any(|(other, part)| other != index && covers(eg, part.1, base, 6)));
        if idle {
            parts.remove(index);
        } else {
            index += 1;
        }
    }
}

/// Whether `term` is NaN or infinite wherever `x` is.
pub(super) fn covers(eg: &Terms, term: Id, x: Id, fuel: u32) -> bool {
    let (term, x) = (eg.find(term), eg.find(x));
    if term == x || eg[x].data.finite {
        return true;
    }
    if fuel == 0 {
        return false;
    }
    covered_by_parts(eg, term, x, fuel - 1) || contains_cover(eg, term, x, fuel - 1)
}

/// `x` can only be NaN or infinite where a part of it is, and `term` covers every part.
fn covered_by_parts(eg: &Terms, term: Id, x: Id, fuel: u32) -> bool {
    eg[x].nodes.iter().take(4).any(|node| match node {
        Term::Sum(_, parts) => parts.iter().all(|&part| covers(eg, term, part, fuel)),
        Term::Product(halves, parts) => halves.iter().zip(parts).all(|(&half, &part)| {
            let safe = half > 0 && (half % 2 == 0 || eg[part].data.nonnegative());
            (safe || eg[part].data.positive()) && covers(eg, term, part, fuel)
        }),
        _ => false,
    })
}

/// `term` is NaN or infinite wherever a part of it is, and one covers `x`.
fn contains_cover(eg: &Terms, term: Id, x: Id, fuel: u32) -> bool {
    eg[term].nodes.iter().take(4).any(|node| match node {
        Term::Sum(_, parts) => parts.iter().any(|&part| covers(eg, part, x, fuel)),
        Term::Product(halves, parts) => halves
            .iter()
            .zip(parts)
            .any(|(&half, &part)| half > 0 && covers(eg, part, x, fuel)),
        Term::Reduce(Combine::Sum, span, [inner]) => {
            let constant = span
                .iter()
                .all(|(axis, _)| !eg[x].data.extents.varies(usize::from(*axis)));
            constant && covers(eg, *inner, x, fuel)
                || eg[x].nodes.iter().take(4).any(|node| match node {
                    Term::Reduce(Combine::Sum, other, [y]) => {
                        other == span && covers(eg, *inner, *y, fuel)
                    }
                    _ => false,
                })
        }
        _ => false,
    })
}

/// The powers of one base on both sides of the fraction line, in halves.
#[derive(Clone, Copy, Default)]
struct Powers {
    above: i16,
    below: i16,
    odd_above: u8,
    odd_below: u8,
}

impl Powers {
    fn add(&mut self, half: i16) {
        let odd = u8::from(half % 2 != 0);
        if half > 0 {
            self.above = self.above.saturating_add(half);
            self.odd_above = self.odd_above.saturating_add(odd);
        } else {
            self.below = self.below.saturating_add(half);
            self.odd_below = self.odd_below.saturating_add(odd);
        }
    }
}

/// Π factor^(half / 2).
pub(super) fn product(eg: &mut Terms, factors: &[(i16, Id)]) -> Id {
    let mut coefficient = 1.0f64;
    let mut merged: BTreeMap<Id, Powers> = BTreeMap::new();
    for &(half, factor) in factors {
        let (scale, base) = scale_of(eg, half, factor);
        coefficient *= scale;
        let Some(base) = base else { continue };
        let (half, base) = root_of(eg, half, base);
        merged.entry(base).or_default().add(half);
    }
    let mut parts: Vec<(i16, Id)> = Vec::new();
    let mut vanished: Vec<Id> = Vec::new();
    for (base, powers) in merged {
        settle_powers(eg, base, powers, &mut parts, &mut vanished);
    }
    for base in vanished {
        let covered = |part: &(i16, Id)| part.0 > 0 && covers(eg, part.1, base, 6);
        if !parts.iter().any(covered) {
            let one = number(eg, 1.0);
            let carrier = raw_sum(eg, [(1.0, one), (0.0, base)]);
            parts.push((2, carrier));
        }
    }
    let value = raw_product(eg, parts);
    if coefficient == 1.0 {
        value
    } else {
        sum(eg, &[(coefficient, value)])
    }
}

/// A factor's power as scale · base^(half / 2), where the scale may leave the root.
fn scale_of(eg: &Terms, half: i16, factor: Id) -> (f64, Option<Id>) {
    let (scale, base) = strip(eg, factor);
    let power = |scale: f64| scale.powf(f64::from(half) / 2.0);
    let leaves = match scale {
        0.0 => half > 0 && (half % 2 == 0 || base.is_none()),
        _ => half % 2 == 0 || scale > 0.0,
    };
    let value = power(scale);
    if leaves && value.is_finite() {
        (value, base)
    } else {
        (1.0, Some(eg.find(factor)))
    }
}

/// A class that is itself a power of an older class, opened where that keeps the value.
fn root_of(eg: &Terms, half: i16, base: Id) -> (i16, Id) {
    let opened = eg[base].nodes.iter().find_map(|node| match node {
        Term::Product(inner, of) if of.len() == 1 && eg.find(of[0]) < base => {
            let (inner, of) = (inner[0], eg.find(of[0]));
            let real = half % 2 == 0 && inner % 2 == 0 || eg[of].data.nonnegative();
            let product = i32::from(half) * i32::from(inner);
            (real && product % 2 == 0 && product.abs() < 64).then_some(((product / 2) as i16, of))
        }
        _ => None,
    });
    opened.unwrap_or((half, base))
}

/// The factors that a base's powers leave; a base that cancels is noted as vanished.
fn settle_powers(
    eg: &mut Terms,
    base: Id,
    powers: Powers,
    parts: &mut Vec<(i16, Id)>,
    vanished: &mut Vec<Id>,
) {
    let (positive, finite, nonnegative) = {
        let known = &eg[base].data;
        (known.positive(), known.finite, known.nonnegative())
    };
    if positive && powers.above > 0 && powers.below < 0 {
        let net = powers.above + powers.below;
        if net > 0 || net < 0 && finite {
            parts.push((net, base));
            return;
        }
        if net == 0 {
            if !finite {
                vanished.push(base);
            }
            return;
        }
    }
    for (half, odd) in [
        (powers.below, powers.odd_below),
        (powers.above, powers.odd_above),
    ] {
        if half == 0 {
            continue;
        }
        if odd > 1 && !nonnegative {
            // √x·√x is x only for x ≥ 0: keep the root.
            let root = raw_product(eg, vec![(1, base)]);
            parts.push((half * 2, root));
        } else {
            parts.push((half, base));
        }
    }
}

/// A product exactly as given, but for its order.
pub(super) fn raw_product(eg: &mut Terms, mut parts: Vec<(i16, Id)>) -> Id {
    parts.sort_by_key(|&(half, id)| (id, half));
    match parts[..] {
        [] => number(eg, 1.0),
        [(2, base)] => base,
        _ => {
            let (halves, children): (Vec<i16>, Vec<Id>) = parts.into_iter().unzip();
            eg.add(Term::Product(halves.into(), children.into()))
        }
    }
}

/// A reduction over the axes of a span; along an axis that the term does not vary over, a
/// sum is a multiple and a maximum the term itself.
pub(super) fn reduce(eg: &mut Terms, combine: Combine, span: &[(u8, u32)], term: Id) -> Id {
    let extents = eg[term].data.extents;
    let (varying, idle): (Vec<_>, Vec<_>) = span
        .iter()
        .partition(|(axis, _)| extents.varies(usize::from(*axis)));
    let inner = if varying.is_empty() {
        eg.find(term)
    } else {
        let span: Span = varying.into();
        eg.add(Term::Reduce(combine, span, [term]))
    };
    match combine {
        Combine::Maximum => inner,
        Combine::Sum if idle.is_empty() => inner,
        Combine::Sum => {
            let count: f64 = idle.iter().map(|(_, extent)| f64::from(*extent)).product();
            sum(eg, &[(count, inner)])
        }
    }
}

/// The axes of a term elsewhere; nothing where all stay.
pub(super) fn rename(eg: &mut Terms, sources: &[u8], term: Id) -> Id {
    let term = eg.find(term);
    let extents = eg[term].data.extents;
    let mut sources: Vec<u8> = sources
        .iter()
        .map(|&source| match source {
            NO_AXIS => NO_AXIS,
            source if extents.varies(usize::from(source)) => source,
            _ => NO_AXIS,
        })
        .collect();
    while sources.last() == Some(&NO_AXIS) {
        sources.pop();
    }
    let stays = |(axis, &source): (usize, &u8)| source == NO_AXIS || usize::from(source) == axis;
    if sources.iter().enumerate().all(stays) {
        return term;
    }
    let inner = eg[term].nodes.iter().find_map(|node| match node {
        Term::Rename(inner, [child]) if eg.find(*child) < term => Some((inner.clone(), *child)),
        _ => None,
    });
    match inner {
        Some((inner, child)) => rename(eg, &compose(&sources, &inner), child),
        None => eg.add(Term::Rename(sources.into(), [term])),
    }
}

/// The renaming that applies `inner` first.
pub(super) fn compose(outer: &[u8], inner: &[u8]) -> Vec<u8> {
    let through = |&source: &u8| match source {
        NO_AXIS => NO_AXIS,
        source => inner.get(usize::from(source)).copied().unwrap_or(NO_AXIS),
    };
    outer.iter().map(through).collect()
}

/// A matrix product over `k`.
pub(super) fn contract(eg: &mut Terms, k: u32, left: Id, right: Id) -> Id {
    eg.add(Term::Contract(k, [left, right]))
}

/// Whether nothing is left of a reduction's span in a term: the term is constant along it.
pub(super) fn constant_along(eg: &Terms, span: &[(u8, u32)], term: Id) -> bool {
    span.iter()
        .all(|(axis, _)| !eg[term].data.extents.varies(usize::from(*axis)))
}

/// The extents of a term without the axes of a span.
pub(super) fn without(extents: Extents, span: &[(u8, u32)]) -> Extents {
    let mut result = extents;
    for &(axis, _) in span {
        result.set(usize::from(axis), 1);
    }
    result
}
