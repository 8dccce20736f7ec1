//! Which values are kept between kernels, and which are made again where they are read.
//!
//! After fusion every value that another kernel reads would be written and read. An elementwise
//! one may as well be computed in each kernel that reads it, from what it is made of, if that is in
//! memory or comes to be. What is cheaper is a matter of the device's rates: bytes against
//! instructions. The mask of a ReLU need not be kept where its result is; nor what the gradient of
//! SiLU takes from its operand, if the operand itself is kept.

use super::super::domain::Place;
use super::super::narrow::LARGE;
use super::super::reference::Reference;
use super::{Fusion, Group};
use crate::egraph::CostModel;
use crate::ir::{Combine, Lowering, Node, NodeId, Precision, ScalarOp};

/// Who reads a value: the reader, how it sees the value.
pub(super) type Readers<'a> = Vec<Vec<(NodeId, &'a Reference)>>;

/// The most steps in which a value is made again.
const LONGEST: usize = 24;

impl<'a> Fusion<'a> {
    /// Decide what is kept, by the rates of a device; `roots` are kept in any case.
    pub(super) fn keep(
        &mut self,
        readers: &Readers<'a>,
        roots: &[NodeId],
        model: &CostModel,
        precision: Precision,
    ) {
        let halves = precision == Precision::BF16 && model.halves;
        let mut search = Search::new(self, readers, roots, model);
        search.floats = if halves { 0.5 } else { 1.0 };
        if search.improve() {
            let kept = search.kept;
            self.leave_out(&kept);
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

    /// Whether a value of one kernel is read by another.
    fn crosses(&self, id: NodeId, readers: &Readers<'a>) -> bool {
        let own = self.group_of[id.index()];
        own.is_some()
            && !self.inline[id.index()]
            && readers[id.index()]
                .iter()
                .any(|(reader, _)| self.group_of[reader.index()] != own)
    }

    /// Take out of each kernel what only served others that now make it themselves.
    fn leave_out(&mut self, kept: &[bool]) {
        let walk = |group| Walk::of(self, group, |id| kept[id.index()]);
        let walks: Vec<Option<Walk>> = (0..self.groups.len()).map(walk).collect();
        for (group, walk) in walks.into_iter().enumerate() {
            let Some(walk) = walk else { continue };
            let computed = |member: &NodeId| walk.computed.contains(member);
            self.groups[group].members.retain(computed);
            for id in walk.computed {
                if self.group_of[id.index()] != Some(group) {
                    self.again[id.index()] = true;
                }
            }
            for base in walk.read {
                let needs = &mut self.groups[group].needs;
                if let Some(other) = self.group_of[base.index()]
                    && other != group
                    && !needs.contains(&other)
                {
                    needs.push(other);
                }
            }
        }
        self.forget_empty();
    }

    /// Who waits for a kernel that is left empty waits for what that one waited for.
    fn forget_empty(&mut self) {
        for empty in 0..self.groups.len() {
            if !self.groups[empty].members.is_empty() || self.groups[empty].needs.is_empty() {
                continue;
            }
            let before = std::mem::take(&mut self.groups[empty].needs);
            for (index, group) in self.groups.iter_mut().enumerate() {
                if group.needs.contains(&empty) {
                    group.needs.extend(&before);
                    group.needs.retain(|&need| need != empty && need != index);
                    group.needs.sort_unstable();
                    group.needs.dedup();
                }
            }
        }
        let alive: Vec<bool> = self
            .groups
            .iter()
            .map(|group| !group.members.is_empty())
            .collect();
        for group in &mut self.groups {
            group.needs.retain(|&need| alive[need]);
        }
    }

    /// A row less its mean: what follows depends on every last digit of it, and only the kernel
    /// that has the whole row gets them right.
    fn is_centred(&self, node: &Node) -> bool {
        let Lowering::Pointwise(ScalarOp::Subtract) = node.op.def.lowering else {
            return false;
        };
        let mean = self.references.of[node.inputs[1].index()].base;
        let factors = &self.node(mean).inputs;
        factors.iter().any(|factor| {
            let base = self.references.of[factor.index()].base;
            matches!(
                self.node(base).op.def.lowering,
                Lowering::Reduce(Combine::Sum)
            )
        })
    }
}

/// What a kernel computes and reads when some values are kept.
#[derive(Default)]
struct Walk {
    computed: Vec<NodeId>,
    read: Vec<NodeId>,
}

impl Walk {
    /// Of a group, when the values that `kept` says are in memory; none where something can not
    /// be computed.
    fn of<'a>(fusion: &Fusion<'a>, group: usize, kept: impl Fn(NodeId) -> bool) -> Option<Walk> {
        let members = &fusion.groups[group].members;
        let domain = &fusion.groups[group].domain;
        let mut walk = Walk::default();
        let mut open: Vec<(NodeId, Place)> = Vec::new();
        for &id in members.iter().rev() {
            let outside = fusion.role_of[id.index()].place == Place::Outside;
            let contracts = matches!(fusion.node(id).op.def.lowering, Lowering::Contract);
            if kept(id) || outside || contracts {
                open.push((id, fusion.role_of[id.index()].reads));
            }
        }
        let mut remade = 0;
        while let Some((id, reads)) = open.pop() {
            if walk.computed.contains(&id) {
                continue;
            }
            walk.computed.push(id);
            // These find their operands by axes of their own.
            let contracts = matches!(fusion.node(id).op.def.lowering, Lowering::Contract);
            let apart = contracts || !fusion.groups[group].kind.is_shared();
            let readable =
                |reference: &Reference| apart || domain.strides(&reference.layout, reads).is_some();
            for reference in fusion.operands(id) {
                let base = reference.base;
                if fusion.inline[base.index()] {
                    continue;
                }
                let own = fusion.group_of[base.index()];
                if own == Some(group) {
                    if !fusion.is_at_hand(reference, domain, reads) {
                        return None;
                    }
                    open.push((base, fusion.role_of[base.index()].reads));
                } else if own.is_none() || fusion.prologue[base.index()] || kept(base) {
                    if !readable(reference) {
                        return None;
                    }
                    walk.note(base);
                } else {
                    let place = fusion.place_in(reference, domain, reads);
                    remade += 1;
                    if apart || place != Some(Place::Full) || remade > LONGEST {
                        return None;
                    }
                    open.push((base, Place::Full));
                }
            }
        }
        Some(walk)
    }

    fn note(&mut self, base: NodeId) {
        if !self.read.contains(&base) {
            self.read.push(base);
        }
    }
}

/// A search for what is best kept.
struct Search<'s, 'a> {
    fusion: &'s Fusion<'a>,
    readers: &'s Readers<'a>,
    model: &'s CostModel,
    /// How many floats an element of a large value takes that is kept.
    floats: f64,
    /// What is in memory.
    kept: Vec<bool>,
    /// What must be.
    pinned: Vec<bool>,
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(
        fusion: &'s Fusion<'a>,
        readers: &'s Readers<'a>,
        roots: &[NodeId],
        model: &'s CostModel,
    ) -> Search<'s, 'a> {
        let count = fusion.nodes.len();
        let (mut kept, mut pinned) = (vec![false; count], vec![false; count]);
        for index in 0..count {
            let id = NodeId::new(index);
            let root = roots.contains(&id);
            kept[index] = root || fusion.crosses(id, readers);
            pinned[index] = root || !may_be_made_again(fusion, id, readers);
        }
        Search {
            fusion,
            readers,
            model,
            floats: 1.0,
            kept,
            pinned,
        }
    }

    /// Make values again as long as that pays, last first, so that what one was made of can
    /// follow it. Whether any is.
    fn improve(&mut self) -> bool {
        let mut any = false;
        for index in (0..self.kept.len()).rev() {
            if self.kept[index] && !self.pinned[index] {
                any |= self.try_without(NodeId::new(index));
            }
        }
        any
    }

    /// Do without a value, with what it is made of in its place, and without others of its kernel
    /// that the same makes superfluous.
    fn try_without(&mut self, id: NodeId) -> bool {
        let Some(own) = self.fusion.group_of[id.index()] else {
            return false;
        };
        let mut frontier = Vec::new();
        if !self.frontier(id, &mut frontier, 0) {
            return false;
        }
        let mut siblings: Vec<NodeId> = Vec::new();
        if !frontier.is_empty() {
            let members = self.fusion.groups[own].members.iter().rev().copied();
            let other = |member: &NodeId| {
                let index = member.index();
                *member != id && self.kept[index] && !self.pinned[index]
            };
            siblings.extend(members.filter(other));
        }
        let mut affected = Vec::new();
        for &value in siblings.iter().chain(&frontier).chain([&id]) {
            self.concerned(value, &mut affected);
        }
        let Some(before) = self.cost(&affected) else {
            return false;
        };
        let saved = self.kept.clone();
        for &base in &frontier {
            self.kept[base.index()] = true;
        }
        self.kept[id.index()] = false;
        let mut after = self.cost(&affected);
        for sibling in siblings {
            self.kept[sibling.index()] = false;
            let without = self.cost(&affected);
            match (after, without) {
                (Some(with), Some(without)) if without >= with => {
                    self.kept[sibling.index()] = true;
                }
                (_, None) => self.kept[sibling.index()] = true,
                _ => after = without,
            }
        }
        let better = after.is_some_and(|after| after < before * (1.0 - 1e-9));
        if !better {
            self.kept = saved;
        }
        better
    }

    /// What a value is made of that is not in memory and can not be made again.
    fn frontier(&self, id: NodeId, found: &mut Vec<NodeId>, depth: usize) -> bool {
        if depth > LONGEST {
            return false;
        }
        self.fusion.operands(id).into_iter().all(|reference| {
            let base = reference.base;
            let index = base.index();
            if self.fusion.group_of[index].is_none()
                || self.fusion.inline[index]
                || self.kept[index]
                || found.contains(&base)
            {
                return true;
            }
            let elementwise = matches!(
                self.fusion.node(base).op.def.lowering,
                Lowering::Pointwise(_)
            );
            if elementwise && !self.fusion.is_centred(self.fusion.node(base)) {
                return self.frontier(base, found, depth + 1);
            }
            let inside = self.fusion.role_of[index].place != Place::Outside;
            if inside {
                found.push(base);
            }
            inside
        })
    }

    /// The kernels whose work changes when a value is kept or not.
    fn concerned(&self, id: NodeId, affected: &mut Vec<usize>) {
        let (mut open, mut seen) = (vec![id], vec![id]);
        while let Some(value) = open.pop() {
            let readers = self.readers[value.index()].iter().map(|reader| reader.0);
            for node in readers.chain([value]) {
                let Some(group) = self.fusion.group_of[node.index()] else {
                    continue;
                };
                if !affected.contains(&group) {
                    affected.push(group);
                }
                if !self.kept[node.index()] && !seen.contains(&node) {
                    seen.push(node);
                    open.push(node);
                }
            }
        }
    }

    /// The time of some kernels.
    fn cost(&self, groups: &[usize]) -> Option<f64> {
        groups.iter().map(|&group| self.cost_of(group)).sum()
    }

    fn cost_of(&self, group: usize) -> Option<f64> {
        if self.fusion.groups[group].members.is_empty() {
            return Some(0.0);
        }
        let walk = Walk::of(self.fusion, group, |id| self.kept[id.index()])?;
        let elements = |id: &NodeId| self.fusion.node(*id).ty.shape.elements() as f64;
        let floats = |id: &NodeId| {
            let kept = self.fusion.group_of[id.index()].is_some();
            let large = kept && self.fusion.node(*id).ty.shape.elements() >= LARGE;
            elements(id) * if large { self.floats } else { 1.0 }
        };
        let mut time = match walk.computed.is_empty() {
            true => 0.0,
            false => self.model.launch,
        };
        time += self.model.read(walk.read.iter().map(floats).sum());
        for id in &walk.computed {
            let own = self.fusion.group_of[id.index()] == Some(group);
            if own && self.kept[id.index()] {
                time += self.model.written(floats(id));
            }
            if let Lowering::Pointwise(op) = self.fusion.node(*id).op.def.lowering {
                time += elements(id) * self.model.scalar(op);
            }
        }
        Some(time)
    }
}

/// Whether every kernel that reads a value could make it itself, given what it is made of.
fn may_be_made_again(fusion: &Fusion<'_>, id: NodeId, readers: &Readers<'_>) -> bool {
    let node = fusion.node(id);
    let own = fusion.group_of[id.index()];
    matches!(node.op.def.lowering, Lowering::Pointwise(_))
        && !fusion.is_centred(node)
        && fusion.role_of[id.index()].place == Place::Full
        && readers[id.index()].iter().all(|(reader, reference)| {
            let Some(group) = fusion.group_of[reader.index()] else {
                return false;
            };
            let Group { kind, domain, .. } = &fusion.groups[group];
            let lowering = fusion.node(*reader).op.def.lowering;
            let reads = fusion.role_of[reader.index()].reads;
            let alone = matches!(lowering, Lowering::Contract | Lowering::Assemble);
            let inside = || fusion.place_in(reference, domain, reads) == Some(Place::Full);
            !alone && (Some(group) == own || kind.is_shared() && inside())
        })
}
