//! Which variables share a buffer.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Group;
use super::alike::Alike;
use crate::ir::{Graph, Lowering, NodeId, Variable};

/// The most elements of a shared buffer: 128 MiB, what every GPU lets a kernel see at once.
const MOST_ELEMENTS: usize = 1 << 25;

/// The variables of a graph of primitives that are to lie side by side, besides those that
/// already have a place. It depends on how the graph is made only, not on sizes of a batch.
pub fn find(graph: &Graph, has_place: impl Fn(&str) -> bool) -> Vec<Group> {
    let alike = Alike::new(graph);
    let mut search = Search {
        alike: &alike,
        has_place: &has_place,
        claimed: FxHashSet::default(),
        groups: Vec::new(),
    };
    for (products, weights) in siblings(&alike) {
        if let Some(sets) = search.closed(weights.clone()) {
            search.claim(&sets);
            search.biases(&products, &weights);
        }
    }
    search.groups
}

/// Products with one left operand whose right operands are variables, and these, in order.
fn siblings(alike: &Alike) -> Vec<(Vec<NodeId>, Vec<NodeId>)> {
    let mut sets: Vec<(Vec<NodeId>, Vec<NodeId>)> = Vec::new();
    let mut set_of: FxHashMap<(NodeId, u8), usize> = FxHashMap::default();
    let mut seen: FxHashSet<NodeId> = FxHashSet::default();
    for (id, _) in alike.live() {
        let Some([left, right]) = alike.product(id) else {
            continue;
        };
        let Some(variable) = alike.variables.get(&right) else {
            continue;
        };
        if seen.insert(right) {
            // What is frozen and what is trained do not mix.
            let kind = variable.kind as u8;
            let set = *set_of.entry((left, kind)).or_insert_with(|| {
                sets.push((Vec::new(), Vec::new()));
                sets.len() - 1
            });
            sets[set].0.push(id);
            sets[set].1.push(right);
        }
    }
    sets.retain(|set| set.1.len() > 1);
    sets
}

struct Search<'a> {
    alike: &'a Alike,
    has_place: &'a dyn Fn(&str) -> bool,
    claimed: FxHashSet<NodeId>,
    groups: Vec<Group>,
}

impl Search<'_> {
    fn variables(&self, ids: &[NodeId]) -> Vec<&Variable> {
        ids.iter().map(|id| &self.alike.variables[id]).collect()
    }

    /// Whether variables can lie side by side, as far as they themselves tell.
    fn fit(&self, ids: &[NodeId]) -> bool {
        let variables = self.variables(ids);
        let lead = |variable: &Variable| variable.shape.dims().split_last().map(|x| x.1.to_vec());
        let elements: usize = variables.iter().map(|v| v.shape.elements()).sum();
        let distinct: FxHashSet<&NodeId> = ids.iter().collect();
        lead(variables[0]).is_some()
            && (1..=MOST_ELEMENTS).contains(&elements)
            && distinct.len() == ids.len()
            && variables.iter().all(|variable| {
                variable.kind == variables[0].kind
                    && lead(variable) == lead(variables[0])
                    && !(self.has_place)(&variable.name)
            })
            && ids
                .iter()
                .all(|id| !self.claimed.contains(id) && self.readable(*id))
    }

    /// Whether whoever reads a variable can read a part of a buffer: through strides.
    fn readable(&self, id: NodeId) -> bool {
        self.alike.readers[id.index()].iter().all(|reader| {
            let Some(reader) = *reader else {
                return false;
            };
            match self.alike.node(reader).op.def.lowering {
                Lowering::Pointwise(_) | Lowering::Contract => true,
                // A transposed matrix in a product, a bias repeated along rows.
                Lowering::View(_) => {
                    self.alike.transposed(reader).is_some()
                        || self.alike.shape(reader).elements() > self.alike.shape(id).elements()
                        || self.alike.shape(reader).last() == self.alike.shape(id).last()
                }
                _ => false,
            }
        })
    }

    /// A set of variables and all others that must then lie side by side, too, since updates
    /// make all of a set at once; none where that is not possible.
    fn closed(&self, first: Vec<NodeId>) -> Option<Vec<Vec<NodeId>>> {
        let mut sets = vec![first];
        let mut done = 0;
        while done < sets.len() {
            let ids = sets[done].clone();
            done += 1;
            if !self.fit(&ids) {
                return None;
            }
            let updates = ids.iter().map(|id| self.alike.updates.get(id).copied());
            let updates: Vec<Option<NodeId>> = updates.collect();
            if updates.iter().all(Option::is_none) {
                continue;
            }
            let values = updates.into_iter().collect::<Option<Vec<NodeId>>>()?;
            let mut accepted = |ids: &[NodeId]| {
                let known = sets.iter().any(|set| set == ids);
                let meets = |set: &Vec<NodeId>| ids.iter().any(|id| set.contains(id));
                if !known && sets.iter().any(meets) {
                    return false;
                }
                if !known {
                    sets.push(ids.to_vec());
                }
                true
            };
            if !self.alike.check(&values, &mut accepted, &mut Vec::new()) {
                return None;
            }
        }
        Some(sets)
    }

    fn claim(&mut self, sets: &[Vec<NodeId>]) {
        for ids in sets {
            self.claimed.extend(ids);
            let group = Group::of(&self.variables(ids));
            self.groups.push(group);
        }
    }

    /// The biases that are added to the products, if all have one.
    fn biases(&mut self, products: &[NodeId], weights: &[NodeId]) {
        let mut found: Vec<Vec<NodeId>> = Vec::new();
        let mut accepted = |ids: &[NodeId]| {
            if ids != weights {
                found.push(ids.to_vec());
            }
            true
        };
        let ends = self.alike.ends(products, &mut accepted);
        if ends == products {
            return;
        }
        for ids in found {
            if let Some(sets) = self.closed(ids) {
                self.claim(&sets);
            }
        }
    }
}
