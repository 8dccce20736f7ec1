use super::axes::ContractAxes;
use crate::ir::{Attributes, Graph, Layout, Lowering, Node, NodeId, Shape};

/// A view of a layout, as [`Lowering::View`] holds it.
type View = fn(&Attributes, &Layout, &Shape) -> Option<Layout>;

/// A value seen through views: element `i` of the node, in row-major order, is the element of
/// `base` that `layout` points at.
#[derive(Clone, Debug)]
pub struct Reference {
    /// What the views look at: no view itself, unless it has to be copied.
    pub base: NodeId,
    /// How they look at it; finer than the node's shape if that is compound.
    pub layout: Layout,
    /// Where axes of the node consist of several of the layout's, since no strides express
    /// them. Only contractions read such a value as it lies.
    pub compound: Option<Compound>,
}

/// How the axes of a node are made of those of its layout.
#[derive(Clone, Debug)]
pub struct Compound {
    /// For each axis of the node, how many of the layout's it consists of.
    counts: Vec<usize>,
    /// The value whose copy would make strides express them.
    origin: NodeId,
}

impl Reference {
    /// A value whose axes are the layout's.
    pub fn plain(base: NodeId, layout: Layout) -> Reference {
        Reference {
            base,
            layout,
            compound: None,
        }
    }

    /// The sizes that each axis of the node consists of.
    pub fn axes(&self) -> Vec<&[usize]> {
        let mut rest = &self.layout.dims[..];
        self.counts()
            .into_iter()
            .map(|count| {
                let (axis, others) = rest.split_at(count);
                rest = others;
                axis
            })
            .collect()
    }

    fn counts(&self) -> Vec<usize> {
        match &self.compound {
            Some(compound) => compound.counts.clone(),
            None => vec![1; self.layout.dims.len()],
        }
    }

    /// The same value through one more view, where axes of `origin`'s layout suffice.
    fn viewed(
        &self,
        origin: NodeId,
        view: impl Fn(&Layout, &Shape) -> Option<Layout>,
        from: &Shape,
        to: &Shape,
    ) -> Option<Reference> {
        let origin = self.compound.as_ref().map_or(origin, |known| known.origin);
        let whole = view(&Layout::contiguous(from), to)?;
        let (layout, counts) = if whole.is_contiguous() && from.elements() == to.elements() {
            regrouped(&self.layout, to)?
        } else {
            self.rearranged(&view, from, to)?
        };
        let compound = Some(Compound { counts, origin });
        Some(Reference {
            base: self.base,
            layout,
            compound,
        })
    }

    /// The axes in another order, some perhaps repeated along new ones: what the view does
    /// with a layout whose strides name their axes.
    fn rearranged(
        &self,
        view: impl Fn(&Layout, &Shape) -> Option<Layout>,
        from: &Shape,
        to: &Shape,
    ) -> Option<(Layout, Vec<usize>)> {
        let (dims, counts) = (from.dims(), self.counts());
        let named = Layout {
            dims: dims.to_vec(),
            strides: (NAME..).take(dims.len()).collect(),
            offset: 0,
        };
        let seen = view(&named, to)?;
        if seen.offset != 0 {
            return None;
        }
        let mut layout = Layout {
            dims: Vec::new(),
            strides: Vec::new(),
            offset: self.layout.offset,
        };
        let mut new_counts = Vec::new();
        for (&dim, &stride) in seen.dims.iter().zip(&seen.strides) {
            if stride == 0 || dim == 1 {
                layout.dims.push(dim);
                layout.strides.push(0);
                new_counts.push(1);
                continue;
            }
            let axis = named.strides.iter().position(|name| *name == stride)?;
            if dims[axis] != dim {
                return None;
            }
            let first: usize = counts[..axis].iter().sum();
            let own = first..first + counts[axis];
            layout.dims.extend(&self.layout.dims[own.clone()]);
            layout.strides.extend(&self.layout.strides[own]);
            new_counts.push(counts[axis]);
        }
        Some((layout, new_counts))
    }
}

/// The stride that names the first axis, larger than the number of axes: no multiple of one
/// looks like another.
const NAME: usize = 1 << 24;

/// The same elements in the same order, with the axes of a layout cut and gathered so that
/// each axis of a shape consists of some; how many of them.
fn regrouped(layout: &Layout, shape: &Shape) -> Option<(Layout, Vec<usize>)> {
    let axes = layout
        .dims
        .iter()
        .copied()
        .zip(layout.strides.iter().copied());
    let mut open: Vec<(usize, usize)> = axes.filter(|&(dim, _)| dim != 1).collect();
    let (mut dims, mut strides, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for &size in shape.dims().iter().rev() {
        let mut rest = size;
        let before = dims.len();
        while rest > 1 {
            let (dim, stride) = open.pop()?;
            let taken = if rest % dim == 0 { dim } else { rest };
            if dim % taken != 0 {
                return None;
            }
            if taken < dim {
                open.push((dim / taken, stride * taken));
            }
            dims.push(taken);
            strides.push(stride);
            rest /= taken;
        }
        if dims.len() == before {
            dims.push(size);
            strides.push(0);
        }
        counts.push(dims.len() - before);
    }
    for list in [&mut dims, &mut strides, &mut counts] {
        list.reverse();
    }
    let offset = layout.offset;
    let layout = Layout {
        dims,
        strides,
        offset,
    };
    Some((layout, counts))
}

/// Every node as a reference, and the views that only a copy can provide.
pub struct References {
    /// By node.
    pub of: Vec<Reference>,
    /// For each view that has to be copied: what it copies.
    pub copies: Vec<Option<Reference>>,
}

impl References {
    /// Resolve all views of a graph; those in `stored` must exist as memory of their own. Only
    /// `live` nodes count as readers.
    pub fn of_graph(graph: &Graph, live: &[bool], stored: &[NodeId]) -> References {
        let nodes = graph.nodes();
        let mut dense = vec![false; nodes.len()];
        loop {
            let (references, wanted) = References::resolved(&nodes, live, stored, &dense);
            // Whoever else reads a compound value wants a copy, which contractions then read
            // too.
            if wanted.is_empty() {
                return references;
            }
            for id in wanted {
                dense[id.index()] = true;
            }
        }
    }

    /// One attempt, with the values `dense` copied where an axis would become compound; what
    /// else has to be copied.
    fn resolved(
        nodes: &[Node],
        live: &[bool],
        stored: &[NodeId],
        dense: &[bool],
    ) -> (References, Vec<NodeId>) {
        let mut references = References {
            of: Vec::with_capacity(nodes.len()),
            copies: vec![None; nodes.len()],
        };
        let mut wanted = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let id = NodeId::new(index);
            if !live[index] {
                let layout = Layout::contiguous(&node.ty.shape);
                references.of.push(Reference::plain(id, layout));
                continue;
            }
            let reference = references.resolve(nodes, id, node, dense, &mut wanted);
            references.of.push(reference);
            references.refuse_compounds(node, &mut wanted);
            if matches!(
                node.op.def.lowering,
                Lowering::Gather | Lowering::ScatterAdd
            ) {
                references.make_dense(nodes, &node.inputs);
            }
            if stored.contains(&id) {
                wanted.extend(references.origin(id));
                references.make_dense(nodes, &[id]);
            }
        }
        (references, wanted)
    }

    fn origin(&self, id: NodeId) -> Option<NodeId> {
        let compound = self.of[id.index()].compound.as_ref();
        compound.map(|compound| compound.origin)
    }

    /// List what has to be copied since a node reads compound values and cannot.
    fn refuse_compounds(&self, node: &Node, wanted: &mut Vec<NodeId>) {
        let reads = match node.op.def.lowering {
            Lowering::View(_) => true,
            Lowering::Contract => {
                let [left, right] = [0, 1].map(|side| &self.of[node.inputs[side].index()]);
                ContractAxes::of(left, right).is_some()
            }
            _ => false,
        };
        if !reads {
            wanted.extend(node.inputs.iter().filter_map(|&input| self.origin(input)));
        }
    }

    fn resolve(
        &mut self,
        nodes: &[Node],
        id: NodeId,
        node: &Node,
        dense: &[bool],
        wanted: &mut Vec<NodeId>,
    ) -> Reference {
        match node.op.def.lowering {
            Lowering::View(view) => self.view(nodes, node, view, dense, wanted),
            // An index is its own address along one axis.
            Lowering::Index => Reference::plain(id, index_layout(node)),
            _ => Reference::plain(id, Layout::contiguous(&node.ty.shape)),
        }
    }

    fn view(
        &mut self,
        nodes: &[Node],
        node: &Node,
        view: View,
        dense: &[bool],
        wanted: &mut Vec<NodeId>,
    ) -> Reference {
        let operand = node.inputs[0];
        let (from, to) = (&nodes[operand.index()].ty.shape, &node.ty.shape);
        let view = |layout: &Layout, shape: &Shape| view(&node.op.attributes, layout, shape);
        let seen = &self.of[operand.index()];
        if seen.compound.is_none()
            && let Some(layout) = view(&seen.layout, to)
        {
            return Reference::plain(seen.base, layout);
        }
        if !dense[operand.index()]
            && let Some(reference) = seen.viewed(operand, view, from, to)
        {
            return reference;
        }
        // A compound value cannot be copied itself: what it is made of is.
        match self.origin(operand) {
            Some(origin) => wanted.push(origin),
            None => self.copy(nodes, operand),
        }
        let whole = Layout::contiguous(from);
        let layout = view(&whole, to).unwrap_or(whole);
        Reference::plain(operand, layout)
    }

    /// Give views that are not their base as it lies memory of their own.
    fn make_dense(&mut self, nodes: &[Node], operands: &[NodeId]) {
        for &operand in operands {
            let Reference { base, layout, .. } = &self.of[operand.index()];
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
            let whole = Reference::plain(id, layout);
            let source = std::mem::replace(&mut self.of[id.index()], whole);
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
