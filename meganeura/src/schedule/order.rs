use rustc_hash::{FxHashMap, FxHashSet};

use super::domain::Place;
use super::emit::Emitter;
use super::fuse::{Fusion, Kind};
use super::kernel::{
    Access, Action, Body, BufferId, Instruction, Kernel, LoopKernel, Program, Store,
};
use super::narrow::narrow;
use super::reference::References;
use crate::egraph::CostModel;
use crate::ir::{Assembly, DType, Graph, Lowering, Node, NodeId, Precision};
use crate::ops::apart;

/// What a buffer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// An input, by name.
    Input(String),
    /// A variable, by its position in [`Graph::variables`].
    Variable(usize),
    /// A named result.
    Output(String),
    /// A value between two kernels.
    Temporary,
}

/// A buffer that kernels read or write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledBuffer {
    /// What it holds.
    pub storage: Storage,
    /// The number of elements.
    pub elements: usize,
    /// Their type.
    pub dtype: DType,
    /// A temporary that is zero from the start wherever no kernel writes, as pieces leave it.
    /// Those of one number have the same gaps, so that they may share memory, but not with
    /// others.
    pub gaps: Option<usize>,
}

/// Kernels in an order that respects what they read and write.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Schedule {
    /// The buffers, by [`BufferId`].
    pub buffers: Vec<ScheduledBuffer>,
    /// The kernels, first to last.
    pub kernels: Vec<Kernel>,
}

/// Schedule a graph of primitives for a device with these rates.
pub fn schedule(graph: &Graph, model: &CostModel, precision: Precision) -> Schedule {
    let mut schedule = match apart(graph) {
        Some(graph) => schedule_pieces(&graph, model, precision),
        None => schedule_pieces(graph, model, precision),
    };
    if precision == Precision::BF16 {
        narrow(&mut schedule, model.halves);
    }
    schedule
}

/// Schedule a graph in which work on pieces is done on them.
fn schedule_pieces(graph: &Graph, model: &CostModel, precision: Precision) -> Schedule {
    let nodes = graph.nodes();
    let live = graph.live();
    let roots = roots(graph);
    let references = References::of_graph(graph, &live, &roots);
    // A view of a whole value as it lies is that value.
    let roots: Vec<NodeId> = roots
        .iter()
        .map(|root| references.of[root.index()].base)
        .collect();
    let fusion = Fusion::of_graph(&nodes, &references, &live, &roots, model, precision);
    let mut scheduler = Scheduler::new(graph, &nodes, fusion, &live, precision);
    scheduler.assign_outputs();
    scheduler.assign_updates();
    scheduler.assign_temporaries();
    scheduler.finish()
}

fn roots(graph: &Graph) -> Vec<NodeId> {
    let outputs = graph.outputs().into_iter().map(|(_, id)| id);
    let mut roots: Vec<NodeId> = outputs
        .chain(graph.updates().into_iter().map(|(_, value)| value))
        .collect();
    roots.sort_unstable();
    roots.dedup();
    roots
}

struct Scheduler<'a> {
    graph: &'a Graph,
    nodes: &'a [Node],
    fusion: Fusion<'a>,
    /// As [`Scheduler::readers`] finds them.
    readers: FxHashMap<NodeId, Vec<usize>>,
    precision: Precision,
    buffers: Vec<ScheduledBuffer>,
    buffer_of: FxHashMap<NodeId, BufferId>,
    stores_of: FxHashMap<NodeId, Vec<BufferId>>,
    /// The gaps that temporaries keep.
    gaps: Vec<Assembly>,
    /// Copies of leaves, before anything changes them: what, and where to.
    first: Vec<(NodeId, BufferId)>,
    /// Updates that have to wait for the end: from, to, and the shape's node.
    last: Vec<(BufferId, BufferId, NodeId)>,
}

impl<'a> Scheduler<'a> {
    fn new(
        graph: &'a Graph,
        nodes: &'a [Node],
        fusion: Fusion<'a>,
        live: &[bool],
        precision: Precision,
    ) -> Scheduler<'a> {
        let mut scheduler = Scheduler {
            graph,
            nodes,
            readers: Self::readers(&fusion),
            fusion,
            precision,
            buffers: Vec::new(),
            buffer_of: FxHashMap::default(),
            stores_of: FxHashMap::default(),
            gaps: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
        };
        for (name, id) in graph
            .inputs()
            .into_iter()
            .filter(|(_, id)| live[id.index()])
        {
            let buffer = scheduler.buffer(Storage::Input(name), id);
            scheduler.buffer_of.insert(id, buffer);
        }
        let updated: Vec<NodeId> = graph
            .updates()
            .into_iter()
            .map(|(variable, _)| variable)
            .collect();
        for (index, (_, id)) in graph.variables().into_iter().enumerate() {
            if live[id.index()] || updated.contains(&id) {
                let buffer = scheduler.buffer(Storage::Variable(index), id);
                scheduler.buffer_of.insert(id, buffer);
            }
        }
        scheduler
    }

    fn buffer(&mut self, storage: Storage, of: NodeId) -> BufferId {
        let ty = &self.nodes[of.index()].ty;
        self.buffers.push(ScheduledBuffer {
            storage,
            elements: ty.shape.elements(),
            dtype: ty.dtype,
            gaps: None,
        });
        BufferId(self.buffers.len() as u32 - 1)
    }

    fn store(&mut self, id: NodeId, buffer: BufferId) {
        self.stores_of.entry(id).or_default().push(buffer);
        self.buffer_of.entry(id).or_insert(buffer);
    }

    fn assign_outputs(&mut self) {
        for (name, id) in self.graph.outputs() {
            let base = self.fusion.references.of[id.index()].base;
            let buffer = self.buffer(Storage::Output(name), id);
            match self.fusion.group_of[base.index()] {
                Some(_) => self.store(base, buffer),
                None => self.first.push((id, buffer)),
            }
        }
    }

    fn assign_updates(&mut self) {
        for (variable, value) in self.graph.updates() {
            let target = self.buffer_of[&variable];
            let (whole, value) = (value, self.fusion.references.of[value.index()].base);
            match self.fusion.group_of[value.index()] {
                Some(group) if self.may_overwrite(variable, value, group) => {
                    for &reader in self.readers.get(&variable).into_iter().flatten() {
                        if reader != group && !self.fusion.groups[group].needs.contains(&reader) {
                            self.fusion.groups[group].needs.push(reader);
                        }
                    }
                    self.store(value, target);
                }
                Some(_) => {
                    let aside = self.buffer(Storage::Temporary, value);
                    self.store(value, aside);
                    self.last.push((aside, target, value));
                }
                None => {
                    let aside = self.buffer(Storage::Temporary, whole);
                    self.first.push((whole, aside));
                    self.last.push((aside, target, whole));
                }
            }
        }
    }

    /// The groups that read each value, directly or in what they compute again.
    fn readers(fusion: &Fusion) -> FxHashMap<NodeId, Vec<usize>> {
        let mut readers: FxHashMap<NodeId, Vec<usize>> = FxHashMap::default();
        for (index, group) in fusion.groups.iter().enumerate() {
            let mut waiting = group.members.clone();
            let mut seen = FxHashSet::default();
            while let Some(id) = waiting.pop() {
                for reference in fusion.operands(id) {
                    let base = reference.base;
                    if !seen.insert(base) {
                        continue;
                    }
                    readers.entry(base).or_default().push(index);
                    if fusion.is_recomputed(base) {
                        waiting.push(base);
                    }
                }
            }
        }
        readers
    }

    /// Whether a group can write a variable's new value in place: every other reader can run
    /// before it, and it reads the old value only where it writes.
    fn may_overwrite(&self, variable: NodeId, value: NodeId, group: usize) -> bool {
        let readers = self.readers.get(&variable).map_or(&[][..], Vec::as_slice);
        if readers
            .iter()
            .any(|&reader| reader != group && self.fusion.depends(reader, group))
        {
            return false;
        }
        if !readers.contains(&group) {
            return true;
        }
        if !self.fusion.groups[group].kind.is_shared() {
            return false;
        }
        // Tried out on the kernel itself, with stand-in buffers.
        let mut probe = Emitter {
            graph: self.graph,
            nodes: self.nodes,
            fusion: &self.fusion,
            precision: self.precision,
            buffer_of: FxHashMap::default(),
            stores_of: FxHashMap::default(),
            has_gaps: Vec::new(),
        };
        for index in 0..self.nodes.len() {
            probe
                .buffer_of
                .insert(NodeId::new(index), BufferId(index as u32));
        }
        let target = BufferId(variable.index() as u32);
        probe.stores_of.insert(value, vec![target]);
        for &id in &self.fusion.groups[group].members {
            if self.fusion.role_of[id.index()].place == Place::Outside && id != value {
                probe
                    .stores_of
                    .insert(id, vec![BufferId(id.index() as u32)]);
            }
        }
        let kernels = probe.kernels(group);
        kernels
            .iter()
            .all(|kernel| overwrites_in_place(kernel, target))
    }

    /// Memory for what one kernel leaves for another.
    fn assign_temporaries(&mut self) {
        let mut wanted = Vec::new();
        for group in 0..self.fusion.groups.len() {
            let mut open = self.fusion.groups[group].members.clone();
            while let Some(id) = open.pop() {
                for (place, reference) in self.fusion.operands(id).into_iter().enumerate() {
                    let base = reference.base;
                    let elsewhere = self.fusion.group_of[base.index()] != Some(group)
                        && !self.fusion.in_place.contains(&(id, place));
                    let kind = self.fusion.groups[group].kind;
                    let in_memory = matches!(kind, Kind::Indexed | Kind::Attention);
                    if elsewhere && self.fusion.again[base.index()] {
                        open.push(base);
                    } else if elsewhere
                        && (in_memory || !self.fusion.is_free(base))
                        && !self.buffer_of.contains_key(&base)
                    {
                        wanted.push(base);
                    }
                }
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        for id in wanted {
            let buffer = self.buffer(Storage::Temporary, id);
            self.buffers[buffer.index()].gaps = self.gaps_of(id);
            if self.fusion.group_of[id.index()].is_some() {
                self.store(id, buffer);
            } else {
                self.buffer_of.insert(id, buffer);
                self.first.push((id, buffer));
            }
        }
    }

    /// Which gaps a value has that may keep their zeros from run to run.
    fn gaps_of(&mut self, id: NodeId) -> Option<usize> {
        let node = &self.nodes[id.index()];
        let assembly = match node.op.def.lowering {
            Lowering::Assemble => node.op.attributes.as_assembly()?,
            _ => return None,
        };
        if assembly.is_covered() || !assembly.fills_with_zeros() {
            return None;
        }
        let mut assembly = assembly.clone();
        assembly.pieces.sort_unstable();
        let known = self.gaps.iter().position(|known| *known == assembly);
        Some(known.unwrap_or_else(|| {
            self.gaps.push(assembly);
            self.gaps.len() - 1
        }))
    }

    fn finish(self) -> Schedule {
        let order = self.order();
        let Scheduler {
            graph,
            nodes,
            fusion,
            precision,
            buffers,
            buffer_of,
            stores_of,
            gaps: _,
            first,
            last,
            readers: _,
        } = self;
        let references = fusion.references;
        let emitter = Emitter {
            graph,
            nodes,
            fusion: &fusion,
            precision,
            buffer_of,
            stores_of,
            has_gaps: buffers.iter().map(|buffer| buffer.gaps.is_some()).collect(),
        };
        let mut kernels = Vec::new();
        for (id, to) in first {
            let ty = &nodes[id.index()].ty;
            kernels.push(emitter.copy_kernel("leaf", &references.of[id.index()], ty.dtype, to));
        }
        for group in order {
            kernels.extend(emitter.kernels(group));
            // These archetypes write each result to one place.
            if matches!(fusion.groups[group].kind, Kind::Indexed | Kind::Attention) {
                for id in &fusion.groups[group].members {
                    let places = emitter.stores_of.get(id).map_or(&[][..], Vec::as_slice);
                    let copies = places.iter().skip(1);
                    kernels.extend(copies.map(|&to| whole_copy(&nodes[id.index()], places[0], to)));
                }
            }
        }
        for (from, to, id) in last {
            kernels.push(whole_copy(&nodes[id.index()], from, to));
        }
        Schedule { buffers, kernels }
    }

    /// The groups in an order in which each comes after what it needs; among those that could
    /// run, the one whose first node the graph names first: a gradient that ends in an update
    /// runs where the gradient stands, so that what it reads is done with.
    fn order(&self) -> Vec<usize> {
        let groups = &self.fusion.groups;
        let alive: Vec<usize> = (0..groups.len())
            .filter(|&group| !groups[group].members.is_empty())
            .collect();
        let mut waiting: Vec<usize> = groups.iter().map(|group| group.needs.len()).collect();
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
        for &group in &alive {
            for &need in &groups[group].needs {
                users[need].push(group);
            }
        }
        let key = |group: usize| std::cmp::Reverse((groups[group].members.first().copied(), group));
        let mut ready: std::collections::BinaryHeap<_> = alive
            .iter()
            .filter(|&&group| waiting[group] == 0)
            .map(|&group| key(group))
            .collect();
        let mut order = Vec::with_capacity(alive.len());
        while let Some(std::cmp::Reverse((_, group))) = ready.pop() {
            order.push(group);
            for &user in &users[group] {
                waiting[user] -= 1;
                if waiting[user] == 0 {
                    ready.push(key(user));
                }
            }
        }
        debug_assert_eq!(order.len(), alive.len(), "fusion made a cycle");
        order
    }
}

fn whole_copy(node: &Node, from: BufferId, to: BufferId) -> Kernel {
    let dense = |buffer| Access {
        buffer,
        // Bits, whatever they mean.
        dtype: DType::F32,
        offset: 0,
        strides: Vec::new(),
        column_stride: 1,
    };
    let mut body = Body::default();
    let value = body.program.push(Instruction::Load(dense(from)));
    body.stores.push(Store {
        value,
        access: dense(to),
    });
    let kernel = LoopKernel {
        outer: Vec::new(),
        columns: node.ty.shape.elements(),
        body,
    };
    Kernel {
        name: "copy update".to_owned(),
        action: Action::Loop(kernel),
    }
}

/// Whether a kernel reads a buffer only where it writes it, and before.
fn overwrites_in_place(kernel: &Kernel, buffer: BufferId) -> bool {
    let loads_of = |program: &Program| -> Vec<Access> {
        program
            .loads()
            .filter(|access| access.buffer == buffer)
            .cloned()
            .collect()
    };
    let reduces = |program: &Program| {
        program
            .instructions
            .iter()
            .any(|instruction| matches!(instruction, Instruction::Reduce(..)))
    };
    let stored_alike = |body: &Body| {
        let loads = loads_of(&body.program);
        let stores: Vec<&Access> = body
            .stores
            .iter()
            .map(|store| &store.access)
            .filter(|access| access.buffer == buffer)
            .collect();
        let summed = body
            .accumulates
            .iter()
            .any(|sum| sum.access.buffer == buffer);
        !summed
            && loads
                .iter()
                .all(|load| stores.iter().all(|store| *store == load))
    };
    match &kernel.action {
        Action::Loop(kernel) => !reduces(&kernel.body.program) && stored_alike(&kernel.body),
        Action::Contract(kernel) => {
            let operands = [&kernel.left.program, &kernel.right.program];
            operands.iter().all(|program| loads_of(program).is_empty())
                && stored_alike(&kernel.epilogue)
        }
        Action::Gather(_) | Action::ScatterAdd(_) | Action::Attention(_) => false,
    }
}
