//! Handles of values.

use std::fmt;

use super::{Graph, NodeId};
use crate::ir::{DType, Shape, TensorType};

/// A value of a graph: a handle that is free to copy.
///
/// Arithmetic operators and methods add nodes to the graph; shapes broadcast as in NumPy.
#[derive(Clone, Copy)]
pub struct Tensor<'g> {
    pub(super) graph: &'g Graph,
    pub(super) id: NodeId,
}

impl<'g> Tensor<'g> {
    /// The graph it belongs to.
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    /// Its node.
    pub fn id(self) -> NodeId {
        self.id
    }

    /// Whether it stands for an op that did not fit; [`Graph::errors`] tells which.
    pub fn is_poisoned(self) -> bool {
        self.id == NodeId(u32::MAX)
    }

    /// Its type; that of a scalar float when poisoned.
    pub fn ty(self) -> TensorType {
        match self.graph.inner.borrow().nodes.get(self.id.index()) {
            Some(node) => node.ty.clone(),
            None => TensorType::f32([]),
        }
    }

    /// Its shape; `[]` when poisoned.
    pub fn shape(self) -> Shape {
        self.ty().shape
    }

    /// Its element type.
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_poisoned() {
            return f.write_str("poisoned");
        }
        write!(f, "%{} {}", self.id.index(), self.ty())
    }
}
