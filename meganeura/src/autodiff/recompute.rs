//! Values computed again for the backward pass instead of kept.
//!
//! A layer marked `recompute` is computed a second time when the gradient arrives at it. What the
//! backward pass reads of its inside is replaced by a copy, which starts from what the layer took
//! in; only that is kept. The copy starts [after](Tensor::after) a piece of the gradient that
//! arrives, so that nothing takes it for the values that were computed before.

use rustc_hash::FxHashMap;

use crate::ir::{DType, Graph, Lowering, Node, NodeId, Tensor};

/// The same training step with the values of marked layers computed again. Of the nodes of `graph`
/// the first `forward` were there before it was differentiated.
pub fn recompute(graph: Graph, forward: usize) -> Graph {
    let again = recompute_layers(&graph, forward, |scope| graph.recomputed_with(scope));
    again.unwrap_or(graph)
}

/// The same training step with the values of some layers computed again: `layer` says for the
/// scope of a node with which layer, as a scope of its own, if with any. None where nothing is to
/// be computed again. Of the nodes of `graph` the first `forward` were there before it was
/// differentiated.
pub fn recompute_layers(
    graph: &Graph,
    forward: usize,
    layer: impl Fn(u32) -> Option<u32>,
) -> Option<Graph> {
    let marks = Marks::of(graph, forward, layer);
    if marks.inside.iter().all(Option::is_none) {
        return None;
    }
    let (result, leaves) = graph.successor();
    let nodes = graph.nodes();
    let mut copier = Copier {
        nodes: &nodes,
        marks: &marks,
        result: &result,
        inputs: graph.inputs().into_iter().map(|(_, id)| id).collect(),
        images: vec![None; nodes.len()],
        again: FxHashMap::default(),
        starts: FxHashMap::default(),
    };
    for (old, new) in leaves {
        copier.images[old.index()] = Some(new);
    }
    for index in 0..nodes.len() {
        if copier.images[index].is_none() {
            copier.copy(index);
        }
    }
    let image = |id: NodeId| copier.image(id);
    for (name, id) in graph.outputs() {
        result.output(&name, image(id));
    }
    for (variable, value) in graph.updates() {
        result.update(image(variable), image(value));
    }
    Some(result)
}

/// What is to be computed again.
struct Marks {
    forward: usize,
    /// The layer, for each node that is inside one and used by it and the backward pass only.
    inside: Vec<Option<u32>>,
    /// For each layer the piece of gradient that it is computed again after.
    token: FxHashMap<u32, NodeId>,
}

impl Marks {
    fn of(graph: &Graph, forward: usize, layer: impl Fn(u32) -> Option<u32>) -> Marks {
        let nodes = graph.nodes();
        let layer = |index: usize| layer(nodes[index].scope);
        let mut inside: Vec<Option<u32>> = (0..nodes.len())
            .map(|index| layer(index).filter(|_| index < forward && !is_leaf(&nodes[index])))
            .collect();
        for (index, node) in nodes[..forward].iter().enumerate() {
            for input in &node.inputs {
                if inside[input.index()] != layer(index) {
                    inside[input.index()] = None;
                }
            }
        }
        let outputs = graph.outputs().into_iter().map(|(_, id)| id);
        for root in outputs.chain(graph.updates().into_iter().map(|(_, id)| id)) {
            inside[root.index()] = None;
        }
        let mut marks = Marks {
            forward,
            inside,
            token: FxHashMap::default(),
        };
        marks.find_tokens(&nodes);
        // Without a gradient there is nothing to wait for.
        let Marks { inside, token, .. } = &mut marks;
        for mark in inside {
            *mark = mark.filter(|layer| token.contains_key(layer));
        }
        marks
    }

    /// For each layer a gradient that is known before the backward pass first reads its inside, and
    /// that is used together with it.
    fn find_tokens(&mut self, nodes: &[Node]) {
        // Whether a node depends on the data, so that it is computed and not just there.
        let mut computed = vec![false; nodes.len()];
        let mut waiting: FxHashMap<u32, usize> = FxHashMap::default();
        for (index, node) in nodes.iter().enumerate() {
            let below = node.inputs.iter().any(|input| computed[input.index()]);
            computed[index] = below || matches!(node.op.def.lowering, Lowering::Leaf);
            if index < self.forward {
                continue;
            }
            for layer in node.inputs.iter().filter_map(|id| self.inside[id.index()]) {
                if !self.token.contains_key(&layer) {
                    waiting.entry(layer).or_insert(index);
                }
            }
            waiting.retain(|layer, reader| {
                let known = node.inputs.iter().find(|input| {
                    let place = input.index();
                    let float = nodes[place].ty.dtype == DType::F32;
                    let some = nodes[place].ty.shape.elements() > 0;
                    place >= self.forward && place < *reader && computed[place] && float && some
                });
                if let Some(id) = known {
                    self.token.insert(*layer, *id);
                }
                known.is_none()
            });
        }
    }
}

/// Whether a node is at hand without being computed.
fn is_leaf(node: &Node) -> bool {
    matches!(
        node.op.def.lowering,
        Lowering::Leaf | Lowering::Constant | Lowering::Index
    )
}

struct Copier<'a> {
    nodes: &'a [Node],
    marks: &'a Marks,
    result: &'a Graph,
    inputs: Vec<NodeId>,
    images: Vec<Option<NodeId>>,
    /// Second copies.
    again: FxHashMap<NodeId, NodeId>,
    /// What second copies start from, by layer.
    starts: FxHashMap<(u32, NodeId), NodeId>,
}

impl<'a> Copier<'a> {
    fn image(&self, id: NodeId) -> Tensor<'a> {
        let image = self.images[id.index()].expect("operands come first");
        self.result.tensor(image)
    }

    fn copy(&mut self, index: usize) {
        let node = &self.nodes[index];
        let operands = node
            .inputs
            .iter()
            .map(|&input| match self.marks.inside[input.index()] {
                Some(layer) if index >= self.marks.forward => self.second(input, layer),
                _ => self.image(input),
            });
        let operands: Vec<Tensor<'a>> = operands.collect();
        self.images[index] = Some(self.apply(node, &operands).id());
    }

    fn apply(&self, node: &Node, operands: &[Tensor<'a>]) -> Tensor<'a> {
        let (result, op) = (self.result, &node.op);
        result.in_scope(node.scope, || {
            result.apply(op.def, op.attributes.clone(), operands)
        })
    }

    /// The second copy of a node inside `layer`.
    fn second(&mut self, id: NodeId, layer: u32) -> Tensor<'a> {
        if let Some(&again) = self.again.get(&id) {
            return self.result.tensor(again);
        }
        let node = &self.nodes[id.index()];
        let mut operands = Vec::new();
        for &input in &node.inputs {
            let operand = match self.marks.inside[input.index()] {
                Some(other) if other == layer => self.second(input, layer),
                _ => self.start(input, layer),
            };
            operands.push(operand);
        }
        let again = self.apply(node, &operands);
        self.again.insert(id, again.id());
        again
    }

    /// What comes into `layer`, for its second copy. Variables and numbers are there anyway.
    fn start(&mut self, id: NodeId, layer: u32) -> Tensor<'a> {
        let node = &self.nodes[id.index()];
        let image = self.image(id);
        if is_leaf(node) && !self.inputs.contains(&id) {
            return image;
        }
        let known = self.starts.get(&(layer, id)).copied();
        let start = known.unwrap_or_else(|| {
            let token = self.image(self.marks.token[&layer]);
            self.result.in_scope(layer, || image.after(token)).id()
        });
        self.starts.insert((layer, id), start);
        self.result.tensor(start)
    }
}
