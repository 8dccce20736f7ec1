//! Nodes made of leaves, which are computed where they are read.

use super::super::domain::{Domain, Place};
use super::super::reference::Reference;
use super::{Fusion, Role};
use crate::ir::{Lowering, NodeId};

impl Fusion<'_> {
    /// Whether all elements of a node are one number that depends on leaves only.
    pub(super) fn is_inline(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let uniform = |input: &NodeId| {
            let reference = &self.references.of[input.index()];
            let base = reference.base;
            self.is_free(base) && (self.inline[base.index()] || reference.layout.is_uniform())
        };
        matches!(node.op.def.lowering, Lowering::Pointwise(_)) && node.inputs.iter().all(uniform)
    }

    /// Whether a node can be computed wherever its reader is.
    pub(super) fn may_wait(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let early = |base: NodeId| self.is_free(base) || self.waits[base.index()];
        matches!(node.op.def.lowering, Lowering::Pointwise(_))
            && self
                .operands(id)
                .iter()
                .all(|reference| early(reference.base))
    }

    /// Place what waited for its reader: in the same kernel, as a prologue, or by itself.
    pub(super) fn settle(
        &mut self,
        reference: &Reference,
        reader: NodeId,
        group: usize,
        reads: Place,
    ) {
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
    pub(super) fn following(
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
    pub(super) fn fits_as_prologue(&self, id: NodeId, domain: &Domain, place: Place) -> bool {
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

    pub(super) fn become_prologue(&mut self, id: NodeId) {
        self.waits[id.index()] = false;
        self.prologue[id.index()] = true;
        for reference in self.operands(id) {
            if self.waits[reference.base.index()] {
                self.become_prologue(reference.base);
            }
        }
    }
}
