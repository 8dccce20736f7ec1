//! What a graph costs: an estimate of its time after fusion, from a device's rates.
//!
//! It follows what the scheduler fuses. Elementwise work and reductions of rows share a loop
//! kernel, so a value between them costs no memory; a contraction takes elementwise work in
//! its epilogue; a sum over rows is complete only when its kernel ends. What crosses such a
//! border is written once and read once by each kernel behind it, or computed there again. Each further reduction of
//! rows that needs the one before it walks the row once more.

use super::emit::{Arithmetic, Binary, Unary};
use super::language::{Extents, MAX_RANK, NO_AXIS};
use crate::ir::{Graph, Layout, Lowering, Node, NodeId, ScalarOp};

/// A device's rates, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct CostModel {
    /// One floating-point operation of a contraction.
    pub flop: f64,
    /// One scalar instruction on one element.
    pub instruction: f64,
    /// One byte from or to memory.
    pub byte: f64,
    /// One kernel.
    pub launch: f64,
    /// Walking over a row once more, for each element.
    pub pass: f64,
}

impl Default for CostModel {
    /// Two cores with AVX-512, fitted to the yardstick's workloads: 225 GFLOP/s in
    /// contractions, 35 GB/s, 60 elementwise instructions a nanosecond, 2 µs a kernel.
    fn default() -> CostModel {
        CostModel {
            flop: 1.0 / 225.0,
            instruction: 1.0 / 60.0,
            byte: 1.0 / 35.0,
            launch: 2000.0,
            pass: 1.0 / 30.0,
        }
    }
}

impl CostModel {
    /// A desktop graphics card: about 10 TFLOP/s in contractions, 500 GB/s.
    pub fn gpu() -> CostModel {
        CostModel {
            flop: 1e-4,
            instruction: 2e-4,
            byte: 2e-3,
            launch: 4000.0,
            pass: 5e-4,
        }
    }
}

/// How a node takes part in kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A number: part of the program.
    Number,
    /// In memory from the start.
    Leaf,
    /// Another view of its operand.
    View,
    /// A view with the axes elsewhere: what is computed must be in memory to be seen so.
    Turn,
    /// Elementwise.
    Elementwise,
    /// A reduction along the columns of a row.
    RowReduction,
    /// A reduction over rows.
    ColumnReduction,
    /// A contraction.
    Contraction,
    /// A kernel of its own that reads memory.
    Memory,
}

/// What a node adds to the cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// How it takes part.
    pub role: Role,
    /// Time of its own.
    pub time: f64,
    /// Elements of the result.
    pub elements: f64,
    /// Elements of the operand of a reduction.
    pub reduced: f64,
    /// Of a leaf that is computed elsewhere: after how many kernels.
    pub since: Option<u32>,
}

/// Buffers for [`CostModel::total`], by node.
#[derive(Default)]
pub(super) struct Scratch {
    states: Vec<State>,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// Kernels that must be complete before its own.
    depth: u32,
    /// The contraction it is computed in the epilogue of, as its place in the order from 1;
    /// 0 if none.
    epilogue: usize,
    /// Seen with the axes elsewhere, though not in memory from the start.
    turned: bool,
    /// The cost of the passes below it, and how many.
    walked: f64,
    passes: u32,
    /// Not in memory from the start.
    computed: bool,
    /// The node whose memory it is a view of.
    base: usize,
    stored: bool,
    /// The depths it is read at, as bits.
    reads: u64,
}

/// The total of a selection of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Total {
    pub time: f64,
    pub bytes: f64,
    pub passes: u32,
    pub kernels: u32,
}

impl CostModel {
    /// The cost of the nodes in `order` (operands first), of which `roots` are kept.
    pub(super) fn total<'a>(
        &self,
        order: &[usize],
        roots: &[usize],
        work: impl Fn(usize) -> Work,
        operands: impl Fn(usize) -> &'a [usize],
        scratch: &mut Scratch,
    ) -> Total {
        let states = &mut scratch.states;
        let nodes = order.iter().copied().max().map_or(0, |last| last + 1);
        if states.len() < nodes {
            states.resize(nodes, State::default());
        }
        let mut total = Total::default();
        let (mut walked, mut kernels) = (0.0f64, 0u64);
        for (place, &node) in order.iter().enumerate() {
            let work = work(node);
            let mut state = self.placed(node, &work, operands(node), states);
            if work.role == Role::Contraction {
                state.epilogue = place + 1;
            }
            let loops = matches!(work.role, Role::Elementwise | Role::RowReduction)
                && state.epilogue == 0
                && work.elements.max(work.reduced) > 1.0;
            if loops {
                kernels |= 1 << (state.depth % 64);
            }
            total.kernels += u32::from(matches!(work.role, Role::Contraction | Role::Memory));
            total.time += work.time;
            total.passes = total.passes.max(state.passes);
            walked = walked.max(state.walked);
            states[node] = state;
        }
        for &node in order {
            mark_traffic(node, work(node).role, operands(node), &work, states);
        }
        for &root in roots {
            let base = states[root].base;
            states[base].stored = true;
            if states[root].turned {
                // Nobody looks at it through strides: it is copied.
                total.time += self.memory(2.0 * work(root).elements);
                total.kernels += 1;
            }
        }
        for &node in order {
            if states[node].reads != 0 && !states[node].stored && states[node].computed {
                match self.again(node, &work, &operands, states) {
                    Some(time) => total.time += time,
                    None => states[node].stored = true,
                }
            }
        }
        for &node in order {
            let (work, state) = (work(node), &states[node]);
            let written = state.stored && state.computed;
            let times = f64::from(u32::from(written) + state.reads.count_ones());
            total.bytes += times * work.elements * 4.0;
        }
        total.time += walked + total.bytes * self.byte;
        total.kernels += kernels.count_ones();
        total.time += f64::from(kernels.count_ones()) * self.launch;
        total
    }

    /// The time of computing a value again in every kernel that reads it, from what is in
    /// memory anyway, if that is cheaper than keeping it.
    fn again<'a>(
        &self,
        node: usize,
        work: &impl Fn(usize) -> Work,
        operands: &impl Fn(usize) -> &'a [usize],
        states: &mut [State],
    ) -> Option<f64> {
        let (mut time, mut bases, mut steps) = (0.0, Vec::new(), 0);
        let mut open = vec![node];
        while let Some(next) = open.pop() {
            let state = &states[next];
            if next != node && (state.stored || !state.computed) {
                if state.computed || work(next).role == Role::Leaf {
                    bases.push(next);
                }
                continue;
            }
            steps += 1;
            if work(next).role != Role::Elementwise || steps > 4 {
                return None;
            }
            time += work(next).time;
            open.extend(operands(next).iter().map(|&operand| states[operand].base));
        }
        bases.sort_unstable();
        bases.dedup();
        let reads = states[node].reads;
        let times = f64::from(reads.count_ones());
        let more = |base: &usize| {
            let missing = reads & !states[*base].reads;
            f64::from(missing.count_ones()) * work(*base).elements * 4.0 * self.byte
        };
        let again = time * times + bases.iter().map(more).sum::<f64>();
        if again >= (1.0 + times) * work(node).elements * 4.0 * self.byte {
            return None;
        }
        for base in bases {
            states[base].reads |= reads;
        }
        states[node].reads = 0;
        Some(time * times)
    }

    /// Where a node stands among the kernels, from where its operands stand.
    fn placed(&self, node: usize, work: &Work, operands: &[usize], states: &[State]) -> State {
        let mut state = State {
            base: node,
            ..State::default()
        };
        let looks = matches!(
            work.role,
            Role::View | Role::Turn | Role::Contraction | Role::Memory
        );
        for &operand in operands {
            let mut below = states[operand];
            if below.turned && !looks {
                below.depth += 1;
                below.epilogue = 0;
            }
            if below.depth > state.depth {
                state.epilogue = below.epilogue;
                state.depth = below.depth;
            } else if below.depth == state.depth {
                state.epilogue = state.epilogue.max(below.epilogue);
            }
            state.walked = state.walked.max(below.walked);
            state.passes = state.passes.max(below.passes);
        }
        match work.role {
            Role::Number => {}
            Role::Leaf => {
                state.computed = work.since.is_some();
                state.depth = work.since.unwrap_or(0);
            }
            Role::Elementwise => state.computed = true,
            Role::View | Role::Turn => {
                if let Some(&of) = operands.first() {
                    state.base = states[of].base;
                    let computed = states[state.base].computed;
                    state.turned = computed && (work.role == Role::Turn || states[of].turned);
                }
            }
            Role::RowReduction => {
                if state.epilogue != 0 {
                    state.depth += 1;
                    state.epilogue = 0;
                }
                state.computed = true;
                state.walked += work.reduced * self.pass;
                state.passes += 1;
            }
            Role::ColumnReduction | Role::Memory => {
                state.computed = true;
                state.depth += 1;
                state.epilogue = 0;
            }
            Role::Contraction => {
                state.computed = true;
                state.depth += 1;
            }
        }
        state
    }

    /// The time of an instruction for each element.
    pub(super) fn scalar(&self, op: ScalarOp) -> f64 {
        let weight = match op {
            ScalarOp::Identity => 0.0,
            ScalarOp::Divide | ScalarOp::Reciprocal | ScalarOp::Sqrt => 4.0,
            ScalarOp::ReciprocalSqrt => 5.0,
            ScalarOp::Exp | ScalarOp::Log | ScalarOp::Sigmoid | ScalarOp::Tanh => 10.0,
            ScalarOp::Sin | ScalarOp::Cos | ScalarOp::Erf => 14.0,
            _ => 1.0,
        };
        weight * self.instruction
    }

    /// The time of an instruction on all elements. What is one number for a row is computed
    /// one by one, not in vectors.
    pub(super) fn elementwise(&self, op: ScalarOp, extents: &Extents) -> f64 {
        let lanes = if extents.varies(0) { 1.0 } else { 4.0 };
        self.scalar(op) * extents.elements() * lanes
    }

    /// A matrix product: launch, arithmetic and traffic.
    pub(super) fn contraction(&self, left: f64, right: f64, result: f64, k: f64) -> f64 {
        self.launch + 2.0 * result * k * self.flop + (left + right + result) * 4.0 * self.byte
    }

    /// A kernel that moves this many elements through memory.
    pub(super) fn memory(&self, elements: f64) -> f64 {
        self.launch + elements * 4.0 * self.byte
    }

    /// A reduction of a value that varies over `extents`; sums over rows keep many sums at
    /// once.
    pub(super) fn reduction(&self, extents: &Extents, rows: bool) -> f64 {
        let weight = if rows { 1.0 } else { 2.0 };
        let lanes = if extents.varies(0) { 1.0 } else { 4.0 };
        extents.elements() * self.instruction * weight * lanes
    }

    /// The estimate for a graph, dead code left out.
    pub fn estimate(&self, graph: &Graph) -> Estimate {
        self.estimate_region(graph, &[])
    }

    /// After how many kernels each value of a graph is there.
    pub(super) fn depths(&self, graph: &Graph) -> Vec<u32> {
        let mut scratch = Scratch::default();
        self.estimate_with(graph, &[], &mut scratch);
        let count = graph.nodes().len();
        scratch.states.resize(count, State::default());
        scratch.states.iter().map(|state| state.depth).collect()
    }

    /// The estimate for a graph some of whose inputs are computed elsewhere, after as many
    /// kernels as is said.
    pub(super) fn estimate_region(&self, graph: &Graph, since: &[(NodeId, u32)]) -> Estimate {
        self.estimate_with(graph, since, &mut Scratch::default())
    }

    fn estimate_with(
        &self,
        graph: &Graph,
        since: &[(NodeId, u32)],
        scratch: &mut Scratch,
    ) -> Estimate {
        let nodes = graph.nodes();
        let live = super::region::live(graph);
        let order: Vec<usize> = (0..nodes.len()).filter(|&index| live[index]).collect();
        let operands: Vec<Vec<usize>> = nodes
            .iter()
            .map(|node| node.inputs.iter().map(|input| input.index()).collect())
            .collect();
        let extents = true_extents(&nodes);
        let mut works: Vec<Work> = nodes
            .iter()
            .zip(&extents)
            .map(|(node, own)| self.work(&nodes, node, own, &extents))
            .collect();
        for (leaf, depth) in since {
            works[leaf.index()].since = Some(*depth);
        }
        let outputs = graph.outputs().into_iter().map(|(_, id)| id);
        let updates = graph.updates().into_iter().map(|(_, id)| id);
        let roots: Vec<usize> = outputs.chain(updates).map(NodeId::index).collect();
        let total = self.total(
            &order,
            &roots,
            |node| works[node],
            |node| &operands[node],
            scratch,
        );
        let mut estimate = Estimate {
            nanoseconds: total.time,
            bytes: total.bytes,
            passes: total.passes as usize,
            kernels: total.kernels as usize,
            ..Estimate::default()
        };
        for &index in &order {
            estimate.count(&nodes[index], works[index].role, &extents[index]);
        }
        estimate
    }

    fn work(&self, nodes: &[Node], node: &Node, extents: &Extents, all: &[Extents]) -> Work {
        let of = |id: &NodeId| nodes[id.index()].ty.shape.elements() as f64;
        let mut elements = node.ty.shape.elements() as f64;
        let reduced = node.inputs.first().map_or(0.0, of);
        let (role, time) = match node.op.def.lowering {
            Lowering::Leaf => (Role::Leaf, 0.0),
            Lowering::Constant | Lowering::Index => (Role::Number, 0.0),
            Lowering::Pointwise(op) => (Role::Elementwise, self.elementwise(op, extents)),
            Lowering::Reduce(_) => {
                let last = nodes[node.inputs[0].index()].ty.shape.rank() - 1;
                let rows = node.op.attributes.as_axes() == [last];
                let role = if rows {
                    Role::RowReduction
                } else {
                    Role::ColumnReduction
                };
                let operand = &all[node.inputs[0].index()];
                (role, self.reduction(operand, rows))
            }
            Lowering::View(layout) => {
                let from = &nodes[node.inputs[0].index()].ty.shape;
                let plain = Layout::contiguous(from);
                match layout(&node.op.attributes, &plain, &node.ty.shape) {
                    Some(seen) => match super::encode::sources(&seen, from) {
                        Some(sources) => (turn(&sources), 0.0),
                        // A part of what is computed is read from memory.
                        None if node.ty.shape.elements() < from.elements() => (Role::Turn, 0.0),
                        None => (Role::View, 0.0),
                    },
                    None => (Role::Memory, self.memory(2.0 * elements)),
                }
            }
            Lowering::Contract => {
                let k = nodes[node.inputs[0].index()].ty.shape.last() as f64;
                let (left, right) = (reduced, of(&node.inputs[1]));
                (
                    Role::Contraction,
                    self.contraction(left, right, elements, k),
                )
            }
            Lowering::Assemble => match copied_pieces(nodes, node) {
                Some(0.0) => {
                    // Its pieces are written, it is not.
                    elements = 0.0;
                    (Role::Memory, 0.0)
                }
                copied => (Role::Memory, self.memory(2.0 * copied.unwrap_or(elements))),
            },
            Lowering::Gather
            | Lowering::ScatterAdd
            | Lowering::Attention(_)
            | Lowering::Expand(_) => (Role::Memory, self.memory(elements + reduced)),
        };
        Work {
            role,
            time,
            elements,
            reduced,
            since: None,
        }
    }
}

/// The elements of the pieces of an assembly that must be copied, since the kernels that compute
/// them cannot put them where they belong; all are when something else must be filled.
fn copied_pieces(nodes: &[Node], node: &Node) -> Option<f64> {
    let assembly = node.op.attributes.as_assembly();
    if !assembly.is_some_and(|assembly| assembly.is_covered()) {
        return None;
    }
    let copied = node.inputs.iter().filter(|input| {
        let mut base = &nodes[input.index()];
        while let (Lowering::View(layout), [of]) = (base.op.def.lowering, &base.inputs[..]) {
            let plain = Layout::contiguous(&nodes[of.index()].ty.shape);
            let seen = layout(&base.op.attributes, &plain, &base.ty.shape);
            if !seen.is_some_and(|seen| seen.is_contiguous()) {
                return true;
            }
            base = &nodes[of.index()];
        }
        !matches!(
            base.op.def.lowering,
            Lowering::Pointwise(_) | Lowering::Contract | Lowering::Assemble
        )
    });
    let elements = |id: &NodeId| nodes[id.index()].ty.shape.elements() as f64;
    Some(copied.map(elements).sum())
}

/// Whether a view moves axes so that rows do not stay rows.
pub(super) fn turn(sources: &[u8]) -> Role {
    let used = sources.iter().filter(|source| **source != NO_AXIS);
    let last_stays = matches!(sources.first(), None | Some(&0 | &NO_AXIS));
    if last_stays && used.is_sorted() {
        Role::View
    } else {
        Role::Turn
    }
}

/// What every node really varies over: not along an axis it was repeated along.
fn true_extents(nodes: &[Node]) -> Vec<Extents> {
    let mut result: Vec<Extents> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut extents = Extents::SCALAR;
        match node.op.def.lowering {
            _ if node.ty.shape.rank() > MAX_RANK => {}
            Lowering::Pointwise(_) => {
                for input in &node.inputs {
                    extents = extents.join(&result[input.index()]);
                }
            }
            Lowering::View(layout) => {
                let from = &nodes[node.inputs[0].index()].ty.shape;
                let plain = Layout::contiguous(from);
                let seen = layout(&node.op.attributes, &plain, &node.ty.shape);
                let below = result[node.inputs[0].index()];
                match seen.and_then(|seen| super::encode::sources(&seen, from)) {
                    Some(sources) => {
                        for (axis, &source) in sources.iter().enumerate() {
                            extents.set(axis, below.get(usize::from(source)));
                        }
                    }
                    None if below == Extents::SCALAR => {}
                    None => extents = Extents::of(&node.ty.shape),
                }
            }
            Lowering::Constant => {}
            _ => extents = Extents::of(&node.ty.shape),
        }
        result.push(extents);
    }
    result
}

/// Note what is written and read because `node` is computed.
fn mark_traffic(
    node: usize,
    role: Role,
    operands: &[usize],
    work: &impl Fn(usize) -> Work,
    states: &mut [State],
) {
    if matches!(role, Role::View | Role::Turn) {
        return;
    }
    let own_kernel = matches!(role, Role::Contraction | Role::Memory);
    let depth = match role {
        Role::ColumnReduction => states[node].depth - 1,
        _ => states[node].depth,
    };
    for &operand in operands {
        let base = states[operand].base;
        let in_memory = work(base).role == Role::Leaf && !states[base].computed;
        let other_epilogue =
            states[base].epilogue != 0 && states[base].epilogue != states[node].epilogue;
        let crosses = depth > states[base].depth || other_epilogue && role != Role::ColumnReduction;
        if own_kernel {
            states[base].stored = true;
        }
        if !own_kernel && (in_memory || crosses) {
            states[base].reads |= 1 << (depth % 64);
        }
    }
}

/// What a graph is made of and about how long it takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The time of one run.
    pub nanoseconds: f64,
    /// Bytes between kernels.
    pub bytes: f64,
    /// Kernels.
    pub kernels: usize,
    /// The longest chain of reductions of rows that wait for each other.
    pub passes: usize,
    /// Reductions along the last axis.
    pub row_reductions: usize,
    /// Other reductions.
    pub column_reductions: usize,
    /// Matrix products.
    pub contractions: usize,
    /// Elementwise instructions on every element of a row.
    pub instructions: usize,
    /// Those of them that are divisions, roots or transcendental.
    pub heavy: usize,
    /// Instructions on one number for a row, or fewer.
    pub row_instructions: usize,
}

impl Estimate {
    fn count(&mut self, node: &Node, role: Role, extents: &Extents) {
        match role {
            Role::RowReduction => self.row_reductions += 1,
            Role::ColumnReduction => self.column_reductions += 1,
            Role::Contraction => self.contractions += 1,
            Role::Elementwise if !extents.varies(0) => self.row_instructions += 1,
            Role::Elementwise => {
                self.instructions += 1;
                if let Lowering::Pointwise(op) = node.op.def.lowering {
                    let unit = CostModel::default();
                    self.heavy += usize::from(unit.scalar(op) > unit.instruction);
                }
            }
            _ => {}
        }
    }
}

/// Arithmetic that is only priced.
pub(super) struct Price<'a> {
    pub model: &'a CostModel,
    pub time: f64,
}

impl Arithmetic for Price<'_> {
    type Value = Extents;

    fn extents(&self, value: &Extents) -> Extents {
        *value
    }

    fn number(&mut self, _: f64) -> Extents {
        Extents::SCALAR
    }

    fn binary(&mut self, op: Binary, a: Extents, b: Extents) -> Extents {
        let result = a.join(&b);
        let op = match op {
            Binary::Add => ScalarOp::Add,
            Binary::Subtract => ScalarOp::Subtract,
            Binary::Multiply => ScalarOp::Multiply,
            Binary::Divide => ScalarOp::Divide,
        };
        self.time += self.model.elementwise(op, &result);
        result
    }

    fn unary(&mut self, op: Unary, a: Extents) -> Extents {
        let op = match op {
            Unary::Negate => ScalarOp::Negate,
            Unary::SquareRoot => ScalarOp::Sqrt,
            Unary::ReciprocalSquareRoot => ScalarOp::ReciprocalSqrt,
            Unary::Reciprocal => ScalarOp::Reciprocal,
        };
        self.time += self.model.elementwise(op, &a);
        a
    }
}
