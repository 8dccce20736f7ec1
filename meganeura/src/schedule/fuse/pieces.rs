//! Pieces that are put where they belong by the kernel that computes them.

use super::super::domain::Place;
use super::{Fusion, Kind, Role};
use crate::ir::{Layout, NodeId};

impl Fusion<'_> {
    /// Move assemblies into the loop that computes all of their pieces.
    pub(super) fn put_pieces_in_place(&mut self) {
        for group in 0..self.groups.len() {
            if self.groups[group].kind != Kind::Assemble {
                continue;
            }
            let Some(&id) = self.groups[group].members.first() else {
                continue;
            };
            if let Some(target) = self.kernel_of_pieces(id, group) {
                self.merge_into(group, target);
            }
        }
    }

    /// The loop that computes all pieces of an assembly, if it can store them in their places.
    fn kernel_of_pieces(&self, id: NodeId, group: usize) -> Option<usize> {
        let node = self.node(id);
        let assembly = node.op.attributes.as_assembly()?;
        let first = self.operands(id).first()?.base;
        let target = self.group_of[first.index()]?;
        let (loops, domain) = (&self.groups[target], &self.groups[target].domain);
        if loops.kind != Kind::Loop || !assembly.is_covered() || self.depends(target, group) {
            return None;
        }
        let whole = Layout::contiguous(&node.ty.shape);
        let mut pieces = self.operands(id).into_iter().zip(&assembly.pieces);
        let fits = pieces.all(|(reference, steps)| {
            let base = reference.base;
            self.group_of[base.index()] == Some(target)
                && !self.is_recomputed(base)
                && self.role_of[base.index()] == Role::FULL
                && domain.place_of_base(&reference.layout, Place::Full) == Some(Place::Full)
                && domain.strides(&whole.sliced(steps), Place::Full).is_some()
        });
        fits.then_some(target)
    }
}
