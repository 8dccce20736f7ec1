//! Rules of matrices that lie side by side, seen as slices of columns.
//!
//! None of them pays by itself: a product with all columns costs less than those with some only
//! once all of them are taken from it.

use egg::Id;

use super::CROWD;
use super::contraction::contractions;
use crate::egraph::encode::apply;
use crate::egraph::facts::Terms;
use crate::egraph::language::{Applied, Extents, Term};
use crate::egraph::normal::{contract, rename, sum};
use crate::ir::{Assembly, Attributes, Lowering, Number, Op, OpDef, Shape, Steps, TensorType};

/// Some neighbouring columns of a value.
#[derive(Clone, Copy)]
struct Columns {
    def: &'static OpDef,
    whole: Id,
    /// How many the whole value has.
    of: usize,
    start: usize,
    count: usize,
}

/// What neighbouring columns a class is.
fn columns(eg: &Terms, class: Id) -> Vec<Columns> {
    let found = eg[class].nodes.iter().filter_map(|node| {
        let Term::Apply(op, children) = node else {
            return None;
        };
        let applied = &eg.analysis.ops[*op as usize];
        let Attributes::Slice(ranges) = &applied.op.attributes else {
            return None;
        };
        let (last, before) = ranges.split_last()?;
        let dims = applied.operands[0].shape.dims();
        let whole = |(steps, &dim): (&Steps, &usize)| *steps == Steps::all(dim);
        let fits = last.step == 1 && before.iter().zip(dims).all(whole);
        fits.then(|| Columns {
            def: applied.op.def,
            whole: eg.find(children[0]),
            of: applied.operands[0].shape.last(),
            start: last.start,
            count: last.count,
        })
    });
    found.take(4).collect()
}

fn is_leaf(eg: &Terms, class: Id) -> bool {
    let mut nodes = eg[class].nodes.iter();
    nodes.any(|node| matches!(node, Term::Leaf(_)))
}

/// The same columns of another value; none when it does not vary along as many.
fn columns_of(eg: &mut Terms, whole: Id, columns: Columns) -> Option<Id> {
    let extents = eg[whole].data.extents;
    if extents.get(0) as usize != columns.of {
        return None;
    }
    let shape = extents.shape();
    let mut ranges: Vec<Steps> = shape.dims().iter().map(|&dim| Steps::all(dim)).collect();
    *ranges.last_mut()? = Steps {
        start: columns.start,
        count: columns.count,
        step: 1,
    };
    let result: Vec<usize> = ranges.iter().map(|steps| steps.count).collect();
    let applied = Applied {
        op: Op {
            def: columns.def,
            attributes: Attributes::Slice(ranges),
        },
        elementwise: false,
        reshape: false,
        operands: vec![TensorType::f32(shape)],
        result: TensorType::f32(result),
    };
    Some(apply(eg, applied, &[whole]))
}

/// x·(columns of P) = columns of x·P
pub(super) fn product_of_all(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Contract(k, [a, b]) = *term else {
        return Vec::new();
    };
    if eg[class].nodes.len() > CROWD {
        return Vec::new();
    }
    let mut result = Vec::new();
    for columns in columns(eg, b) {
        if is_leaf(eg, columns.whole) {
            let all = contract(eg, k, a, columns.whole);
            result.extend(columns_of(eg, all, columns));
        }
    }
    result
}

/// The sum of the same columns of values is those columns of the sum.
pub(super) fn sum_of_columns(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Sum(c, t) = term else {
        return Vec::new();
    };
    if t.len() > 4 || eg[class].nodes.len() > CROWD {
        return Vec::new();
    }
    let mut result = Vec::new();
    let candidates: Vec<Columns> = t.iter().flat_map(|&id| columns(eg, id)).collect();
    for first in candidates {
        if is_leaf(eg, first.whole) {
            continue;
        }
        let same = |other: &Columns| {
            (other.of, other.start, other.count) == (first.of, first.start, first.count)
        };
        let whole = |&id: &Id| match eg[id].data.extents.varies(0) {
            true => columns(eg, id).into_iter().find(same).map(|c| c.whole),
            false => Some(id),
        };
        if let Some(wholes) = t.iter().map(whole).collect::<Option<Vec<Id>>>() {
            let terms = c.iter().map(|c| c.value()).zip(wholes);
            let all = sum(eg, &terms.collect::<Vec<_>>());
            result.extend(columns_of(eg, all, first));
        }
    }
    result
}

/// Columns of a value whose rows are arranged otherwise are columns of that.
pub(super) fn reshape_of_columns(eg: &mut Terms, _: Id, term: &Term) -> Vec<Id> {
    let Term::Apply(op, children) = term else {
        return Vec::new();
    };
    let outer = eg.analysis.ops[*op as usize].clone();
    let (Some(from), to) = (outer.operands.first(), &outer.result.shape) else {
        return Vec::new();
    };
    let from = &from.shape;
    if !outer.reshape || from.rank() == 0 || to.rank() == 0 || from.last() != to.last() {
        return Vec::new();
    }
    let mut result = Vec::new();
    for columns in columns(eg, children[0]) {
        if is_leaf(eg, columns.whole) {
            continue;
        }
        let wide = |shape: &Shape| {
            let mut dims = shape.dims().to_vec();
            dims.pop();
            dims.push(columns.of);
            Shape::from(dims)
        };
        let (from, to) = (wide(from), wide(to));
        let applied = Applied {
            op: Op {
                def: outer.op.def,
                attributes: Attributes::Shape(to.clone()),
            },
            elementwise: false,
            reshape: true,
            operands: vec![TensorType::f32(from)],
            result: TensorType::f32(to),
        };
        let all = apply(eg, applied, &[columns.whole]);
        result.extend(columns_of(eg, all, columns));
    }
    result
}

/// A product whose right operand is the transpose of some columns.
#[derive(Clone, Copy)]
struct Turned {
    left: Id,
    columns: Columns,
}

fn turned(eg: &Terms, class: Id) -> Vec<Turned> {
    let mut result = Vec::new();
    for (_, left, right) in contractions(eg, class) {
        for node in &eg[right].nodes {
            let Term::Rename(sources, [child]) = node else {
                continue;
            };
            if sources[..] == [1, 0] {
                let found = columns(eg, *child).into_iter();
                result.extend(found.map(|columns| Turned { left, columns }));
            }
        }
    }
    result
}

/// a·Aᵀ + b·Bᵀ = [a|b]·[A|B]ᵀ
pub(super) fn sum_of_siblings(eg: &mut Terms, class: Id, term: &Term) -> Vec<Id> {
    let Term::Sum(c, t) = term else {
        return Vec::new();
    };
    if t.len() < 2 || t.len() > 8 || eg[class].nodes.len() > CROWD {
        return Vec::new();
    }
    let found: Vec<Vec<Turned>> = t.iter().map(|&id| turned(eg, id)).collect();
    let mut wholes: Vec<(Id, u64)> = Vec::new();
    for (position, products) in found.iter().enumerate() {
        for product in products {
            let key = (product.columns.whole, c[position].value().to_bits());
            if !wholes.contains(&key) {
                wholes.push(key);
            }
        }
    }
    let mut result = Vec::new();
    for (whole, scale) in wholes {
        let mut parts: Vec<(usize, Turned)> = Vec::new();
        for (position, products) in found.iter().enumerate() {
            let of_whole = |product: &&Turned| product.columns.whole == whole;
            let part = products.iter().find(of_whole);
            let part = part.filter(|_| c[position].value().to_bits() == scale);
            parts.extend(part.map(|part| (position, *part)));
        }
        parts.sort_by_key(|(_, part)| part.columns.start);
        let Some(merged) = merged(eg, whole, &parts) else {
            continue;
        };
        let others = (0..t.len()).filter(|place| parts.iter().all(|part| part.0 != *place));
        let mut terms: Vec<(f64, Id)> = others.map(|place| (c[place].value(), t[place])).collect();
        terms.push((f64::from_bits(scale), merged));
        result.push(sum(eg, &terms));
    }
    result
}

/// The product of left operands side by side with the transposed whole, if they cover it.
fn merged(eg: &mut Terms, whole: Id, parts: &[(usize, Turned)]) -> Option<Id> {
    let of = parts.first()?.1.columns.of;
    let mut end = 0;
    let mut extents = Extents::SCALAR;
    for (_, part) in parts {
        let own = eg[part.left].data.extents;
        if part.columns.start != end || own.get(0) as usize != part.columns.count {
            return None;
        }
        end += part.columns.count;
        extents = extents.join(&own);
    }
    if end != of || parts.len() < 2 || extents.rank() > 2 {
        return None;
    }
    extents.set(0, of as u32);
    let shape = extents.shape();
    let place = |(_, part): &(usize, Turned)| {
        let mut steps: Vec<Steps> = shape.dims().iter().map(|&dim| Steps::all(dim)).collect();
        if let Some(last) = steps.last_mut() {
            last.start = part.columns.start;
            last.count = part.columns.count;
        }
        steps
    };
    let pieces: Vec<Vec<Steps>> = parts.iter().map(place).collect();
    let sizes = |piece: &Vec<Steps>| {
        let sizes: Vec<usize> = piece.iter().map(|steps| steps.count).collect();
        TensorType::f32(sizes)
    };
    let operands = pieces.iter().map(sizes).collect();
    let applied = Applied {
        op: Op {
            def: assembly()?,
            attributes: Attributes::Assembly(Assembly {
                shape: shape.clone(),
                pieces,
                fill: Number::new(0.0),
            }),
        },
        elementwise: false,
        reshape: false,
        operands,
        result: TensorType::f32(shape),
    };
    let lefts: Vec<Id> = parts.iter().map(|(_, part)| part.left).collect();
    let left = apply(eg, applied, &lefts);
    let right = rename(eg, &[1, 0], whole);
    Some(contract(eg, of as u32, left, right))
}

/// The op that puts pieces together.
fn assembly() -> Option<&'static OpDef> {
    let ops = crate::ops::all().into_iter();
    ops.into_iter()
        .find(|def| matches!(def.lowering, Lowering::Assemble))
}
