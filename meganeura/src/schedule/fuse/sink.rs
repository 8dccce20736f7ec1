//! Values that are cheaper made again than kept.

use super::super::domain::Place;
use super::super::reference::Reference;
use super::Fusion;
use crate::ir::{Lowering, NodeId};

/// Who reads a value: the reader, how it sees the value.
pub(super) type Readers<'a> = Vec<Vec<(NodeId, &'a Reference)>>;

impl<'a> Fusion<'a> {
    /// Move elementwise nodes that only one other kernel reads into that kernel, when what
    /// they are made of is in memory anyway: the mask of a ReLU, made of its result, need not
    /// be written and read.
    pub(super) fn sink(&mut self, readers: &Readers<'a>, stored: &[NodeId]) {
        // Last first, so that what a moved node was made of can follow it.
        for index in (0..self.nodes.len()).rev() {
            let id = NodeId::new(index);
            if let Some(target) = self.better_kernel(id, readers, stored) {
                self.move_to(id, target);
            }
        }
    }

    /// The readers of every node, through views or not.
    pub(super) fn readers(&self, live: &[bool]) -> Readers<'a> {
        let mut readers: Readers<'a> = vec![Vec::new(); self.nodes.len()];
        for index in (0..self.nodes.len()).filter(|&index| live[index]) {
            let view = matches!(self.nodes[index].op.def.lowering, Lowering::View(_));
            if view && self.references.copies[index].is_none() {
                continue;
            }
            for reference in self.operands(NodeId::new(index)) {
                readers[reference.base.index()].push((NodeId::new(index), reference));
            }
        }
        readers
    }

    /// The kernel in which a node costs less than where it is.
    fn better_kernel(&self, id: NodeId, readers: &Readers<'a>, stored: &[NodeId]) -> Option<usize> {
        let own = self.group_of[id.index()]?;
        let movable = matches!(self.node(id).op.def.lowering, Lowering::Pointwise(_))
            && !self.inline[id.index()]
            && !stored.contains(&id)
            && self.groups[own].members.len() > 1;
        let (first, _) = readers[id.index()].first()?;
        let target = self.group_of[first.index()]?;
        if !movable || target == own || !self.groups[target].kind.is_shared() {
            return None;
        }
        let domain = &self.groups[target].domain;
        let follows = |(reader, reference): &(NodeId, &'a Reference)| {
            let contracts = matches!(self.node(*reader).op.def.lowering, Lowering::Contract);
            let reads = self.role_of[reader.index()].reads;
            self.group_of[reader.index()] == Some(target)
                && !contracts
                && self.following(reference, target, domain, reads)
                    == Some(self.role_of[id.index()])
        };
        // One large operand in place of one large value, or less.
        let large = |reference: &&&'a Reference| {
            let elements = self.node(reference.base).ty.shape.elements();
            !self.is_free(reference.base) && elements > 1
        };
        let operands = self.operands(id);
        let worth = operands.iter().filter(large).count() <= 1
            && operands
                .iter()
                .all(|operand| self.is_in_memory(operand.base, id, readers, stored));
        (worth
            && self.role_of[id.index()].place != Place::Outside
            && readers[id.index()].iter().all(follows))
        .then_some(target)
    }

    /// Whether a value is in memory even if `but` does not read it.
    fn is_in_memory(
        &self,
        base: NodeId,
        but: NodeId,
        readers: &Readers<'a>,
        stored: &[NodeId],
    ) -> bool {
        let own = self.group_of[base.index()];
        let elsewhere = |(reader, _): &(NodeId, &'a Reference)| {
            let contracts = matches!(self.node(*reader).op.def.lowering, Lowering::Contract);
            *reader != but && (contracts || self.group_of[reader.index()] != own)
        };
        self.is_free(base)
            || stored.contains(&base)
            || own.is_none()
            || readers[base.index()].iter().any(elsewhere)
    }

    fn move_to(&mut self, id: NodeId, target: usize) {
        if let Some(own) = self.group_of[id.index()] {
            self.groups[own].members.retain(|&member| member != id);
        }
        self.group_of[id.index()] = Some(target);
        let members = &mut self.groups[target].members;
        members.insert(members.partition_point(|&member| member < id), id);
        // The edge to where it was stays: what it is made of mostly comes from there.
        for reference in self.operands(id) {
            if let Some(other) = self.group_of[reference.base.index()]
                && other != target
                && !self.is_recomputed(reference.base)
                && !self.groups[target].needs.contains(&other)
            {
                self.groups[target].needs.push(other);
            }
        }
    }
}
