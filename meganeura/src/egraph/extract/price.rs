//! What a term adds to the cost.

use egg::{Id, Language};

use crate::egraph::cost::{CostModel, Price, Role, Work, turn};
use crate::egraph::emit;
use crate::egraph::facts::Terms;
use crate::egraph::language::{Applied, Extents, Term};
use crate::ir::{Layout, Lowering};

/// Whether a view sees a row-major operand where it is.
fn strides_suffice(applied: &Applied) -> bool {
    match (applied.op.def.lowering, applied.operands.first()) {
        (Lowering::View(layout), Some(from)) => {
            let plain = Layout::contiguous(&from.shape);
            layout(&applied.op.attributes, &plain, &applied.result.shape).is_some()
        }
        _ => false,
    }
}

/// What a term adds to the cost.
pub(in crate::egraph) fn price(eg: &Terms, model: &CostModel, term: &Term) -> Work {
    let extents = |id: &Id| eg[*id].data.extents;
    let mut pricing = Price { model, time: 0.0 };
    let mut work = Work {
        role: Role::Elementwise,
        time: 0.0,
        elements: term
            .children()
            .iter()
            .fold(Extents::SCALAR, |all, id| all.join(&extents(id)))
            .elements(),
        reduced: 0.0,
        since: None,
    };
    match term {
        Term::Leaf(index) => {
            let leaf = &eg.analysis.leaves[*index as usize];
            work.role = Role::Leaf;
            work.elements = leaf.ty.shape.elements() as f64;
            work.since = leaf.since;
        }
        Term::Constant(_) => {
            work.role = Role::Number;
            work.elements = 1.0;
        }
        Term::Sum(coefficients, children) => {
            let mut constant = 0.0;
            let mut terms = Vec::new();
            for (c, child) in coefficients.iter().zip(children) {
                match eg[*child].data.constant {
                    Some(number) => constant += c.value() * number.value(),
                    None => terms.push((c.value(), extents(child))),
                }
            }
            emit::sum(&mut pricing, constant, terms);
        }
        Term::Product(halves, children) => {
            let factors = halves.iter().copied().zip(children.iter().map(extents));
            emit::product(&mut pricing, factors);
        }
        Term::Reduce(_, span, [child]) => {
            let rows = matches!(span[..], [(0, _)]);
            work.role = if rows {
                Role::RowReduction
            } else {
                Role::ColumnReduction
            };
            work.reduced = extents(child).elements();
            work.elements = crate::egraph::normal::without(extents(child), span).elements();
            pricing.time = model.reduction(&extents(child), rows);
        }
        Term::Rename(sources, _) => work.role = turn(sources),
        Term::Contract(k, [left, right]) => {
            let (mut a, mut b) = (extents(left), extents(right));
            let (left, right) = (a.elements(), b.elements());
            a.set(0, 1);
            b.set(1, 1);
            work.role = Role::Contraction;
            work.elements = a.join(&b).elements();
            pricing.time = model.contraction(left, right, work.elements, f64::from(*k));
        }
        Term::Apply(op, children) => {
            let applied = &eg.analysis.ops[*op as usize];
            if let Some(scalar) = eg.analysis.scalar(*op) {
                let all = children
                    .iter()
                    .fold(Extents::SCALAR, |all, id| all.join(&extents(id)));
                pricing.time = model.elementwise(scalar, &all);
            } else {
                work.elements = applied.result.shape.elements() as f64;
                match applied.op.def.lowering {
                    Lowering::Index | Lowering::Constant => work.role = Role::Number,
                    Lowering::View(_) if applied.reshape || strides_suffice(applied) => {
                        let from = &applied.operands[0].shape;
                        work.role = match applied.result.shape.elements() < from.elements() {
                            true => Role::Turn,
                            false => Role::View,
                        };
                    }
                    Lowering::Assemble if written_in_place(eg, applied, children) => {
                        // Its pieces are written, it is not.
                        work.elements = 0.0;
                        work.role = Role::Memory;
                    }
                    _ => {
                        let read: f64 = children.iter().map(|id| extents(id).elements()).sum();
                        work.role = Role::Memory;
                        pricing.time = model.memory(read, work.elements);
                    }
                }
            }
        }
    }
    work.time = pricing.time;
    work
}

/// Whether the kernels that compute the pieces of an assembly put them where they belong.
fn written_in_place(eg: &Terms, applied: &Applied, children: &[Id]) -> bool {
    let assembly = applied.op.attributes.as_assembly();
    let from_outside = |child: &Id| {
        let mut nodes = eg[*child].nodes.iter();
        nodes.any(|node| match node {
            Term::Leaf(leaf) => eg.analysis.leaves[*leaf as usize].since.is_none(),
            _ => false,
        })
    };
    assembly.is_some_and(|assembly| assembly.is_covered()) && !children.iter().any(from_outside)
}
