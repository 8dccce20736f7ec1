//! Work on what is put together, done on the pieces instead.
//!
//! The gradient of a pool, say, is put together of pieces: one for each place of a window.
//! Where they interleave, every later elementwise step would read the whole again. Here such
//! steps move into the pieces, and so do sums over everything that the pieces take turns in;
//! a whole that is put into a larger one (with a border of zeros) is put there by its pieces.
//! What is left are elementwise nodes over windows, which one kernel computes and stores in
//! their places.

use super::Images;
use super::region::{assemble, take};
use crate::ir::{Assembly, Combine, DType, Graph, Lowering, Node, NodeId, Shape, Steps, Tensor};

/// Of more pieces the kernel would be long rather than fast.
const MOST: usize = 16;

/// A node of the old graph in pieces of the new one.
#[derive(Clone)]
struct Pieces {
    places: Vec<Vec<Steps>>,
    values: Vec<NodeId>,
}

/// The same graph with elementwise work on interleaved pieces done piece by piece; none where
/// there are no such pieces.
pub fn apart(graph: &Graph) -> Option<Graph> {
    let nodes = graph.nodes();
    if !nodes.iter().any(|node| interleaved(node).is_some()) {
        return None;
    }
    let (result, leaves) = graph.successor();
    let mut moving = Moving {
        old: &nodes,
        images: Images::new(nodes.len(), leaves),
        pieces: vec![None; nodes.len()],
        users: users(graph),
        result: &result,
    };
    for (index, node) in nodes.iter().enumerate() {
        let id = NodeId::new(index);
        if moving.images.get(id).is_none() {
            result.in_scope(node.scope, || moving.node(id, node));
        }
    }
    for (name, id) in graph.outputs() {
        result.output(&name, moving.image(id));
    }
    for (variable, value) in graph.updates() {
        result.update(moving.image(variable), moving.image(value));
    }
    Some(result)
}

/// How a node is put together, if of alike pieces that take turns and leave no gap.
fn interleaved(node: &Node) -> Option<&Assembly> {
    if !matches!(node.op.def.lowering, Lowering::Assemble) || node.ty.dtype != DType::F32 {
        return None;
    }
    let assembly = node.op.attributes.as_assembly()?;
    let counts = |place: &[Steps]| place.iter().map(|steps| steps.count).collect::<Vec<_>>();
    let first = counts(assembly.pieces.first()?);
    let mut steps = assembly.pieces.iter().flatten();
    let alike = steps.any(|steps| steps.step > 1 && steps.count > 1)
        && assembly.pieces.iter().all(|place| counts(place) == first);
    (alike && assembly.pieces.len() <= MOST && assembly.is_covered()).then_some(assembly)
}

struct Moving<'g> {
    old: &'g [Node],
    images: Images,
    pieces: Vec<Option<Pieces>>,
    users: Vec<usize>,
    result: &'g Graph,
}

/// How often each node is used.
fn users(graph: &Graph) -> Vec<usize> {
    let nodes = graph.nodes();
    let mut users = vec![0; nodes.len()];
    let outputs = graph.outputs().into_iter().map(|(_, id)| id);
    let updates = graph.updates().into_iter().map(|(_, value)| value);
    let inputs = nodes.iter().flat_map(|node| node.inputs.iter().copied());
    for id in inputs.chain(outputs).chain(updates) {
        users[id.index()] += 1;
    }
    users
}

impl<'g> Moving<'g> {
    fn node(&mut self, id: NodeId, node: &Node) {
        let pieces = match node.op.def.lowering {
            Lowering::Assemble => match interleaved(node) {
                Some(assembly) => Some(self.assembled(node, assembly)),
                None => return self.placed(id, node),
            },
            Lowering::Pointwise(_) => self.pointwise(node),
            Lowering::Reduce(combine) => return self.reduced(id, node, combine),
            _ => None,
        };
        match pieces {
            Some(pieces) => self.pieces[id.index()] = Some(pieces),
            None => self.copied(id, node),
        }
    }

    /// The whole of a node of the old graph.
    fn image(&mut self, id: NodeId) -> Tensor<'g> {
        if let Some(image) = self.images.get(id) {
            return self.result.tensor(image);
        }
        let node = &self.old[id.index()];
        let pieces = self.pieces[id.index()].as_ref();
        let pieces = pieces.expect("a node is whole or in pieces");
        let values = pieces.values.iter().map(|&value| self.result.tensor(value));
        let values: Vec<_> = values.zip(pieces.places.iter().cloned()).collect();
        let whole = self
            .result
            .in_scope(node.scope, || assemble(&values, &node.ty.shape, 0.0));
        self.images.set(id, whole.id());
        whole
    }

    fn copied(&mut self, id: NodeId, node: &Node) {
        let operands: Vec<_> = node.inputs.iter().map(|&input| self.image(input)).collect();
        let attributes = node.op.attributes.clone();
        let image = self.result.apply(node.op.def, attributes, &operands);
        self.images.set(id, image.id());
    }

    fn assembled(&mut self, node: &Node, assembly: &Assembly) -> Pieces {
        let values = node.inputs.iter().map(|&input| self.image(input).id());
        Pieces {
            values: values.collect(),
            places: assembly.pieces.clone(),
        }
    }

    /// An elementwise node in the pieces of its operands, if there are any.
    fn pointwise(&mut self, node: &Node) -> Option<Pieces> {
        let whole = |input: &NodeId| self.old[input.index()].ty.shape == node.ty.shape;
        let mut pieces = node.inputs.iter();
        let pieces = pieces.find_map(|input| self.pieces[input.index()].clone())?;
        if !node.inputs.iter().all(whole) {
            return None;
        }
        let operands: Vec<Vec<NodeId>> = node
            .inputs
            .iter()
            .map(|&input| self.at(input, &pieces.places))
            .collect();
        let values = (0..pieces.places.len()).map(|index| {
            let operands = operands
                .iter()
                .map(|operand| self.result.tensor(operand[index]));
            let operands: Vec<_> = operands.collect();
            let attributes = node.op.attributes.clone();
            self.result.apply(node.op.def, attributes, &operands).id()
        });
        Some(Pieces {
            values: values.collect(),
            places: pieces.places,
        })
    }

    /// A value at each of these places.
    fn at(&mut self, id: NodeId, places: &[Vec<Steps>]) -> Vec<NodeId> {
        if let Some(pieces) = &self.pieces[id.index()]
            && pieces.places == places
        {
            return pieces.values.clone();
        }
        let place = |place: &Vec<Steps>| self.part(id, place).id();
        places.iter().map(place).collect()
    }

    /// A part of a value: if nobody else wants it and it is made of one value and numbers, made
    /// of a part of that value.
    fn part(&mut self, id: NodeId, place: &[Steps]) -> Tensor<'g> {
        let node = &self.old[id.index()];
        let numbers = |input: &&NodeId| !self.is_number(**input);
        let elementwise = matches!(node.op.def.lowering, Lowering::Pointwise(_));
        if elementwise
            && self.users[id.index()] == 1
            && node.inputs.iter().filter(numbers).count() <= 1
        {
            let parts: Vec<_> = node
                .inputs
                .iter()
                .map(|&input| self.part(input, place))
                .collect();
            return self
                .result
                .apply(node.op.def, node.op.attributes.clone(), &parts);
        }
        take(self.image(id), place.to_vec())
    }

    /// Whether a value is a number seen everywhere.
    fn is_number(&self, id: NodeId) -> bool {
        let node = &self.old[id.index()];
        match node.op.def.lowering {
            Lowering::Constant => true,
            Lowering::View(_) => self.is_number(node.inputs[0]),
            _ => false,
        }
    }

    /// A reduction over all that the pieces take turns in: the pieces meet first.
    fn reduced(&mut self, id: NodeId, node: &Node, combine: Combine) {
        let operand = node.inputs[0];
        let shape = &self.old[operand.index()].ty.shape;
        let axes = node.op.attributes.as_axes();
        let Some(pieces) = self.pieces[operand.index()].clone() else {
            return self.copied(id, node);
        };
        let meet = |place: &Vec<Steps>| {
            let axis = |(axis, &steps): (usize, &Steps)| {
                steps == Steps::all(shape.dims()[axis]) || axes.contains(&axis)
            };
            place.iter().enumerate().all(axis)
        };
        if !pieces.places.iter().all(meet) {
            return self.copied(id, node);
        }
        let values = pieces.values.iter().map(|&value| self.result.tensor(value));
        let together = values.reduce(|a, b| match combine {
            Combine::Sum => a + b,
            Combine::Maximum => a.maximum(b),
        });
        let together = together.expect("at least one piece");
        let attributes = node.op.attributes.clone();
        let image = self.result.apply(node.op.def, attributes, &[together]);
        self.images.set(id, image.id());
    }

    /// A whole put into a larger one: by its pieces.
    fn placed(&mut self, id: NodeId, node: &Node) {
        let known = node
            .inputs
            .iter()
            .any(|input| self.pieces[input.index()].is_some());
        let Some(assembly) = node.op.attributes.as_assembly().filter(|_| known) else {
            return self.copied(id, node);
        };
        let mut placed = Vec::new();
        for (&input, outer) in node.inputs.iter().zip(&assembly.pieces) {
            let Some(pieces) = self.pieces[input.index()].clone() else {
                placed.push((self.image(input), outer.clone()));
                continue;
            };
            for (&value, place) in pieces.values.iter().zip(&pieces.places) {
                let steps = outer.iter().zip(place);
                let place = steps.map(|(&outer, &inner)| outer.of(inner)).collect();
                placed.push((self.result.tensor(value), place));
            }
        }
        let shape: &Shape = &assembly.shape;
        let image = assemble(&placed, shape, assembly.fill.value());
        self.images.set(id, image.id());
    }
}
