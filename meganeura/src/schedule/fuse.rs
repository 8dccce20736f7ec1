//! Which nodes share a kernel.
//!
//! Nodes are visited in order; each joins the kernel of an operand when everything it needs
//! is at hand there, else it starts a kernel of its own. Kernels over one domain that read
//! the same memory are merged afterwards.

use super::axes::ContractAxes;
use super::domain::{Domain, Place};
use super::reference::{Reference, References};
use crate::egraph::CostModel;
use crate::ir::{AttentionPart, Graph, Layout, Lowering, Node, NodeId, Shape};

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
        fusion.put_pieces_in_place();
        fusion.keep(&readers, stored, model);
        fusion
    }

    pub(super) fn node(&self, id: NodeId) -> &'a Node {
        &self.nodes[id.index()]
    }

    /// Whether all elements of a node are one number that depends on leaves only.
    fn is_inline(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let uniform = |input: &NodeId| {
            let reference = &self.references.of[input.index()];
            let base = reference.base;
            self.is_free(base) && (self.inline[base.index()] || reference.layout.is_uniform())
        };
        matches!(node.op.def.lowering, Lowering::Pointwise(_)) && node.inputs.iter().all(uniform)
    }

    /// Whether a node can be computed wherever its reader is.
    fn may_wait(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let early = |base: NodeId| self.is_free(base) || self.waits[base.index()];
        matches!(node.op.def.lowering, Lowering::Pointwise(_))
            && self
                .operands(id)
                .iter()
                .all(|reference| early(reference.base))
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

    fn place(&mut self, id: NodeId) {
        let node = self.node(id);
        let copied = self.references.copies[id.index()].is_some();
        match node.op.def.lowering {
            Lowering::View(_) if copied => self.join_or_start(id, &node.ty.shape, &[Role::FULL]),
            Lowering::View(_) | Lowering::Leaf | Lowering::Constant | Lowering::Index => {}
            Lowering::Pointwise(_) => {
                self.join_or_start(id, &node.ty.shape, &[Role::FULL, Role::ROW]);
            }
            Lowering::Reduce(_) => {
                let shape = &self.nodes[node.inputs[0].index()].ty.shape;
                match reduces_rows(node, shape) {
                    true => self.join_or_start(id, shape, &[Role::OF_ROWS, Role::OF_ROW_VALUES]),
                    false => self.join_or_start(id, shape, &[Role::OVER_ROWS, Role::OF_ROW_VALUES]),
                }
            }
            Lowering::Contract => {
                let domain = self.contract_axes(id).result();
                self.start(id, Kind::Contract, domain, Role::FULL);
            }
            Lowering::Gather | Lowering::ScatterAdd => {
                let domain = Domain::of(&node.ty.shape);
                self.start(id, Kind::Indexed, domain, Role::OVER_ROWS);
            }
            Lowering::Assemble => {
                let domain = Domain::of(&node.ty.shape);
                self.start(id, Kind::Assemble, domain, Role::OVER_ROWS);
            }
            Lowering::Attention(part) => match self.attention_of(id, part) {
                Some(group) => self.add(id, group, Role::OVER_ROWS),
                None => {
                    let domain = Domain::of(&node.ty.shape);
                    self.start(id, Kind::Attention, domain, Role::OVER_ROWS);
                }
            },
            Lowering::Expand(_) => unreachable!("graphs are expanded before they are scheduled"),
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

    fn start(&mut self, id: NodeId, kind: Kind, domain: Domain, role: Role) {
        let group = self.groups.len();
        self.groups.push(Group {
            kind,
            domain,
            members: Vec::new(),
            needs: Vec::new(),
        });
        self.add(id, group, role);
    }

    fn add(&mut self, id: NodeId, group: usize, role: Role) {
        for reference in self.operands(id) {
            if std::mem::take(&mut self.waits[reference.base.index()]) {
                self.settle(reference, id, group, role.reads);
            }
        }
        for reference in self.operands(id) {
            let other = self.group_of[reference.base.index()].filter(|&other| other != group);
            let needs = &mut self.groups[group].needs;
            if let Some(other) = other
                && !self.inline[reference.base.index()]
                && !needs.contains(&other)
            {
                needs.push(other);
            }
        }
        let members = &mut self.groups[group].members;
        members.insert(members.partition_point(|&member| member < id), id);
        self.group_of[id.index()] = Some(group);
        self.role_of[id.index()] = role;
    }

    /// Place what waited for its reader: in the same kernel, as a prologue, or by itself.
    fn settle(&mut self, reference: &Reference, reader: NodeId, group: usize, reads: Place) {
        let base = reference.base;
        let lowering = self.node(reader).op.def.lowering;
        let shape = &self.node(base).ty.shape;
        if matches!(lowering, Lowering::Contract | Lowering::Assemble) {
            let whole = reference.layout.is_contiguous() && reference.layout.dims == shape.dims();
            let domain = match lowering {
                Lowering::Contract => self.side_domain(reader, base),
                _ => Domain::of(shape),
            };
            if whole && self.fits_as_prologue(base, &domain, Place::Full) {
                self.become_prologue(base);
            } else {
                self.place(base);
            }
        } else if matches!(
            lowering,
            Lowering::Gather | Lowering::ScatterAdd | Lowering::Attention(_)
        ) {
            self.place(base);
        } else {
            match self.following(reference, group, &self.groups[group].domain, reads) {
                Some(role) => self.add(base, group, role),
                None => self.place(base),
            }
        }
    }

    /// The role in which a waiting node can follow its reader into a kernel.
    fn following(
        &self,
        reference: &Reference,
        group: usize,
        domain: &Domain,
        reads: Place,
    ) -> Option<Role> {
        let role = match self.place_in(reference, domain, reads)? {
            Place::Row => Role::ROW,
            _ => Role::FULL,
        };
        self.fits(reference.base, group, domain, role)
            .then_some(role)
    }

    /// The place of a whole value in a domain where a reader sees it at `reads`.
    pub(super) fn place_in(
        &self,
        reference: &Reference,
        domain: &Domain,
        reads: Place,
    ) -> Option<Place> {
        let place = domain.place_of_base(&reference.layout, reads)?;
        let elements = match place {
            Place::Row => domain.rows(),
            _ => domain.elements(),
        };
        // What a slice leaves out has no place here.
        (self.node(reference.base).ty.shape.elements() == elements).then_some(place)
    }

    /// Whether a node made of leaves can be computed element by element in a domain.
    fn fits_as_prologue(&self, id: NodeId, domain: &Domain, place: Place) -> bool {
        self.operands(id).into_iter().all(|reference| {
            let base = reference.base;
            self.inline[base.index()]
                || match self.waits[base.index()] {
                    true => self
                        .place_in(reference, domain, place)
                        .is_some_and(|place| self.fits_as_prologue(base, domain, place)),
                    false => domain.strides(&reference.layout, place).is_some(),
                }
        })
    }

    fn become_prologue(&mut self, id: NodeId) {
        self.waits[id.index()] = false;
        self.prologue[id.index()] = true;
        for reference in self.operands(id) {
            if self.waits[reference.base.index()] {
                self.become_prologue(reference.base);
            }
        }
    }

    /// The kernel that computes another part of the same attention.
    fn attention_of(&self, id: NodeId, part: AttentionPart) -> Option<usize> {
        let of = |id: NodeId| self.attention_operands(id);
        (0..self.groups.len()).find(|&group| {
            self.groups[group].kind == Kind::Attention
                && self.groups[group].members.iter().any(|&member| {
                    let Lowering::Attention(other) = self.node(member).op.def.lowering else {
                        return false;
                    };
                    other.is_gradient() == part.is_gradient()
                        && self.node(member).op.attributes == self.node(id).op.attributes
                        && of(member) == of(id)
                })
                && !self.would_cycle(id, group)
        })
    }

    /// The operands that the parts of one attention share, as they lie in memory.
    fn attention_operands(&self, id: NodeId) -> Vec<(NodeId, &'a Layout)> {
        let Lowering::Attention(part) = self.node(id).op.def.lowering else {
            return Vec::new();
        };
        let operands = self.operands(id).into_iter().enumerate();
        operands
            .filter(|(index, _)| part.is_gradient() || *index < 2 || *index >= part.operands())
            .map(|(_, reference)| (reference.base, &reference.layout))
            .collect()
    }

    /// Put a node that runs over `shape` into the kernel of an operand, contractions first
    /// (what joins them never goes through memory), else into a new one.
    fn join_or_start(&mut self, id: NodeId, shape: &Shape, roles: &[Role]) {
        let mut candidates: Vec<usize> = self
            .operands(id)
            .iter()
            .filter_map(|reference| self.group_of[reference.base.index()])
            .collect();
        candidates.sort_by_key(|&group| {
            (
                self.groups[group].kind != Kind::Contract,
                std::cmp::Reverse(group),
            )
        });
        candidates.dedup();
        for group in candidates {
            for &role in roles {
                if let Some(domain) = self.fitting_domain(id, group, shape, role) {
                    self.groups[group].domain = domain;
                    return self.add(id, group, role);
                }
            }
        }
        self.start(id, Kind::Loop, Domain::of(shape), roles[0]);
    }

    /// The domain, perhaps with finer outer axes, in which the group can take the node in.
    fn fitting_domain(
        &self,
        id: NodeId,
        group: usize,
        shape: &Shape,
        role: Role,
    ) -> Option<Domain> {
        let target = &self.groups[group];
        let elements = match role.reads {
            Place::Row => target.domain.rows(),
            _ => target.domain.elements(),
        };
        let accepts = match target.kind {
            Kind::Loop => true,
            Kind::Contract => match role {
                Role::FULL | Role::ROW => true,
                _ => role == Role::OVER_ROWS && self.adds_columns(id, &target.domain),
            },
            Kind::Indexed | Kind::Assemble | Kind::Attention => false,
        };
        if !accepts || shape.elements() != elements || self.would_cycle(id, group) {
            return None;
        }
        let own = Domain::of(shape);
        let same_columns = own.columns == target.domain.columns;
        if role == Role::OF_ROWS && !same_columns {
            return None;
        }
        let mut domains = vec![target.domain.clone()];
        let finer = own.outer.len() > target.domain.outer.len() && same_columns;
        if finer && role.reads == Place::Full && target.kind == Kind::Loop {
            domains.push(own);
        }
        domains
            .into_iter()
            .find(|domain| self.fits(id, group, domain, role))
    }

    /// Whether a reduction adds up the columns of a domain over all of its rows, which an
    /// epilogue does tile by tile.
    fn adds_columns(&self, id: NodeId, domain: &Domain) -> bool {
        let target = self.target(id, domain, Place::Full);
        target.is_some_and(|(strides, column_stride)| {
            column_stride != 0 && strides.iter().all(|&stride| stride == 0)
        })
    }

    fn would_cycle(&self, id: NodeId, group: usize) -> bool {
        self.operands(id).iter().any(|reference| {
            let other = self.group_of[reference.base.index()];
            other.is_some_and(|other| other != group && self.depends(other, group))
        })
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

    /// Whether every operand of a node can be had in a domain.
    fn fits(&self, id: NodeId, group: usize, domain: &Domain, role: Role) -> bool {
        let operands = self.operands(id).into_iter().all(|reference| {
            let base = reference.base;
            let waits = self.waits[base.index()];
            self.inline[base.index()]
                || (waits
                    && self
                        .following(reference, group, domain, role.reads)
                        .is_some())
                || match self.group_of[base.index()] == Some(group) {
                    true => self.is_at_hand(reference, domain, role.reads),
                    false => domain.strides(&reference.layout, role.reads).is_some(),
                }
        });
        operands && (role.place != Place::Outside || self.target(id, domain, role.reads).is_some())
    }

    /// Whether a value computed in a kernel is what a member of it reads.
    pub(super) fn is_at_hand(&self, reference: &Reference, domain: &Domain, reads: Place) -> bool {
        let place = self.role_of[reference.base.index()].place;
        let needed = domain.place_of_base(&reference.layout, reads);
        place != Place::Outside
            && needed.is_some_and(|needed| needed == place || domain.columns == 1)
    }

    /// Where a reduction over rows puts its result, as strides over the domain.
    pub fn target(&self, id: NodeId, domain: &Domain, reads: Place) -> Option<(Vec<usize>, usize)> {
        let node = self.node(id);
        let from = &self.nodes[node.inputs[0].index()].ty.shape;
        let layout = Layout::contiguous(&node.ty.shape).broadcast(from);
        domain.strides(&layout, reads)
    }

    /// Merge loops over one domain that read the same memory or each other's values, large ones
    /// first: two small ones merged may stand between two large ones.
    fn merge(&mut self) {
        let size = |group: &Group| group.domain.elements();
        let mut sizes: Vec<usize> = self.groups.iter().map(size).collect();
        sizes.sort_unstable_by_key(|&size| std::cmp::Reverse(size));
        sizes.dedup();
        for wanted in sizes {
            for second in 0..self.groups.len() {
                for first in 0..second {
                    if size(&self.groups[second]) == wanted
                        && self.related(first, second)
                        && self.can_merge(first, second)
                    {
                        self.merge_into(second, first);
                    }
                }
            }
        }
    }

    fn related(&self, first: usize, second: usize) -> bool {
        let loops = [first, second].iter().all(|&group| {
            self.groups[group].kind == Kind::Loop && !self.groups[group].members.is_empty()
        });
        let (a, b) = (&self.groups[first], &self.groups[second]);
        loops
            && a.domain == b.domain
            && (b.needs.contains(&first) || a.needs.contains(&second) || {
                let (left, right) = (self.memory_read(first), self.memory_read(second));
                left.iter().any(|base| right.contains(base))
            })
    }

    /// The values in memory that a group reads, those as large as its domain only: sharing
    /// a small one saves nothing.
    fn memory_read(&self, group: usize) -> Vec<NodeId> {
        let members = &self.groups[group].members;
        let bases = members
            .iter()
            .flat_map(|&id| self.operands(id))
            .map(|reference| reference.base);
        let large = |base: &NodeId| {
            self.node(*base).ty.shape.elements() >= self.groups[group].domain.elements()
        };
        bases
            .filter(|base| self.group_of[base.index()] != Some(group) && large(base))
            .collect()
    }

    fn can_merge(&self, first: usize, second: usize) -> bool {
        // Through a third group, one would have to run before and after it.
        let through = |from: usize, to: usize| {
            self.groups[from]
                .needs
                .iter()
                .any(|&group| group != to && self.depends(group, to))
        };
        if through(first, second) || through(second, first) {
            return false;
        }
        let usable = |reader: usize, writer: usize| {
            let domain = &self.groups[reader].domain;
            self.groups[reader].members.iter().all(|&id| {
                self.operands(id).iter().all(|reference| {
                    let base = reference.base;
                    self.group_of[base.index()] != Some(writer)
                        || self.inline[base.index()]
                        || self.is_at_hand(reference, domain, self.role_of[id.index()].reads)
                })
            })
        };
        usable(first, second) && usable(second, first)
    }

    pub(super) fn merge_into(&mut self, from: usize, into: usize) {
        let members = std::mem::take(&mut self.groups[from].members);
        let needs = std::mem::take(&mut self.groups[from].needs);
        for &id in &members {
            self.group_of[id.index()] = Some(into);
        }
        let target = &mut self.groups[into];
        target.members.extend(members);
        target.members.sort_unstable();
        target.needs.extend(needs);
        for group in &mut self.groups {
            for need in &mut group.needs {
                if *need == from {
                    *need = into;
                }
            }
            group.needs.sort_unstable();
            group.needs.dedup();
        }
        self.groups[into].needs.retain(|&need| need != into);
    }
}

/// Whether a reduction runs over the last axis and nothing else.
fn reduces_rows(node: &Node, operand: &Shape) -> bool {
    let axes = node.op.attributes.as_axes();
    let last = operand.rank().wrapping_sub(1);
    axes.contains(&last)
        && axes
            .iter()
            .all(|&axis| axis == last || operand.dims()[axis] == 1)
}

/// The nodes that the outputs and updates of a graph depend on.
pub fn live_nodes(graph: &Graph) -> Vec<bool> {
    let nodes = graph.nodes();
    let mut live = vec![false; nodes.len()];
    for (_, id) in graph.outputs() {
        live[id.index()] = true;
    }
    for (_, value) in graph.updates() {
        live[value.index()] = true;
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
