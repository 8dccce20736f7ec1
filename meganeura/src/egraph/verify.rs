//! The proof by trial: every term of a saturated e-graph is evaluated in double precision
//! and must equal all other terms of its class, NaNs and infinities included. So a wrong rule
//! shows even where no extraction would pick what it gives.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use egg::Id;
use rustc_hash::FxHashMap;

use super::cost::CostModel;
use super::encode::encode;
use super::facts::Terms;
use super::language::{Extents, NO_AXIS, Term};
use super::region::cut;
use super::report::Report;
use super::rules::{CONTRACT, FACTOR, SHARE, SIMPLIFY};
use super::saturate::run;
use crate::ir::{Array, Combine, Graph, NodeId, Shape, TensorType};
use crate::ops::evaluate;

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Terms evaluated.
    pub terms: usize,
    /// Classes they belong to.
    pub classes: usize,
}

/// Saturate every region of a graph (up to `limit` nodes each) and evaluate each term on the
/// values that the region's leaves have for each sample of inputs and variables. An error
/// tells of two terms of one class that differ.
pub fn verify(
    graph: &Graph,
    samples: &[HashMap<String, Array>],
    limit: usize,
) -> Result<Verified, String> {
    let samples: Vec<Vec<Array>> = samples
        .iter()
        .map(|leaves| evaluate(graph, leaves))
        .collect();
    let cut = cut(graph, &CostModel::default().depths(graph));
    let mut verified = Verified::default();
    for instance in &cut.instances {
        let (mut eg, _) = encode(&cut.regions[instance.region])?;
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut report = Report::default();
        for (rules, iterations) in [
            (&[SIMPLIFY, CONTRACT][..], 5),
            (&[FACTOR], 2),
            (&[SHARE], 2),
            (&[SIMPLIFY, CONTRACT], 2),
        ] {
            run(&mut eg, rules, iterations, limit, deadline, &mut report);
        }
        for values in &samples {
            let value = |leaf: &NodeId| values[leaf.index()].clone();
            let values: Vec<Array> = instance.leaves.iter().map(value).collect();
            let found = verify_terms(&eg, &values)?;
            verified.terms += found.terms;
            verified.classes += found.classes;
        }
    }
    Ok(verified)
}

pub(super) fn verify_terms(eg: &Terms, leaves: &[Array]) -> Result<Verified, String> {
    let mut classes: Vec<Id> = eg.classes().map(|class| class.id).collect();
    classes.sort_unstable();
    let mut known: FxHashMap<Id, (Array, Term)> = FxHashMap::default();
    let mut terms = 0;
    // Some well-founded value for each class first.
    loop {
        let before = known.len();
        for &class in &classes {
            if known.contains_key(&class) {
                continue;
            }
            for term in &eg[class].nodes {
                if let Some(value) = value(eg, term, leaves, &known) {
                    let value = narrowed(value, &eg[class].data.extents, eg, term)?;
                    known.insert(class, (value, term.clone()));
                    break;
                }
            }
        }
        if known.len() == before {
            break;
        }
    }
    for &class in &classes {
        let Some((wanted, by)) = known.get(&class).cloned() else {
            return Err(format!("class {class} has no value"));
        };
        for term in &eg[class].nodes {
            let Some(value) = value(eg, term, leaves, &known) else {
                return Err(format!("{term:?} of class {class} has no value"));
            };
            terms += 1;
            let value = narrowed(value, &eg[class].data.extents, eg, term)?;
            let bound = sizes(eg, term, &known);
            differ(&wanted, &value, bound).map_err(|what| {
                format!(
                    "class {class}: {by:?} and {term:?} differ: {what}\n{}",
                    context(eg, &[&by, term], &known)
                )
            })?;
        }
    }
    Ok(Verified {
        terms,
        classes: classes.len(),
    })
}

/// The operands of terms with their values, for the message.
fn context(eg: &Terms, terms: &[&Term], known: &FxHashMap<Id, (Array, Term)>) -> String {
    let mut text = String::new();
    for term in terms {
        for child in egg::Language::children(*term) {
            let child = eg.find(*child);
            let (value, by) = &known[&child];
            text += &format!("  {child}: {by:?} = {:?}\n", value.data);
        }
    }
    text
}

/// The largest finite operand: what rounding is relative to.
fn sizes(eg: &Terms, term: &Term, known: &FxHashMap<Id, (Array, Term)>) -> f64 {
    egg::Language::children(term)
        .iter()
        .flat_map(|child| known[&eg.find(*child)].0.data.clone())
        .filter(|x| x.is_finite())
        .fold(1.0, |size: f64, x| size.max(x.abs()))
}

fn differ(a: &Array, b: &Array, bound: f64) -> Result<(), String> {
    let size = a
        .data
        .iter()
        .filter(|x| x.is_finite())
        .fold(bound, |size: f64, x| size.max(x.abs()));
    for (&x, &y) in a.data.iter().zip(&b.data) {
        if x.is_finite() != y.is_finite() || x.is_finite() && (x - y).abs() > 1e-6 * size {
            return Err(format!("{x} and {y}"));
        }
    }
    Ok(())
}

fn repeated(array: &Array, shape: &Shape) -> Array {
    let own = array.shape.rank();
    let missing = shape.rank().saturating_sub(own);
    let leading = own.saturating_sub(shape.rank());
    Array::from_fn(shape, |index| {
        let mut full = vec![0; leading];
        full.extend(&index[missing..]);
        array.at(&full)
    })
}

/// A value without the axes its class is constant along, which it must be.
fn narrowed(value: Array, extents: &Extents, eg: &Terms, term: &Term) -> Result<Array, String> {
    let narrow = repeated_first(&value, &extents.shape());
    let wide = repeated(&narrow, &value.shape);
    let same = |(x, y): (&f64, &f64)| {
        !x.is_finite() && !y.is_finite() || (x - y).abs() <= 1e-9 * (1.0 + x.abs())
    };
    if wide.data.iter().zip(&value.data).all(same) {
        Ok(narrow)
    } else {
        Err(format!(
            "{term:?} varies more than its class: {extents:?} in {}",
            eg.total_number_of_nodes()
        ))
    }
}

/// The first element along each axis that the shape lacks.
fn repeated_first(value: &Array, shape: &Shape) -> Array {
    let (own, rank) = (value.shape.rank(), shape.rank());
    Array::from_fn(shape, |index| {
        let mut full = vec![0; own];
        for axis in 0..own.min(rank) {
            full[own - 1 - axis] = index[rank - 1 - axis];
        }
        value.at(&full)
    })
}

/// The value of a term from those of its operands, if they are known.
fn value(
    eg: &Terms,
    term: &Term,
    leaves: &[Array],
    known: &FxHashMap<Id, (Array, Term)>,
) -> Option<Array> {
    let operands: Option<Vec<&Array>> = egg::Language::children(term)
        .iter()
        .map(|child| known.get(&eg.find(*child)).map(|known| &known.0))
        .collect();
    let operands = operands?;
    let joined = operands.iter().fold(Extents::SCALAR, |all, array| {
        all.join(&Extents::of(&array.shape))
    });
    let elementwise = |f: &dyn Fn(&[f64]) -> f64| {
        let wide: Vec<Array> = operands
            .iter()
            .map(|array| repeated(array, &joined.shape()))
            .collect();
        let count = joined.shape().elements();
        let data = (0..count).map(|at| f(&wide.iter().map(|x| x.data[at]).collect::<Vec<_>>()));
        Array::new(joined.shape(), data.collect())
    };
    Some(match term {
        Term::Leaf(index) => leaves[*index as usize].clone(),
        Term::Constant(value) => Array::new([], vec![value.value()]),
        Term::Sum(c, _) => {
            elementwise(&|x| x.iter().zip(c.iter()).map(|(x, c)| c.value() * x).sum())
        }
        Term::Product(halves, _) => {
            let power = |x: f64, half: i16| match half % 2 {
                0 => x.powi(i32::from(half / 2)),
                _ => x.sqrt().powi(i32::from(half)),
            };
            elementwise(&|x| {
                x.iter()
                    .zip(halves.iter())
                    .map(|(x, h)| power(*x, *h))
                    .product()
            })
        }
        Term::Reduce(combine, span, _) => {
            let mut full = joined;
            for &(axis, extent) in span {
                full.set(usize::from(axis), extent);
            }
            reduced(&repeated(operands[0], &full.shape()), *combine, span)
        }
        Term::Rename(sources, _) => renamed(operands[0], sources),
        Term::Contract(k, _) => contracted(operands[0], operands[1], *k),
        Term::Apply(op, _) => {
            let applied = &eg.analysis.ops[*op as usize];
            let mut result = applied.result.clone();
            let wide: Vec<Array> = if applied.elementwise {
                result = TensorType::new(joined.shape(), result.dtype);
                operands
                    .iter()
                    .map(|x| repeated(x, &joined.shape()))
                    .collect()
            } else {
                let types = applied.operands.iter();
                operands
                    .iter()
                    .zip(types)
                    .map(|(x, ty)| repeated(x, &ty.shape))
                    .collect()
            };
            let wide: Vec<&Array> = wide.iter().collect();
            (applied.op.def.evaluate)(&applied.op.attributes, &wide, &result)
        }
    })
}

fn reduced(x: &Array, combine: Combine, span: &[(u8, u32)]) -> Array {
    let rank = x.shape.rank();
    let axes: Vec<usize> = span.iter().map(|s| rank - 1 - usize::from(s.0)).collect();
    let shape = x.shape.reduced(&axes);
    let mut result = Array::from_fn(&shape, |_| f64::from(combine.identity()));
    let mut position = 0;
    Array::from_fn(&x.shape, |index| {
        let target = index
            .iter()
            .zip(shape.dims())
            .fold(0, |target, (&i, &dim)| target * dim + i.min(dim - 1));
        result.data[target] = combine.combine(result.data[target], x.data[position]);
        position += 1;
        0.0
    });
    result
}

fn renamed(x: &Array, sources: &[u8]) -> Array {
    let extents = Extents::of(&x.shape);
    let mut result = Extents::SCALAR;
    for (axis, &source) in sources.iter().enumerate() {
        if source != NO_AXIS {
            result.set(axis, extents.get(usize::from(source)));
        }
    }
    let (shape, own) = (result.shape(), x.shape.rank());
    Array::from_fn(&shape, |index| {
        let mut full = vec![0; own];
        for (axis, &source) in sources.iter().enumerate() {
            if source != NO_AXIS && axis < index.len() && usize::from(source) < own {
                full[own - 1 - usize::from(source)] = index[index.len() - 1 - axis];
            }
        }
        x.at(&full)
    })
}

fn contracted(left: &Array, right: &Array, k: u32) -> Array {
    let (mut a, mut b) = (Extents::of(&left.shape), Extents::of(&right.shape));
    a.set(0, 1);
    b.set(1, 1);
    let shape = a.join(&b).shape();
    let at = |x: &Array, index: &[usize], axis: usize, k: usize| {
        let own = x.shape.rank();
        let mut full = vec![0; own];
        for from in 0..own {
            let given = index.len().checked_sub(from + 1).map_or(0, |i| index[i]);
            full[own - 1 - from] = if from == axis { k } else { given };
        }
        x.at(&full)
    };
    Array::from_fn(&shape, |index| {
        (0..k as usize)
            .map(|k| at(left, index, 0, k) * at(right, index, 1, k))
            .sum()
    })
}
