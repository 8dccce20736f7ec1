//! Composites into primitives.

use crate::ir::{Graph, Lowering, Node, NodeId, Tensor, Vjp};

/// Where the nodes of one graph went in another.
#[derive(Clone, Debug, Default)]
pub struct Images(Vec<Option<NodeId>>);

impl Images {
    /// No images yet of a graph of this many nodes, but those given.
    pub fn new(nodes: usize, known: Vec<(NodeId, NodeId)>) -> Images {
        let mut images = Images(vec![None; nodes]);
        for (id, image) in known {
            images.set(id, image);
        }
        images
    }

    /// The image of a node, if it has one.
    pub fn get(&self, id: NodeId) -> Option<NodeId> {
        self.0.get(id.index()).copied().flatten()
    }

    /// Set the image of a node.
    pub fn set(&mut self, id: NodeId, image: NodeId) {
        self.0[id.index()] = Some(image);
    }
}

/// The same graph with every composite replaced by its expansion, down to primitives.
pub fn expand(graph: &Graph) -> (Graph, Images) {
    let (result, leaves) = graph.successor();
    let nodes = graph.nodes();
    let mut images = Images::new(nodes.len(), leaves);
    for (index, node) in nodes.iter().enumerate() {
        let id = NodeId::new(index);
        if images.get(id).is_some() {
            continue;
        }
        let image = result.in_scope(node.scope, || copy(&result, node, &images));
        images.set(id, image.id());
        if let Some((op, operands)) = graph.composite(id) {
            let operands = operands.iter().map(|&operand| images.get(operand));
            let operands = operands.collect::<Option<Vec<_>>>();
            result.note_composite(image.id(), &op, &operands.expect("operands come first"));
        }
    }
    for (name, id) in graph.outputs() {
        result.output(
            &name,
            result.tensor(images.get(id).expect("every node has an image")),
        );
    }
    for (variable, value) in graph.updates() {
        let image = |id| result.tensor(images.get(id).expect("every node has an image"));
        result.update(image(variable), image(value));
    }
    drop(nodes);
    (result, images)
}

fn copy<'g>(result: &'g Graph, node: &Node, images: &Images) -> Tensor<'g> {
    let operands: Vec<Tensor<'g>> = node
        .inputs
        .iter()
        .map(|&input| result.tensor(images.get(input).expect("operands come first")))
        .collect();
    primitive(result, node, &operands)
}

/// An op applied to operands: itself if it is a primitive, else its expansion's primitives.
fn primitive<'g>(result: &'g Graph, node: &Node, operands: &[Tensor<'g>]) -> Tensor<'g> {
    let Lowering::Expand(expansion) = node.op.def.lowering else {
        return result.apply(node.op.def, node.op.attributes.clone(), operands);
    };
    // An expansion may name composites again; build it aside, then copy what it is made of.
    let aside = Graph::new();
    let stand_ins: Vec<Tensor<'_>> = operands
        .iter()
        .enumerate()
        .map(|(index, operand)| aside.input(&index.to_string(), operand.shape(), operand.dtype()))
        .collect();
    let root = expansion(&node.op.attributes, &stand_ins);
    let nodes = aside.nodes();
    let known = stand_ins
        .iter()
        .zip(operands)
        .map(|(inner, outer)| (inner.id(), outer.id()))
        .collect();
    let mut images = Images::new(nodes.len(), known);
    for (index, node) in nodes.iter().enumerate() {
        let id = NodeId::new(index);
        if images.get(id).is_none() {
            images.set(id, copy(result, node, &images).id());
        }
    }
    let image = images.get(root.id());
    let image = image.expect("the expansion is part of its graph");
    if matches!(node.op.def.vjp, Vjp::Rule(_)) {
        let operands: Vec<NodeId> = operands.iter().map(|operand| operand.id()).collect();
        result.note_composite(image, &node.op, &operands);
    }
    result.tensor(image)
}
