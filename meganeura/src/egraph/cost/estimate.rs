//! What a graph costs.

use super::traffic::State;
use super::{CostModel, Role, Scratch, Work, turn};
use crate::egraph::language::{Extents, MAX_RANK};
use crate::ir::{Graph, Layout, Lowering, Node, NodeId};

impl CostModel {
    /// The estimate for a graph, dead code left out.
    pub fn estimate(&self, graph: &Graph) -> Estimate {
        self.estimate_region(graph, &[])
    }

    /// After how many kernels each value of a graph is there.
    pub(in crate::egraph) fn depths(&self, graph: &Graph) -> Vec<u32> {
        let mut scratch = Scratch::default();
        self.estimate_with(graph, &[], &mut scratch);
        let count = graph.nodes().len();
        scratch.states.resize(count, State::default());
        scratch.states.iter().map(|state| state.depth).collect()
    }

    /// The estimate for a graph some of whose inputs are computed elsewhere, after as many
    /// kernels as is said.
    pub(in crate::egraph) fn estimate_region(
        &self,
        graph: &Graph,
        since: &[(NodeId, u32)],
    ) -> Estimate {
        self.estimate_with(graph, since, &mut Scratch::default())
    }

    fn estimate_with(
        &self,
        graph: &Graph,
        since: &[(NodeId, u32)],
        scratch: &mut Scratch,
    ) -> Estimate {
        let nodes = graph.nodes();
        let live = graph.live();
        let order: Vec<usize> = (0..nodes.len()).filter(|&index| live[index]).collect();
        let operands: Vec<Vec<usize>> = nodes
            .iter()
            .map(|node| node.inputs.iter().map(|input| input.index()).collect())
            .collect();
        let extents = true_extents(&nodes);
        let mut works: Vec<Work> = nodes
            .iter()
            .zip(&extents)
            .map(|(node, own)| self.work(&nodes, node, own, &extents))
            .collect();
        for (leaf, depth) in since {
            works[leaf.index()].since = Some(*depth);
        }
        let outputs = graph.outputs().into_iter().map(|(_, id)| id);
        let updates = graph.updates().into_iter().map(|(_, id)| id);
        let roots: Vec<usize> = outputs.chain(updates).map(NodeId::index).collect();
        let total = self.total(
            &order,
            &roots,
            |node| works[node],
            |node| &operands[node],
            scratch,
        );
        let mut estimate = Estimate {
            nanoseconds: total.time,
            bytes: total.bytes,
            passes: total.passes as usize,
            kernels: total.kernels as usize,
            ..Estimate::default()
        };
        for &index in &order {
            estimate.count(&nodes[index], works[index].role, &extents[index]);
        }
        estimate
    }

    fn work(&self, nodes: &[Node], node: &Node, extents: &Extents, all: &[Extents]) -> Work {
        let of = |id: &NodeId| nodes[id.index()].ty.shape.elements() as f64;
        let mut elements = node.ty.shape.elements() as f64;
        let reduced = node.inputs.first().map_or(0.0, of);
        let (role, time) = match node.op.def.lowering {
            Lowering::Leaf => (Role::Leaf, 0.0),
            Lowering::Constant | Lowering::Index => (Role::Number, 0.0),
            Lowering::Pointwise(op) => (Role::Elementwise, self.elementwise(op, extents)),
            Lowering::Reduce(_) => {
                let last = nodes[node.inputs[0].index()].ty.shape.rank() - 1;
                let rows = node.op.attributes.as_axes() == [last];
                let role = if rows {
                    Role::RowReduction
                } else {
                    Role::ColumnReduction
                };
                let operand = &all[node.inputs[0].index()];
                (role, self.reduction(operand, rows))
            }
            Lowering::View(layout) => {
                let from = &nodes[node.inputs[0].index()].ty.shape;
                let plain = Layout::contiguous(from);
                match layout(&node.op.attributes, &plain, &node.ty.shape) {
                    Some(seen) => match crate::egraph::encode::sources(&seen, from) {
                        Some(sources) => (turn(&sources), 0.0),
                        // A part of what is computed is read from memory.
                        None if node.ty.shape.elements() < from.elements() => (Role::Turn, 0.0),
                        None => (Role::View, 0.0),
                    },
                    None => (Role::Memory, self.memory(elements, elements)),
                }
            }
            Lowering::Contract => {
                let k = nodes[node.inputs[0].index()].ty.shape.last() as f64;
                let (left, right) = (reduced, of(&node.inputs[1]));
                (
                    Role::Contraction,
                    self.contraction(left, right, elements, k),
                )
            }
            Lowering::Assemble => match copied_pieces(nodes, node) {
                Some(0.0) => {
                    // Its pieces are written, it is not.
                    elements = 0.0;
                    (Role::Memory, 0.0)
                }
                copied => {
                    let copied = copied.unwrap_or(elements);
                    (Role::Memory, self.memory(copied, copied))
                }
            },
            Lowering::Gather
            | Lowering::ScatterAdd
            | Lowering::Attention(_)
            | Lowering::Expand(_) => (Role::Memory, self.memory(reduced, elements)),
        };
        Work {
            role,
            time,
            elements,
            reduced,
            since: None,
        }
    }
}

/// The elements of the pieces of an assembly that must be copied, since the kernels that compute
/// them cannot put them where they belong; all are when something else must be filled.
fn copied_pieces(nodes: &[Node], node: &Node) -> Option<f64> {
    let assembly = node.op.attributes.as_assembly();
    if !assembly.is_some_and(|assembly| assembly.is_covered()) {
        return None;
    }
    let copied = node.inputs.iter().filter(|input| {
        let mut base = &nodes[input.index()];
        while let (Lowering::View(layout), [of]) = (base.op.def.lowering, &base.inputs[..]) {
            let plain = Layout::contiguous(&nodes[of.index()].ty.shape);
            let seen = layout(&base.op.attributes, &plain, &base.ty.shape);
            if !seen.is_some_and(|seen| seen.is_contiguous()) {
                return true;
            }
            base = &nodes[of.index()];
        }
        !matches!(
            base.op.def.lowering,
            Lowering::Pointwise(_) | Lowering::Contract | Lowering::Assemble
        )
    });
    let elements = |id: &NodeId| nodes[id.index()].ty.shape.elements() as f64;
    Some(copied.map(elements).sum())
}

/// What every node really varies over: not along an axis it was repeated along.
fn true_extents(nodes: &[Node]) -> Vec<Extents> {
    let mut result: Vec<Extents> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut extents = Extents::SCALAR;
        match node.op.def.lowering {
            _ if node.ty.shape.rank() > MAX_RANK => {}
            Lowering::Pointwise(_) => {
                for input in &node.inputs {
                    extents = extents.join(&result[input.index()]);
                }
            }
            Lowering::View(layout) => {
                let from = &nodes[node.inputs[0].index()].ty.shape;
                let plain = Layout::contiguous(from);
                let seen = layout(&node.op.attributes, &plain, &node.ty.shape);
                let below = result[node.inputs[0].index()];
                match seen.and_then(|seen| crate::egraph::encode::sources(&seen, from)) {
                    Some(sources) => {
                        for (axis, &source) in sources.iter().enumerate() {
                            extents.set(axis, below.get(usize::from(source)));
                        }
                    }
                    None if below == Extents::SCALAR => {}
                    None => extents = Extents::of(&node.ty.shape),
                }
            }
            Lowering::Constant => {}
            _ => extents = Extents::of(&node.ty.shape),
        }
        result.push(extents);
    }
    result
}

/// What a graph is made of and about how long it takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The time of one run.
    pub nanoseconds: f64,
    /// Bytes between kernels.
    pub bytes: f64,
    /// Kernels.
    pub kernels: usize,
    /// The longest chain of reductions of rows that wait for each other.
    pub passes: usize,
    /// Reductions along the last axis.
    pub row_reductions: usize,
    /// Other reductions.
    pub column_reductions: usize,
    /// Matrix products.
    pub contractions: usize,
    /// Elementwise instructions on every element of a row.
    pub instructions: usize,
    /// Those of them that are divisions, roots or transcendental.
    pub heavy: usize,
    /// Instructions on one number for a row, or fewer.
    pub row_instructions: usize,
}

impl Estimate {
    fn count(&mut self, node: &Node, role: Role, extents: &Extents) {
        match role {
            Role::RowReduction => self.row_reductions += 1,
            Role::ColumnReduction => self.column_reductions += 1,
            Role::Contraction => self.contractions += 1,
            Role::Elementwise if !extents.varies(0) => self.row_instructions += 1,
            Role::Elementwise => {
                self.instructions += 1;
                if let Lowering::Pointwise(op) = node.op.def.lowering {
                    let unit = CostModel::default();
                    self.heavy += usize::from(unit.scalar(op) > unit.instruction);
                }
            }
            _ => {}
        }
    }
}
