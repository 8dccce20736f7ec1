//! A graph over shared buffers.

use rustc_hash::FxHashMap;

use super::Group;
use super::alike::{Alike, Step};
use crate::ir::{Graph, Init, NodeId, Tensor, Variable};
use crate::ops::Images;

/// What is known of the variables of a [`Group`] in a graph.
#[derive(Default)]
struct Set {
    /// Their leaves, if the graph has them all.
    leaves: Vec<NodeId>,
    /// Their new values, if all have one and these are computed alike.
    values: Vec<NodeId>,
}

/// What can be done with the groups in a graph.
pub(super) struct Sites<'a> {
    graph: &'a Graph,
    alike: Alike,
    groups: &'a [Group],
    place_of: FxHashMap<NodeId, (usize, usize)>,
    sets: Vec<Set>,
    /// Products that are part of new values, by the last of them.
    early: FxHashMap<NodeId, Vec<Vec<NodeId>>>,
    /// The layers that products with siblings and their sums are moved to: the innermost around
    /// all of a set, so that rewriting sees them together.
    layer_of: FxHashMap<NodeId, String>,
}

impl<'a> Sites<'a> {
    pub(super) fn new(graph: &'a Graph, groups: &'a [Group]) -> Sites<'a> {
        let alike = Alike::new(graph);
        let leaves: FxHashMap<&str, NodeId> = alike
            .variables
            .iter()
            .map(|(id, variable)| (variable.name.as_str(), *id))
            .collect();
        let mut place_of = FxHashMap::default();
        let mut sets: Vec<Set> = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let found = group.pieces.iter().map(|piece| leaves.get(&*piece.name));
            let found: Vec<Option<NodeId>> = found.map(Option::<&NodeId>::copied).collect();
            for (piece, leaf) in found.iter().enumerate() {
                place_of.extend(leaf.map(|leaf| (leaf, (index, piece))));
            }
            sets.push(Set {
                leaves: found
                    .into_iter()
                    .collect::<Option<Vec<_>>>()
                    .unwrap_or_default(),
                ..Set::default()
            });
        }
        let mut sites = Sites {
            graph,
            alike,
            groups,
            place_of,
            sets,
            early: FxHashMap::default(),
            layer_of: FxHashMap::default(),
        };
        for set in 0..sites.sets.len() {
            if !sites.sets[set].leaves.is_empty() {
                sites.look(set);
            }
        }
        sites.gather_gradients();
        sites
    }

    fn is_set(&self, ids: &[NodeId]) -> bool {
        self.sets.iter().any(|set| set.leaves == ids)
    }

    /// Find the products and the updates of a set.
    fn look(&mut self, index: usize) {
        let leaves = self.sets[index].leaves.clone();
        let mut accepted = |ids: &[NodeId]| self.is_set(ids);
        if let Some(products) = self.products(&leaves) {
            let layer = self.layer(&products);
            for id in self.alike.ends(&products, &mut accepted) {
                let way = self.way_to(id, &products, 3).unwrap_or_default();
                for id in way {
                    self.layer_of.insert(id, layer.clone());
                }
            }
        }
        let mut accepted = |ids: &[NodeId]| self.is_set(ids);
        let values = leaves.iter().map(|id| self.alike.updates.get(id).copied());
        let values = values.collect::<Option<Vec<NodeId>>>();
        let mut products = Vec::new();
        let values = values.filter(|values| self.alike.check(values, &mut accepted, &mut products));
        if let Some(values) = values {
            self.sets[index].values = values;
            for ids in products {
                if let Some(&last) = ids.iter().max() {
                    self.early.entry(last).or_default().push(ids);
                }
            }
        }
    }

    /// The products of one value with each of the leaves.
    fn products(&self, leaves: &[NodeId]) -> Option<Vec<NodeId>> {
        let mut by_left: Vec<(NodeId, Vec<Option<NodeId>>)> = Vec::new();
        for (id, _) in self.alike.live() {
            let Some([left, right]) = self.alike.product(id) else {
                continue;
            };
            let Some(piece) = leaves.iter().position(|&leaf| leaf == right) else {
                continue;
            };
            let known = by_left.iter().position(|(known, _)| *known == left);
            let place = known.unwrap_or_else(|| {
                by_left.push((left, vec![None; leaves.len()]));
                by_left.len() - 1
            });
            by_left[place].1[piece] = Some(id);
        }
        let complete = |(_, products): (_, Vec<Option<NodeId>>)| products.into_iter().collect();
        by_left.into_iter().find_map(complete)
    }

    /// What is computed from one of the products on the way to `id`, both included.
    fn way_to(&self, id: NodeId, products: &[NodeId], steps: usize) -> Option<Vec<NodeId>> {
        if products.contains(&id) {
            return Some(vec![id]);
        }
        let inputs = self.alike.node(id).inputs.iter();
        let mut ways = inputs.filter_map(|&input| {
            let left = steps.checked_sub(1)?;
            self.way_to(input, products, left)
        });
        let mut way = ways.next()?;
        way.push(id);
        Some(way)
    }

    /// Move sums of products with the transposes of a set, and these products, to one layer.
    fn gather_gradients(&mut self) {
        let mut moved: Vec<(NodeId, String)> = Vec::new();
        for (id, _) in self.alike.live() {
            if self.alike.addends(id).is_none() || self.is_addend(id) {
                continue;
            }
            let mut products: FxHashMap<usize, Vec<NodeId>> = FxHashMap::default();
            let (terms, sums) = self.terms(id);
            for term in terms {
                let right = self.alike.product(term).map(|operands| operands[1]);
                let leaf = right.and_then(|right| self.alike.transposed(right));
                if let Some(place) = leaf.and_then(|leaf| self.place_of.get(&leaf)) {
                    products.entry(place.0).or_default().push(term);
                }
            }
            for (set, products) in products {
                if products.len() < self.sets[set].leaves.len() || products.len() < 2 {
                    continue;
                }
                let layer = self.layer(&products);
                // A sum of another layer stays there.
                let path = |id: NodeId| self.graph.scope_path(self.alike.node(id).scope);
                let inside = sums.iter().filter(|&&id| path(id).starts_with(&layer));
                moved.extend(inside.map(|&id| (id, layer.clone())));
                moved.extend(products.into_iter().map(|id| (id, layer.clone())));
            }
        }
        self.layer_of.extend(moved);
    }

    /// The innermost layer around all of these.
    fn layer(&self, ids: &[NodeId]) -> String {
        let path = |id: &NodeId| self.graph.scope_path(self.alike.node(*id).scope);
        let paths: Vec<String> = ids.iter().map(path).collect();
        let common = |path: &str, other: &str| {
            let parts = path.split('.').zip(other.split('.'));
            let parts = parts.take_while(|(a, b)| a == b).map(|(a, _)| a);
            parts.collect::<Vec<_>>().join(".")
        };
        let first = paths[0].clone();
        paths.iter().fold(first, |all, path| common(&all, path))
    }

    /// Whether a sum is only part of another.
    fn is_addend(&self, id: NodeId) -> bool {
        match self.alike.readers[id.index()][..] {
            [Some(reader)] => self.alike.addends(reader).is_some(),
            _ => false,
        }
    }

    /// What is added up in a sum, and the sums in it.
    fn terms(&self, sum: NodeId) -> (Vec<NodeId>, Vec<NodeId>) {
        let (mut terms, mut sums, mut open) = (Vec::new(), Vec::new(), vec![sum]);
        while let Some(id) = open.pop() {
            match self.alike.addends(id) {
                Some([a, b]) if id == sum || self.is_addend(id) => {
                    sums.push(id);
                    open.extend([b, a]);
                }
                _ => terms.push(id),
            }
        }
        (terms, sums)
    }

    /// The graph over the groups' buffers.
    pub(super) fn rewritten(&self) -> Graph {
        let buffers = self.groups.iter().map(|group| Variable {
            name: group.name.clone(),
            shape: group.shape(),
            init: Init::Zeros,
            kind: group.kind,
            transposed: false,
        });
        let buffers: Vec<Variable> = buffers.collect();
        let gone: Vec<NodeId> = self.place_of.keys().copied().collect();
        let (result, images, buffers) = self.graph.successor_with(&gone, &buffers);
        let mut writer = Writer {
            sites: self,
            images: Images::new(self.alike.nodes.len(), images),
            buffers: buffers.iter().map(|&id| result.tensor(id)).collect(),
            result: &result,
        };
        writer.leaves();
        for (id, _) in self.alike.live() {
            if writer.images.get(id).is_none() {
                writer.copy(id);
            }
            for ids in self.early.get(&id).into_iter().flatten() {
                result.at(self.layer(ids), || writer.side_by_side(ids));
            }
        }
        writer.finish();
        drop(writer);
        result
    }
}

/// Builds the new graph.
struct Writer<'s, 'g> {
    sites: &'s Sites<'s>,
    result: &'g Graph,
    images: Images,
    buffers: Vec<Tensor<'g>>,
}

impl<'g> Writer<'_, 'g> {
    fn image(&self, id: NodeId) -> Tensor<'g> {
        let image = self.images.get(id);
        self.result.tensor(image.expect("operands come first"))
    }

    /// Variables are slices of buffers.
    fn leaves(&mut self) {
        for (&leaf, &(group, piece)) in &self.sites.place_of {
            let piece = &self.sites.groups[group].pieces[piece];
            let buffer = self.buffers[group];
            let last = buffer.shape().rank() - 1;
            let slice = buffer.slice(last, piece.start, piece.size);
            self.images.set(leaf, slice.id());
        }
    }

    fn copy(&mut self, id: NodeId) {
        let node = self.sites.alike.node(id);
        let operands: Vec<Tensor<'g>> = node.inputs.iter().map(|&id| self.image(id)).collect();
        let build = || {
            let op = &node.op;
            self.result.apply(op.def, op.attributes.clone(), &operands)
        };
        let image = match self.sites.layer_of.get(&id) {
            Some(layer) => self.result.at(layer.clone(), build),
            None => self.result.in_scope(node.scope, build),
        };
        self.images.set(id, image.id());
    }

    /// Values that are computed alike, computed as one.
    fn side_by_side(&mut self, ids: &[NodeId]) -> Option<Tensor<'g>> {
        let alike = &self.sites.alike;
        let shape = || {
            let mut dims = alike.shape(ids[0]).dims().to_vec();
            let columns = ids.iter().map(|&id| alike.shape(id).last());
            *dims.last_mut().expect("columns") = columns.sum();
            dims
        };
        Some(match alike.step(ids)? {
            Step::Variables => {
                let group = self.sites.place_of.get(&ids[0])?.0;
                self.buffers[group]
            }
            Step::Pointwise(op, operands) => {
                let operands = operands.iter().map(|ids| self.side_by_side(ids));
                let operands = operands.collect::<Option<Vec<_>>>()?;
                self.result.apply(op.def, op.attributes, &operands)
            }
            Step::Repeated(source) => self.image(source).broadcast(shape()),
            Step::Broadcast(sources) => self.side_by_side(&sources)?.broadcast(shape()),
            Step::Reshape(sources) => self.side_by_side(&sources)?.reshape(shape()),
            Step::Product(left, rights) => {
                let right = match alike.step(&rights) {
                    Some(Step::Variables) => self.side_by_side(&rights)?,
                    _ => self.joined(&rights),
                };
                self.image(left).matmul(right)
            }
            Step::Sums => self.joined(ids),
        })
    }

    /// Values put side by side: the same one for all views that only regroup their rows.
    fn joined(&mut self, ids: &[NodeId]) -> Tensor<'g> {
        let alike = &self.sites.alike;
        let flat = |&id: &NodeId| {
            let mut base = id;
            while let Some(of) = alike.regrouped(base) {
                base = of;
            }
            let columns = alike.shape(id).last();
            let rows = alike.shape(id).elements() / columns.max(1);
            self.image(base).reshape([rows, columns])
        };
        let pieces: Vec<Tensor<'g>> = ids.iter().map(flat).collect();
        let whole = Tensor::concat(&pieces, 1);
        let mut dims = alike.shape(ids[0]).dims().to_vec();
        *dims.last_mut().expect("columns") = whole.shape().last();
        whole.reshape(dims)
    }

    /// Outputs and updates.
    fn finish(&mut self) {
        let graph = self.sites.graph;
        for (name, id) in graph.outputs() {
            self.result.output(&name, self.image(id));
        }
        let mut done = vec![false; self.buffers.len()];
        for (variable, value) in graph.updates() {
            match self.sites.place_of.get(&variable) {
                Some(&(group, _)) if !std::mem::replace(&mut done[group], true) => {
                    let value = self.new_value(group);
                    self.result.update(self.buffers[group], value);
                }
                Some(_) => {}
                None => {
                    let variable = self.image(variable);
                    self.result.update(variable, self.image(value));
                }
            }
        }
    }

    /// What a buffer becomes.
    fn new_value(&mut self, group: usize) -> Tensor<'g> {
        let values = &self.sites.sets[group].values;
        if !values.is_empty()
            && let Some(value) = self.side_by_side(values)
        {
            return value;
        }
        let buffer = self.buffers[group];
        let last = buffer.shape().rank() - 1;
        let mut pieces: Vec<Tensor<'g>> = Vec::new();
        let group = &self.sites.groups[group];
        pieces.extend(group.pieces.iter().map(|piece| {
            let variables = self.sites.alike.variables.iter();
            let mut named = variables.filter(|(_, variable)| variable.name == piece.name);
            let value = named
                .next()
                .and_then(|(leaf, _)| self.sites.alike.updates.get(leaf));
            match value {
                Some(&value) => self.image(value),
                None => buffer.slice(last, piece.start, piece.size),
            }
        }));
        Tensor::concat(&pieces, last)
    }
}
