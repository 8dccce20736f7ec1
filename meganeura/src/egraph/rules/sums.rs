//! Rules of sums.

use std::collections::BTreeMap;

use egg::Id;

use super::{CROWD, Factors, guarded, scaled_products, scaled_sums};
use crate::egraph::facts::Terms;
use crate::egraph::language::Term;
use crate::egraph::normal::{number, product, raw_product, raw_sum, sum};

fn terms_of(term: &Term, eg: &Terms) -> Vec<(f64, Id)> {
    match term {
        Term::Sum(c, t) => c
            .iter()
            .zip(t.iter())
            .map(|(c, t)| (c.value(), eg.find(*t)))
            .collect(),
        _ => Vec::new(),
    }
}

/// Sums in sums become one; what merging classes made equal is collected. A guarded
/// difference stays one term.
pub(super) fn merge(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let terms = terms_of(term, eg);
    if let [(scale, base)] = terms[..] {
        // The inverse, when the multiple is the older of both.
        if base > class && scale != 0.0 {
            let inverse = raw_sum(eg, [(1.0 / scale, class)]);
            eg.union(base, inverse);
        }
    }
    let mut result = vec![sum(eg, &terms)];
    if eg[class].nodes.len() > CROWD {
        return result;
    }
    for (index, &(scale, inner)) in terms.iter().enumerate() {
        if scale == 0.0 || guarded(eg, inner) {
            continue;
        }
        for parts in scaled_sums(eg, inner, 2) {
            let cyclic = parts.iter().any(|part| part.1 == eg.find(class));
            if cyclic || parts.len() + terms.len() > 7 {
                continue;
            }
            let mut all = terms.clone();
            all.remove(index);
            all.extend(parts.into_iter().map(|(c, t)| (c * scale, t)));
            result.push(sum(eg, &all));
        }
    }
    result
}

/// A factor, the side of the fraction line it is on, and the terms that have it (which term,
/// which way to write it, which power).
type Occurrences = BTreeMap<(Id, bool), Vec<(usize, usize, i16)>>;

/// a·x + a·y + z = a·(x + y) + z, for every largest set of terms that share factors.
pub(super) fn factor(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let terms = terms_of(term, eg);
    if terms.len() < 2 || terms.len() > 6 || eg[class].nodes.len() > CROWD {
        return Vec::new();
    }
    let ways: Vec<Vec<(f64, Factors)>> = terms
        .iter()
        .map(|&(scale, term)| {
            if scale == 0.0 {
                return Vec::new();
            }
            let mut ways = scaled_products(eg, term, 4);
            ways.push((1.0, vec![(2, term)]));
            ways
        })
        .collect();
    let mut occurrences: Occurrences = BTreeMap::new();
    for (index, ways) in ways.iter().enumerate() {
        for (way, (_, factors)) in ways.iter().enumerate() {
            for &(half, base) in factors {
                if eg[base].data.constant.is_some() || base == eg.find(class) {
                    continue;
                }
                let seen = occurrences.entry((base, half < 0)).or_default();
                if seen.last().map(|last| last.0) != Some(index) {
                    seen.push((index, way, half));
                }
            }
        }
    }
    // Factors of the same terms come out together.
    let mut groups: BTreeMap<Vec<(usize, usize)>, Factors> = BTreeMap::new();
    for ((base, below), seen) in occurrences {
        if seen.len() < 2 {
            continue;
        }
        let halves = seen.iter().map(|seen| seen.2);
        let common = if below { halves.max() } else { halves.min() };
        // √x taken out of x would need x ≥ 0.
        let roots = seen.iter().any(|seen| seen.2 % 2 != 0);
        if let Some(half) = common
            && (!roots || eg[base].data.nonnegative() || seen.windows(2).all(|w| w[0].2 == w[1].2))
        {
            let terms = seen.iter().map(|seen| (seen.0, seen.1)).collect();
            groups.entry(terms).or_default().push((half, base));
        }
    }
    let mut result = Vec::new();
    for (members, common) in groups.into_iter().take(6) {
        let mut rest: Vec<(f64, Id)> = (0..terms.len())
            .filter(|index| members.iter().all(|member| member.0 != *index))
            .map(|index| terms[index])
            .collect();
        let mut inner = Vec::new();
        for &(index, way) in &members {
            let (scale, factors) = &ways[index][way];
            let left = divided(factors, &common);
            inner.push((terms[index].0 * scale, product(eg, &left)));
        }
        let inner = sum(eg, &inner);
        let mut factors = common;
        factors.push((2, inner));
        rest.push((1.0, product(eg, &factors)));
        result.push(sum(eg, &rest));
    }
    result
}

/// What is left of factors when others are taken out.
pub(super) fn divided(factors: &[(i16, Id)], taken: &[(i16, Id)]) -> Factors {
    let mut left = factors.to_vec();
    for &(half, base) in taken {
        if let Some(slot) = left
            .iter_mut()
            .find(|slot| slot.1 == base && slot.0.signum() == half.signum())
        {
            slot.0 -= half;
        }
    }
    left.retain(|slot| slot.0 != 0);
    left
}

/// A coefficient goes into a factor that varies over less than the whole term.
pub(super) fn fold_coefficient(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let terms = terms_of(term, eg);
    if let [(scale, base)] = terms[..] {
        if scale == 0.0 {
            return Vec::new();
        }
        let whole = eg[base].data.extents;
        let mut result = Vec::new();
        for (inner, mut factors) in scaled_products(eg, base, 6) {
            let coefficient = inner * scale;
            let smaller = |factor: &(i16, Id)| eg[factor.1].data.extents != whole;
            if coefficient != 1.0 && factors.iter().any(smaller) {
                factors.push((2, number(eg, coefficient)));
                result.push(raw_product(eg, factors));
            }
        }
        return result;
    }
    let folds = |&(scale, term): &(f64, Id)| {
        let whole = eg[term].data.extents;
        scale != 1.0
            && scale != 0.0
            && scaled_products(eg, term, 6)
                .iter()
                .any(|(_, factors)| factors.iter().any(|f| eg[f.1].data.extents != whole))
    };
    let folded: Vec<bool> = terms.iter().map(folds).collect();
    if !folded.contains(&true) {
        return Vec::new();
    }
    let parts: Vec<(f64, Id)> = terms
        .iter()
        .zip(folded)
        .map(|(&(scale, term), fold)| {
            if fold {
                (1.0, sum(eg, &[(scale, term)]))
            } else {
                (scale, term)
            }
        })
        .collect();
    vec![raw_sum(eg, parts)]
}
