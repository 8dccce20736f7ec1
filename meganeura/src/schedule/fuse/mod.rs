//! Which nodes share a kernel.
//!
//! Nodes are visited in order; each joins the kernel of an operand when everything it needs
//! is at hand there, else it starts a kernel of its own. Kernels over one domain that read
//! the same memory are merged afterwards.

mod keep;
mod merge;
mod pieces;
mod place;
mod wait;

use rustc_hash::{FxHashMap, FxHashSet};

use super::axes::ContractAxes;
use super::domain::{Domain, Place};
use super::reference::{Reference, References};
use crate::egraph::CostModel;
use crate::ir::{Lowering, Node, NodeId, Precision};

/// What a group of nodes becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Elementwise work, reductions, copies.
    Loop,
    /// A contraction and its epilogue.
    Contract,
    /// A gather or scatter, alone.
    Indexed,
    /// Pieces put into one buffer, alone.
    Assemble,
    /// Attention, its parts that share operands together.
    Attention,
}

impl Kind {
    /// Whether other nodes can share the kernel.
    pub fn is_shared(self) -> bool {
        matches!(self, Kind::Loop | Kind::Contract)
    }
}

/// How a node takes part in a kernel: what it becomes, and what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// The place of its value.
    pub place: Place,
    /// The place of its operands: a reduction's differs from its own.
    pub reads: Place,
}

impl Role {
    /// An elementwise node of full values.
    pub(super) const FULL: Role = Role {
        place: Place::Full,
        reads: Place::Full,
    };
    /// An elementwise node of row values.
    const ROW: Role = Role {
        place: Place::Row,
        reads: Place::Row,
    };
    /// A reduction of each row.
    const OF_ROWS: Role = Role {
        place: Place::Row,
        reads: Place::Full,
    };
    /// A reduction of full values over rows, perhaps over columns too.
    const OVER_ROWS: Role = Role {
        place: Place::Outside,
        reads: Place::Full,
    };
    /// A reduction of row values over rows.
    const OF_ROW_VALUES: Role = Role {
        place: Place::Outside,
        reads: Place::Row,
    };
}

/// Nodes that share a kernel.
#[derive(Clone, Debug)]
pub struct Group {
    /// What it becomes.
    pub kind: Kind,
    /// What it runs over.
    pub domain: Domain,
    /// Its nodes, operands first.
    pub members: Vec<NodeId>,
    /// Groups whose results it reads.
    pub needs: Vec<usize>,
}

/// The outcome: groups, and where each node went.
pub struct Fusion<'a> {
    pub(super) nodes: &'a [Node],
    /// The views, resolved.
    pub references: &'a References,
    /// The groups; merged ones are left empty.
    pub groups: Vec<Group>,
    /// The group of each node that has one.
    pub group_of: Vec<Option<usize>>,
    /// How each such node takes part.
    pub role_of: Vec<Role>,
    /// Nodes that are one number made of leaves: computed wherever they are used.
    pub inline: Vec<bool>,
    /// Elementwise nodes made of leaves that a single side of a contraction reads: computed
    /// there, as its prologue.
    pub prologue: Vec<bool>,
    /// Elementwise nodes made of leaves, with a single reader, that wait for it to be placed.
    waits: Vec<bool>,
    /// Elementwise nodes that each other kernel that reads them computes itself.
    pub again: Vec<bool>,
    /// Values that the kernel that computes them stores as pieces of assemblies: the assembly
    /// and which piece.
    pub pieces_of: FxHashMap<NodeId, Vec<(NodeId, usize)>>,
    /// The pieces of assemblies that come about so.
    pub in_place: FxHashSet<(NodeId, usize)>,
}

impl<'a> Fusion<'a> {
    /// Group the `live` nodes of a graph; those `stored` need memory, others are kept there if
    /// that is cheaper by the rates of `model`.
    pub fn of_graph(
        nodes: &'a [Node],
        references: &'a References,
        live: &[bool],
        stored: &[NodeId],
        model: &CostModel,
        precision: Precision,
    ) -> Fusion<'a> {
        let mut fusion = Fusion {
            nodes,
            references,
            groups: Vec::new(),
            group_of: vec![None; nodes.len()],
            role_of: vec![Role::OVER_ROWS; nodes.len()],
            inline: vec![false; nodes.len()],
            prologue: vec![false; nodes.len()],
            waits: vec![false; nodes.len()],
            again: vec![false; nodes.len()],
            pieces_of: FxHashMap::default(),
            in_place: FxHashSet::default(),
        };
        let readers = fusion.readers(live);
        for index in (0..nodes.len()).filter(|&index| live[index]) {
            let id = NodeId::new(index);
            let kept = stored.contains(&id);
            fusion.inline[index] = fusion.is_inline(id);
            fusion.waits[index] =
                !fusion.inline[index] && !kept && readers[index].len() == 1 && fusion.may_wait(id);
            if kept || !(fusion.inline[index] || fusion.waits[index]) {
                fusion.place(id);
            }
        }
        fusion.merge();
        fusion.put_pieces_in_place(stored);
        fusion.keep(&readers, stored, model, precision);
        fusion.store_in_pieces(stored);
        fusion.merge_pieces();
        fusion
    }

    pub(super) fn node(&self, id: NodeId) -> &'a Node {
        &self.nodes[id.index()]
    }

    /// Whether a node is computed by its readers.
    pub fn is_recomputed(&self, base: NodeId) -> bool {
        self.inline[base.index()] || self.prologue[base.index()] || self.again[base.index()]
    }

    /// Whether a value is at hand in any kernel.
    pub fn is_free(&self, base: NodeId) -> bool {
        let lowering = self.node(base).op.def.lowering;
        self.is_recomputed(base)
            || (matches!(
                lowering,
                Lowering::Leaf | Lowering::Constant | Lowering::Index
            ) && self.references.copies[base.index()].is_none())
    }

    /// What a node reads, as references.
    pub fn operands(&self, id: NodeId) -> Vec<&'a Reference> {
        let references = self.references;
        match &references.copies[id.index()] {
            Some(source) => vec![source],
            None => self
                .node(id)
                .inputs
                .iter()
                .map(|input| &references.of[input.index()])
                .collect(),
        }
    }

    /// How the axes of a contraction are cut.
    pub fn contract_axes(&self, id: NodeId) -> ContractAxes {
        let operands = self.operands(id);
        ContractAxes::of(operands[0], operands[1]).expect("operands that do not nest are copied")
    }

    /// What the program of the operand of a contraction runs over that `base` is.
    fn side_domain(&self, id: NodeId, base: NodeId) -> Domain {
        let axes = self.contract_axes(id);
        match self.operands(id)[0].base == base {
            true => axes.left(),
            false => axes.right(),
        }
    }

    /// Whether group `from` needs, directly or not, results of group `on`.
    pub fn depends(&self, from: usize, on: usize) -> bool {
        let mut seen = vec![false; self.groups.len()];
        let mut open = vec![from];
        while let Some(group) = open.pop() {
            if group == on {
                return true;
            }
            if !std::mem::replace(&mut seen[group], true) {
                open.extend(&self.groups[group].needs);
            }
        }
        false
    }
}
