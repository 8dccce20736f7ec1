//! Values computed alike: the same ops on operands that correspond.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Graph, Layout, Lowering, Node, NodeId, Op, ScalarOp, Shape, Variable};

/// A graph seen for what is alike in it.
pub(super) struct Alike {
    pub nodes: Vec<Node>,
    /// Nodes that an output or an update depends on.
    pub live: Vec<bool>,
    /// The live nodes that read each node, once for each operand, and one more for each output
    /// and update.
    pub readers: Vec<Vec<Option<NodeId>>>,
    /// The variables by their leaves.
    pub variables: FxHashMap<NodeId, Variable>,
    /// What each updated variable becomes.
    pub updates: FxHashMap<NodeId, NodeId>,
}

/// How values that are computed alike can be had side by side along their last axis.
pub(super) enum Step {
    /// They are variables.
    Variables,
    /// One op, elementwise, on operands that correspond.
    Pointwise(Op, Vec<Vec<NodeId>>),
    /// One value that is the same in every column.
    Repeated(NodeId),
    /// Values that correspond, repeated along other axes.
    Broadcast(Vec<NodeId>),
    /// Values that correspond, with other axes before the last.
    Reshape(Vec<NodeId>),
    /// One left operand in products with right operands that correspond.
    Product(NodeId, Vec<NodeId>),
    /// Sums over rows: small enough to be put side by side.
    Sums,
}

impl Alike {
    pub(super) fn new(graph: &Graph) -> Alike {
        let nodes = graph.nodes().to_vec();
        let mut readers: Vec<Vec<Option<NodeId>>> = vec![Vec::new(); nodes.len()];
        let mut live = vec![false; nodes.len()];
        let outputs = graph.outputs().into_iter().map(|(_, id)| id);
        let updates: FxHashMap<NodeId, NodeId> = graph.updates().into_iter().collect();
        for id in outputs.chain(updates.values().copied()) {
            live[id.index()] = true;
            readers[id.index()].push(None);
        }
        for index in (0..nodes.len()).rev() {
            if live[index] {
                for input in &nodes[index].inputs {
                    live[input.index()] = true;
                    readers[input.index()].push(Some(NodeId::new(index)));
                }
            }
        }
        let variables = graph.variables().into_iter();
        Alike {
            nodes,
            live,
            readers,
            variables: variables.map(|(variable, id)| (id, variable)).collect(),
            updates,
        }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(super) fn shape(&self, id: NodeId) -> &Shape {
        &self.node(id).ty.shape
    }

    /// The live nodes in order.
    pub(super) fn live(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(index, _)| self.live[*index])
            .map(|(index, node)| (NodeId::new(index), node))
    }

    /// The operands of a product of two matrices.
    pub(super) fn product(&self, id: NodeId) -> Option<[NodeId; 2]> {
        let node = self.node(id);
        let is = matches!(node.op.def.lowering, Lowering::Contract) && node.ty.shape.rank() == 2;
        is.then(|| [node.inputs[0], node.inputs[1]])
    }

    /// The matrix that a node is the transpose of.
    pub(super) fn transposed(&self, id: NodeId) -> Option<NodeId> {
        let [of] = self.node(id).inputs[..] else {
            return None;
        };
        let plain = Layout::contiguous(self.shape(of));
        (plain.dims.len() == 2 && self.seen(id)? == plain.permuted(&[1, 0])).then_some(of)
    }

    /// The operands of an addition.
    pub(super) fn addends(&self, id: NodeId) -> Option<[NodeId; 2]> {
        let node = self.node(id);
        let is = matches!(node.op.def.lowering, Lowering::Pointwise(ScalarOp::Add));
        is.then(|| [node.inputs[0], node.inputs[1]])
    }

    /// How a view sees a whole operand.
    fn seen(&self, id: NodeId) -> Option<Layout> {
        let node = self.node(id);
        let Lowering::View(layout) = node.op.def.lowering else {
            return None;
        };
        let plain = Layout::contiguous(self.shape(node.inputs[0]));
        layout(&node.op.attributes, &plain, &node.ty.shape)
    }

    /// The operand of a view that keeps columns and the order of all elements.
    pub(super) fn regrouped(&self, id: NodeId) -> Option<NodeId> {
        let seen = self.seen(id)?;
        let (of, to) = (self.node(id).inputs[0], self.shape(id));
        let from = self.shape(of);
        let keeps = from.rank() > 0
            && to.rank() > 0
            && from.last() == to.last()
            && from.elements() == to.elements();
        (keeps && seen.is_contiguous()).then_some(of)
    }

    /// The operands in the same place of every node.
    fn operands(&self, ids: &[NodeId], place: usize) -> Vec<NodeId> {
        ids.iter().map(|&id| self.node(id).inputs[place]).collect()
    }

    /// How values stand side by side, if they are computed alike and agree in all sizes but the
    /// last.
    pub(super) fn step(&self, ids: &[NodeId]) -> Option<Step> {
        let first = self.node(ids[0]);
        let lead = |id: NodeId| self.shape(id).dims().split_last().map(|(_, lead)| lead);
        let op = &first.op;
        lead(ids[0])?;
        let alike = ids.iter().all(|&id| {
            let other = self.node(id);
            lead(id) == lead(ids[0])
                && other.ty.dtype == first.ty.dtype
                && other.op.def.name == op.def.name
                && other.inputs.len() == first.inputs.len()
        });
        if !alike {
            return None;
        }
        let same_attributes = || ids.iter().all(|&id| self.node(id).op == *op);
        match op.def.lowering {
            Lowering::Leaf => {
                let variables = ids.iter().all(|id| self.variables.contains_key(id));
                variables.then_some(Step::Variables)
            }
            Lowering::Pointwise(_) if same_attributes() => {
                let operands = 0..first.inputs.len();
                let operands = operands.map(|place| self.operands(ids, place)).collect();
                Some(Step::Pointwise(op.clone(), operands))
            }
            Lowering::View(_) => self.view_step(ids),
            Lowering::Contract => {
                let left = self.product(ids[0])?[0];
                let same = ids.iter().all(|&id| self.node(id).inputs[0] == left);
                same.then(|| Step::Product(left, self.operands(ids, 1)))
            }
            Lowering::Reduce(_) => {
                let last = first.ty.shape.rank() - 1;
                let rows = same_attributes() && !op.attributes.as_axes().contains(&last);
                rows.then_some(Step::Sums)
            }
            _ => None,
        }
    }

    fn view_step(&self, ids: &[NodeId]) -> Option<Step> {
        let sources = self.operands(ids, 0);
        let regrouped = |&id: &NodeId| self.regrouped(id).is_some();
        if ids.iter().all(regrouped) {
            return Some(Step::Reshape(sources));
        }
        let repeats = |(&id, &of): (&NodeId, &NodeId)| {
            let plain = Layout::contiguous(self.shape(of));
            let fits = self.shape(of).rank() <= self.shape(id).rank();
            fits && self.seen(id) == Some(plain.broadcast(self.shape(id)))
        };
        if !ids.iter().zip(&sources).all(repeats) {
            return None;
        }
        let columns = |id: NodeId| self.shape(id).dims().last().copied().unwrap_or(1);
        if sources.iter().all(|&of| of == sources[0]) && columns(sources[0]) == 1 {
            return Some(Step::Repeated(sources[0]));
        }
        let whole = ids.iter().zip(&sources);
        let mut whole = whole.map(|(&id, &of)| columns(id) == columns(of));
        whole.all(|whole| whole).then_some(Step::Broadcast(sources))
    }

    /// Whether values can be had side by side without a copy of anything large. Variables among
    /// them must be `accepted` as siblings; products found on the way are noted.
    pub(super) fn check(
        &self,
        ids: &[NodeId],
        accepted: &mut dyn FnMut(&[NodeId]) -> bool,
        products: &mut Vec<Vec<NodeId>>,
    ) -> bool {
        self.check_new(ids, accepted, products, &mut FxHashSet::default())
    }

    fn check_new(
        &self,
        ids: &[NodeId],
        accepted: &mut dyn FnMut(&[NodeId]) -> bool,
        products: &mut Vec<Vec<NodeId>>,
        known: &mut FxHashSet<Vec<NodeId>>,
    ) -> bool {
        if !known.insert(ids.to_vec()) {
            return true;
        }
        let Some(step) = self.step(ids) else {
            return false;
        };
        match step {
            Step::Variables => accepted(ids),
            Step::Repeated(_) | Step::Sums => true,
            Step::Pointwise(_, operands) => operands
                .iter()
                .all(|ids| self.check_new(ids, accepted, products, known)),
            Step::Broadcast(sources) | Step::Reshape(sources) => {
                self.check_new(&sources, accepted, products, known)
            }
            Step::Product(_, rights) => {
                products.push(ids.to_vec());
                match self.step(&rights) {
                    Some(Step::Variables) => accepted(&rights),
                    _ => true,
                }
            }
        }
    }

    /// What the products with sibling weights lead to, as long as it is computed alike and read
    /// by nobody else: the products themselves, or their sums with sibling biases.
    pub(super) fn ends(
        &self,
        products: &[NodeId],
        accepted: &mut dyn FnMut(&[NodeId]) -> bool,
    ) -> Vec<NodeId> {
        let (mut ends, mut now) = (products.to_vec(), products.to_vec());
        for _ in 0..3 {
            let next = now.iter().map(|id| match self.readers[id.index()][..] {
                [reader] => reader,
                _ => None,
            });
            let Some(next) = next.collect::<Option<Vec<_>>>() else {
                break;
            };
            if next[0] == next[1] || !self.check(&next, accepted, &mut Vec::new()) {
                break;
            }
            if let Some(Step::Pointwise(..)) = self.step(&next) {
                ends.clone_from(&next);
            }
            now = next;
        }
        ends
    }
}
