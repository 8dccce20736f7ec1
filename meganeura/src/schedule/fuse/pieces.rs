//! Pieces that are put where they belong by the kernels that compute them.

use super::super::domain::Place;
use super::super::reference::Reference;
use super::{Fusion, Kind, Role};
use crate::ir::{Assembly, Layout, NodeId, Steps};

impl Fusion<'_> {
    /// Move assemblies into the loop that computes all of their pieces. Zeros around the pieces
    /// are there already if the whole is no result of the graph.
    pub(super) fn put_pieces_in_place(&mut self, stored: &[NodeId]) {
        for group in 0..self.groups.len() {
            if self.groups[group].kind != Kind::Assemble {
                continue;
            }
            let Some(&id) = self.groups[group].members.first() else {
                continue;
            };
            if (!stored.contains(&id) || self.is_covered(id))
                && let Some(target) = self.kernel_of_pieces(id, group)
            {
                self.merge_into(group, target);
            }
        }
    }

    fn is_covered(&self, id: NodeId) -> bool {
        let assembly = self.node(id).op.attributes.as_assembly();
        assembly.is_some_and(Assembly::is_covered)
    }

    /// The loop that computes all pieces of an assembly, if it can store them in their places.
    fn kernel_of_pieces(&self, id: NodeId, group: usize) -> Option<usize> {
        let node = self.node(id);
        let assembly = node.op.attributes.as_assembly()?;
        let first = self.operands(id).first()?.base;
        let target = self.group_of[first.index()]?;
        let (loops, domain) = (&self.groups[target], &self.groups[target].domain);
        let full = assembly.is_covered() || assembly.fills_with_zeros();
        if loops.kind != Kind::Loop || !full || self.depends(target, group) {
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

    /// Let kernels store what they compute as pieces of assemblies that others still fill: side
    /// by side with what other kernels compute. An assembly that is a result, and may take the
    /// place of what is still read, is left alone.
    pub(super) fn store_in_pieces(&mut self, stored: &[NodeId]) {
        let assemblies = self.groups.iter();
        let assemblies = assemblies.filter(|group| group.kind == Kind::Assemble);
        let ids: Vec<NodeId> = assemblies
            .filter_map(|group| group.members.first().copied())
            .filter(|id| !stored.contains(id))
            .collect();
        for id in ids {
            let node = self.node(id);
            let Some(assembly) = node.op.attributes.as_assembly() else {
                continue;
            };
            if !assembly.is_covered() {
                continue;
            }
            let whole = Layout::contiguous(&node.ty.shape);
            let pieces = self.operands(id).into_iter().zip(&assembly.pieces);
            for (piece, (reference, steps)) in pieces.enumerate() {
                if self.stores_piece(reference, &whole, steps) {
                    let base = reference.base;
                    self.pieces_of.entry(base).or_default().push((id, piece));
                    self.in_place.insert((id, piece));
                }
            }
        }
    }

    /// Make one kernel of loops over one domain that read something in common, a table of sines for
    /// instance, and store pieces of one assembly: they write its rows together.
    pub(super) fn merge_pieces(&mut self) {
        for second in 0..self.groups.len() {
            for first in 0..second {
                if self.side_by_side(first, second) && self.can_merge(first, second) {
                    self.merge_into(second, first);
                }
            }
        }
    }

    fn side_by_side(&self, first: usize, second: usize) -> bool {
        let [a, b] = [first, second].map(|group| &self.groups[group]);
        let members = [a, b].map(|group| &group.members);
        if [a, b].iter().any(|group| group.kind != Kind::Loop) || a.domain != b.domain {
            return false;
        }
        let assemblies = members.map(|members| -> Vec<NodeId> {
            let pieces = members.iter().filter_map(|id| self.pieces_of.get(id));
            pieces.flatten().map(|(assembly, _)| *assembly).collect()
        });
        let read = members.map(|members| -> Vec<NodeId> {
            let operands = members.iter().flat_map(|&id| self.operands(id));
            let outside = operands.filter(|reference| !self.is_free(reference.base));
            outside.map(|reference| reference.base).collect()
        });
        let common = |[a, b]: &[Vec<NodeId>; 2]| a.iter().any(|id| b.contains(id));
        common(&assemblies) && common(&read)
    }

    /// Whether the kernel that computes a piece can store it in its place.
    fn stores_piece(&self, reference: &Reference, whole: &Layout, steps: &[Steps]) -> bool {
        let base = reference.base;
        let Some(group) = self.group_of[base.index()] else {
            return false;
        };
        let node = self.node(base);
        let place = whole.sliced(steps).reshaped(&node.ty.shape);
        let (kind, domain) = (self.groups[group].kind, &self.groups[group].domain);
        let in_order = reference.layout.is_contiguous()
            && reference.layout.dims.iter().product::<usize>() == node.ty.shape.elements();
        let Some(place) = place.filter(|_| in_order && kind.is_shared()) else {
            return false;
        };
        let fits = |place: &Layout| domain.strides(place, Place::Full).is_some();
        match node.op.attributes.as_assembly() {
            // Itself put together by that kernel.
            Some(assembly) => {
                let mut pieces = assembly.pieces.iter();
                pieces.all(|steps| fits(&place.sliced(steps)))
            }
            None => {
                let own = self.role_of[base.index()] == Role::FULL;
                own && !self.is_recomputed(base) && fits(&place)
            }
        }
    }
}
