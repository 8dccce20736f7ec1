//! From a region into the e-graph. What an op is, its lowering and its algebra tell.

use egg::Id;

use super::facts::{Facts, Terms};
use super::language::{Applied, Extents, MAX_RANK, NO_AXIS, Term};
use super::normal::{contract, number, product, reduce, rename, sum};
use super::region::{Entry, Region};
use crate::ir::{Algebra, Attributes, Layout, Lowering, Op, ScalarOp, Shape, TensorType};

/// The e-graph of a region and the classes of its roots, or why it has none.
pub(super) fn encode(region: &Region) -> Result<(Terms, Vec<Id>), String> {
    let mut eg = Terms::new(Facts::new(region.leaves.clone()));
    let mut ids: Vec<Id> = Vec::with_capacity(region.entries.len());
    let leaf_types = region.leaves.iter().map(|leaf| &leaf.ty);
    for ty in leaf_types.chain(region.entries.iter().filter_map(type_of)) {
        if ty.shape.rank() > MAX_RANK {
            return Err(format!("more than {MAX_RANK} axes"));
        }
        if ty.shape.dims().iter().any(|&dim| dim == 0 || dim > 1 << 31) {
            return Err("an axis of size 0".to_owned());
        }
    }
    for entry in &region.entries {
        let id = match entry {
            Entry::Leaf(index) => {
                eg.analysis.scope = None;
                eg.add(Term::Leaf(*index))
            }
            Entry::Node {
                op,
                inputs,
                ty,
                scope,
            } => {
                eg.analysis.scope = Some(*scope);
                let operands: Vec<Id> = inputs.iter().map(|&input| ids[input]).collect();
                let types: Vec<TensorType> = inputs
                    .iter()
                    .map(|&input| type_of_place(region, input))
                    .collect();
                term(&mut eg, op, &operands, &types, ty)
            }
        };
        ids.push(id);
    }
    eg.analysis.scope = None;
    eg.rebuild();
    let roots = region.roots.iter().map(|(root, _)| eg.find(ids[*root]));
    let roots = roots.collect();
    Ok((eg, roots))
}

fn type_of(entry: &Entry) -> Option<&TensorType> {
    match entry {
        Entry::Leaf(_) => None,
        Entry::Node { ty, .. } => Some(ty),
    }
}

fn type_of_place(region: &Region, place: usize) -> TensorType {
    match &region.entries[place] {
        Entry::Leaf(index) => region.leaves[*index as usize].ty.clone(),
        Entry::Node { ty, .. } => ty.clone(),
    }
}

/// An op applied to classes.
pub(super) fn term(eg: &mut Terms, op: &Op, x: &[Id], types: &[TensorType], ty: &TensorType) -> Id {
    match (op.def.algebra, op.def.lowering) {
        (Algebra::Sum(coefficients), _) => {
            let terms: Vec<(f64, Id)> = coefficients.iter().copied().zip(x.to_vec()).collect();
            sum(eg, &terms)
        }
        (Algebra::Product(halves), _) => {
            let halves = halves.iter().map(|&half| i16::from(half));
            let factors: Vec<(i16, Id)> = halves.zip(x.to_vec()).collect();
            product(eg, &factors)
        }
        (_, Lowering::Constant) if op.attributes.as_number().is_finite() => {
            number(eg, op.attributes.as_number())
        }
        (_, Lowering::Pointwise(ScalarOp::Identity)) if types[0].dtype == ty.dtype => x[0],
        (_, Lowering::Pointwise(_)) => {
            let applied = Applied {
                op: op.clone(),
                elementwise: true,
                reshape: false,
                operands: Vec::new(),
                result: TensorType::new([], ty.dtype),
            };
            apply(eg, applied, x)
        }
        (_, Lowering::Reduce(combine)) => {
            let shape = &types[0].shape;
            let mut span: Vec<(u8, u32)> = op
                .attributes
                .as_axes()
                .iter()
                .map(|&axis| ((shape.rank() - 1 - axis) as u8, shape.dims()[axis] as u32))
                .collect();
            span.sort_unstable();
            reduce(eg, combine, &span, x[0])
        }
        (_, Lowering::View(layout)) => {
            let seen = layout(
                &op.attributes,
                &Layout::contiguous(&types[0].shape),
                &ty.shape,
            );
            match seen
                .as_ref()
                .and_then(|seen| sources(seen, &types[0].shape))
            {
                Some(sources) => rename(eg, &sources, x[0]),
                None => {
                    let whole = ty.shape.elements() == types[0].shape.elements();
                    let reshape = whole && seen.is_some_and(|seen| seen.is_contiguous());
                    view(eg, op, x[0], &types[0], ty, reshape)
                }
            }
        }
        (_, Lowering::Contract) => contract(eg, types[0].shape.last() as u32, x[0], x[1]),
        (_, Lowering::Index) => index(eg, op, ty),
        _ => {
            let applied = Applied {
                op: op.clone(),
                elementwise: false,
                reshape: false,
                operands: types.to_vec(),
                result: ty.clone(),
            };
            apply(eg, applied, x)
        }
    }
}

/// An op from the table.
pub(super) fn apply(eg: &mut Terms, applied: Applied, x: &[Id]) -> Id {
    let index = eg.analysis.intern(applied);
    eg.add(Term::Apply(index, x.into()))
}

/// Another arrangement that is no renaming of axes.
pub(super) fn view(
    eg: &mut Terms,
    op: &Op,
    x: Id,
    from: &TensorType,
    to: &TensorType,
    reshape: bool,
) -> Id {
    let applied = Applied {
        op: op.clone(),
        elementwise: false,
        reshape,
        operands: vec![from.clone()],
        result: to.clone(),
    };
    apply(eg, applied, &[x])
}

/// Indices differ along one axis only, so that axis alone is what they are made of.
fn index(eg: &mut Terms, op: &Op, ty: &TensorType) -> Id {
    let mut op = op.clone();
    let mut result = ty.clone();
    if let Attributes::ShapeAxis(shape, axis) = &op.attributes {
        let mut extents = Extents::SCALAR;
        extents.set(shape.rank() - 1 - axis, shape.dims()[*axis] as u32);
        result.shape = match extents.shape() {
            // Along an axis of size 1 there is one index.
            shape if shape.rank() == 0 => Shape::from([1]),
            shape => shape,
        };
        op.attributes = Attributes::ShapeAxis(result.shape.clone(), 0);
    }
    let applied = Applied {
        op,
        elementwise: false,
        reshape: false,
        operands: Vec::new(),
        result,
    };
    apply(eg, applied, &[])
}

/// A layout of a row-major operand as a renaming of its axes: which axis each result axis
/// steps along, from the last. None where it does more, or leaves something out.
pub(super) fn sources(seen: &Layout, from: &Shape) -> Option<Vec<u8>> {
    if seen.offset != 0 {
        return None;
    }
    let plain = Layout::contiguous(from);
    let rank = from.rank();
    let mut used = 0;
    let mut result = Vec::new();
    for (&dim, &stride) in seen.dims.iter().zip(&seen.strides).rev() {
        let source = (0..rank).find(|&axis| plain.dims[axis] > 1 && plain.strides[axis] == stride);
        result.push(match source {
            _ if dim == 1 || stride == 0 => NO_AXIS,
            Some(axis) if plain.dims[axis] == dim => {
                used += 1;
                (rank - 1 - axis) as u8
            }
            _ => return None,
        });
    }
    let varying = plain.dims.iter().filter(|&&dim| dim > 1).count();
    (used == varying).then_some(result)
}
