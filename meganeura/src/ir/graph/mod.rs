//! The arena of nodes: `scope` knows where in the model they stand, `interface` what comes from
//! outside and goes there.

mod interface;
mod scope;
mod tensor;

use std::cell::{Ref, RefCell};
use std::fmt;

use rustc_hash::FxHashMap;

use super::treatment::Current;
use super::{Attributes, DType, Lowering, Op, OpDef, TensorType};

pub use interface::{IndexBound, Variable, VariableKind};
pub use scope::LayerRecord;
pub use tensor::Tensor;

/// The place of a node in its graph's arena. Operands come before their users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The node at an arena position.
    pub fn new(index: usize) -> NodeId {
        NodeId(u32::try_from(index).expect("fewer than 2^32 nodes"))
    }

    /// The position in the arena.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One value of a graph: an op applied to earlier values.
#[derive(Clone, Debug)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// From which values.
    pub inputs: Vec<NodeId>,
    /// The type of the result.
    pub ty: TensorType,
    /// The layer it belongs to, as an index into [`Graph::scope_path`]; a gradient belongs to
    /// the layer of the op it is the gradient of.
    pub scope: u32,
}
/// What went wrong where while a graph was built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct GraphError {
    /// The layer path, empty at the top.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// An arena of nodes: what a model means.
///
/// Equal nodes are one node. Building is infallible: an op that does not fit poisons its
/// result, and [`Graph::errors`] tells all that went wrong with the layer's path.
///
/// ```
/// use meganeura::ir::{DType, Graph};
///
/// let graph = Graph::new();
/// let x = graph.input("x", [4, 3], DType::F32);
/// let y = (x * 2.0 + 1.0).tanh();
/// assert_eq!(y.shape().dims(), [4, 3]);
/// assert!(graph.errors().is_empty());
///
/// let z = graph.input("z", [5], DType::F32);
/// assert!((x + z).is_poisoned());
/// assert_eq!(graph.errors()[0].to_string(), "`add` cannot combine [4, 3] and [5]");
/// ```
#[derive(Default)]
pub struct Graph {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    nodes: Vec<Node>,
    known: FxHashMap<(Op, Vec<NodeId>), NodeId>,
    variables: Vec<(Variable, NodeId)>,
    inputs: Vec<(String, NodeId)>,
    outputs: Vec<(String, NodeId)>,
    updates: Vec<(NodeId, NodeId)>,
    bounds: Vec<IndexBound>,
    errors: Vec<GraphError>,
    scopes: Vec<String>,
    current: u32,
    treatment: Current,
    /// The layers that are computed again for the backward pass, by what is inside them.
    recomputed: FxHashMap<u32, u32>,
    training: bool,
    composites: FxHashMap<NodeId, (Op, Vec<NodeId>)>,
    layers: Vec<LayerRecord>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Graph {
        let graph = Graph::default();
        graph.inner.borrow_mut().scopes.push(String::new());
        graph
    }

    /// A graph without nodes in which layers do what they do in training only: normalize by the
    /// batch and update running statistics, drop values at random.
    pub fn training() -> Graph {
        let graph = Graph::new();
        graph.inner.borrow_mut().training = true;
        graph
    }

    /// Whether layers are to do what they do in training only.
    pub fn is_training(&self) -> bool {
        self.inner.borrow().training
    }

    /// Apply an op. Elementwise operands are broadcast to one shape first.
    pub fn apply<'g>(
        &'g self,
        def: &'static OpDef,
        attributes: Attributes,
        operands: &[Tensor<'g>],
    ) -> Tensor<'g> {
        if operands.iter().any(|operand| operand.is_poisoned()) {
            return self.poisoned();
        }
        let types: Vec<TensorType> = operands.iter().map(|operand| operand.ty()).collect();
        match (def.shape)(&attributes, &types) {
            Ok(ty) if ty.dtype == DType::BF16 => self.fail(format!(
                "`{}` is to make {ty}: tensors are f32, plans keep them as bf16",
                def.name
            )),
            Ok(ty) => {
                let inputs: Vec<NodeId> = match def.lowering {
                    Lowering::Pointwise(_) => operands
                        .iter()
                        .map(|operand| operand.broadcast(&ty.shape).id)
                        .collect(),
                    _ => operands.iter().map(|operand| operand.id).collect(),
                };
                self.push(Op { def, attributes }, inputs, ty)
            }
            Err(message) => self.fail(format!("`{}` {message}", def.name)),
        }
    }

    /// Add a node whose type is known to be right; equal nodes are one.
    fn push(&self, op: Op, inputs: Vec<NodeId>, ty: TensorType) -> Tensor<'_> {
        let mut inner = self.inner.borrow_mut();
        let key = (op, inputs);
        if let Some(&id) = inner.known.get(&key) {
            return Tensor { graph: self, id };
        }
        let id = NodeId::new(inner.nodes.len());
        let scope = inner.current;
        inner.nodes.push(Node {
            op: key.0.clone(),
            inputs: key.1.clone(),
            ty,
            scope,
        });
        inner.known.insert(key, id);
        Tensor { graph: self, id }
    }

    /// Remember an error at the current layer and return a poisoned tensor.
    pub fn fail(&self, message: impl Into<String>) -> Tensor<'_> {
        let path = self.path();
        self.inner.borrow_mut().errors.push(GraphError {
            path,
            message: message.into(),
        });
        self.poisoned()
    }

    fn poisoned(&self) -> Tensor<'_> {
        Tensor {
            graph: self,
            id: NodeId(u32::MAX),
        }
    }

    /// All that went wrong so far, in order.
    pub fn errors(&self) -> Vec<GraphError> {
        self.inner.borrow().errors.clone()
    }

    /// Note that a node is the result of a composite with a gradient of its own, which holds
    /// in place of that of what it was expanded to.
    pub fn note_composite(&self, result: NodeId, op: &Op, operands: &[NodeId]) {
        // A composite that is one of its operands, or made of other things, has none to give.
        if operands.iter().all(|operand| *operand < result) {
            let noted = (op.clone(), operands.to_vec());
            self.inner.borrow_mut().composites.insert(result, noted);
        }
    }

    /// The composite with a gradient of its own that a node is the result of, and its operands.
    pub fn composite(&self, result: NodeId) -> Option<(Op, Vec<NodeId>)> {
        self.inner.borrow().composites.get(&result).cloned()
    }

    /// The nodes, operands before users.
    pub fn nodes(&self) -> Ref<'_, [Node]> {
        Ref::map(self.inner.borrow(), |inner| inner.nodes.as_slice())
    }

    /// For each node, whether an output or an update depends on it.
    pub fn live(&self) -> Vec<bool> {
        let nodes = self.nodes();
        let mut live = vec![false; nodes.len()];
        let outputs = self.outputs().into_iter().map(|(_, id)| id);
        let updates = self.updates().into_iter().map(|(_, value)| value);
        for id in outputs.chain(updates) {
            live[id.index()] = true;
        }
        for index in (0..nodes.len()).rev() {
            if live[index] {
                for input in &nodes[index].inputs {
                    live[input.index()] = true;
                }
            }
        }
        live
    }

    /// The handle of a node.
    pub fn tensor(&self, id: NodeId) -> Tensor<'_> {
        Tensor { graph: self, id }
    }
}
