//! Where a node goes: into the kernel of an operand, or into one of its own.

use super::super::domain::{Domain, Place};
use super::super::reference::Reference;
use super::{Fusion, Group, Kind, Role};
use crate::ir::{AttentionPart, Layout, Lowering, Node, NodeId, Shape};

impl<'a> Fusion<'a> {
    pub(super) fn place(&mut self, id: NodeId) {
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

    pub(super) fn start(&mut self, id: NodeId, kind: Kind, domain: Domain, role: Role) {
        let group = self.groups.len();
        self.groups.push(Group {
            kind,
            domain,
            members: Vec::new(),
            needs: Vec::new(),
        });
        self.add(id, group, role);
    }

    pub(super) fn add(&mut self, id: NodeId, group: usize, role: Role) {
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

    /// Put a node that runs over `shape` into the kernel of an operand, contractions first
    /// (what joins them never goes through memory), else into a new one.
    pub(super) fn join_or_start(&mut self, id: NodeId, shape: &Shape, roles: &[Role]) {
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
    pub(super) fn fitting_domain(
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
    pub(super) fn adds_columns(&self, id: NodeId, domain: &Domain) -> bool {
        let target = self.target(id, domain, Place::Full);
        target.is_some_and(|(strides, column_stride)| {
            column_stride != 0 && strides.iter().all(|&stride| stride == 0)
        })
    }

    pub(super) fn would_cycle(&self, id: NodeId, group: usize) -> bool {
        self.operands(id).iter().any(|reference| {
            let other = self.group_of[reference.base.index()];
            other.is_some_and(|other| other != group && self.depends(other, group))
        })
    }

    /// Whether every operand of a node can be had in a domain.
    pub(super) fn fits(&self, id: NodeId, group: usize, domain: &Domain, role: Role) -> bool {
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

    /// The kernel that computes another part of the same attention.
    pub(super) fn attention_of(&self, id: NodeId, part: AttentionPart) -> Option<usize> {
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
    pub(super) fn attention_operands(&self, id: NodeId) -> Vec<(NodeId, &'a Layout)> {
        let Lowering::Attention(part) = self.node(id).op.def.lowering else {
            return Vec::new();
        };
        let operands = self.operands(id).into_iter().enumerate();
        operands
            .filter(|(index, _)| part.is_gradient() || *index < 2 || *index >= part.operands())
            .map(|(_, reference)| (reference.base, &reference.layout))
            .collect()
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
