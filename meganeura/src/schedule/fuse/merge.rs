//! Kernels over one domain that read the same memory or each other's values become one.

use super::{Fusion, Group, Kind};
use crate::ir::NodeId;

impl Fusion<'_> {
    /// Merge loops over one domain that read the same memory or each other's values, large ones
    /// first: two small ones merged may stand between two large ones.
    pub(super) fn merge(&mut self) {
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

    pub(super) fn related(&self, first: usize, second: usize) -> bool {
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
    pub(super) fn memory_read(&self, group: usize) -> Vec<NodeId> {
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

    pub(super) fn can_merge(&self, first: usize, second: usize) -> bool {
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
