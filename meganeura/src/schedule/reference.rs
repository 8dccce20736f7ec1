use crate::ir::{Attributes, Graph, Layout, Lowering, Node, NodeId};

/// A value seen through views: element `i` of the node is the element of `base` that
/// `layout` points at.
#[derive(Clone, Debug)]
pub struct Reference {
    /// What the views look at: no view itself, unless it has to be copied.
    pub base: NodeId,
    /// How they look at it.
    pub layout: Layout,
}

/// Every node as a reference, and the views that only a copy can provide.
pub struct References {
    /// By node.
    pub of: Vec<Reference>,
    /// For each view that has to be copied: what it copies.
    pub copies: Vec<Option<Reference>>,
}

impl References {
    /// Resolve all views of a graph; those in `stored` must exist as memory of their own.
    pub fn of_graph(graph: &Graph, stored: &[NodeId]) -> References {
        let nodes = graph.nodes();
        let mut references = References {
            of: Vec::with_capacity(nodes.len()),
            copies: vec![None; nodes.len()],
        };
        for (index, node) in nodes.iter().enumerate() {
            let reference = references.resolve(&nodes, NodeId::new(index), node);
            references.of.push(reference);
            if matches!(
                node.op.def.lowering,
                Lowering::Gather | Lowering::ScatterAdd
            ) {
                references.make_dense(&nodes, &node.inputs);
            }
            if stored.contains(&NodeId::new(index)) {
                references.make_dense(&nodes, &[NodeId::new(index)]);
            }
        }
        references
    }

    fn resolve(&mut self, nodes: &[Node], id: NodeId, node: &Node) -> Reference {
        match node.op.def.lowering {
            Lowering::View(view) => {
                let operand = node.inputs[0];
                let attributes = &node.op.attributes;
                let seen = view(attributes, &self.of[operand.index()].layout, &node.ty.shape);
                let layout = seen.unwrap_or_else(|| {
                    self.copy(nodes, operand);
                    let whole = Layout::contiguous(&nodes[operand.index()].ty.shape);
                    view(attributes, &whole, &node.ty.shape).unwrap_or(whole)
                });
                Reference {
                    base: self.of[operand.index()].base,
                    layout,
                }
            }
            // An index is its own address along one axis.
            Lowering::Index => Reference {
                base: id,
                layout: index_layout(node),
            },
            _ => Reference {
                base: id,
                layout: Layout::contiguous(&node.ty.shape),
            },
        }
    }

    /// Give views that are not their base as it lies memory of their own.
    fn make_dense(&mut self, nodes: &[Node], operands: &[NodeId]) {
        for &operand in operands {
            let Reference { base, layout } = &self.of[operand.index()];
            let whole =
                nodes[base.index()].ty.shape.elements() == layout.dims.iter().product::<usize>();
            if *base != operand && !(whole && layout.is_contiguous()) {
                self.copy(nodes, operand);
            }
        }
    }

    fn copy(&mut self, nodes: &[Node], id: NodeId) {
        if self.copies[id.index()].is_none() {
            let layout = Layout::contiguous(&nodes[id.index()].ty.shape);
            let source =
                std::mem::replace(&mut self.of[id.index()], Reference { base: id, layout });
            self.copies[id.index()] = Some(source);
        }
    }
}

fn index_layout(node: &Node) -> Layout {
    let dims = node.ty.shape.dims().to_vec();
    let mut strides = vec![0; dims.len()];
    if let Attributes::ShapeAxis(_, axis) = &node.op.attributes {
        strides[*axis] = 1;
    }
    Layout {
        dims,
        strides,
        offset: 0,
    }
}
