//! Which values go through memory, and what that costs.

use super::{CostModel, Role, Work};

/// Buffers for [`CostModel::total`], by node.
#[derive(Default)]
pub(in crate::egraph) struct Scratch {
    pub(super) states: Vec<State>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct State {
    /// Kernels that must be complete before its own.
    pub(super) depth: u32,
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

impl State {
    /// Read by other kernels, but not in memory so far.
    fn waits(&self) -> bool {
        self.reads != 0 && !self.stored && self.computed
    }
}

/// A value computed again in every kernel that reads it.
struct Again {
    node: usize,
    /// The time of computing it.
    time: f64,
    /// The time that saves, on the whole.
    saved: f64,
    /// What it is computed from.
    bases: Vec<usize>,
}

impl Again {
    fn apply(&self, states: &mut [State]) {
        let reads = std::mem::take(&mut states[self.node].reads);
        for &base in &self.bases {
            states[base].reads |= reads;
        }
    }
}

/// The total of a selection of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::egraph) struct Total {
    pub time: f64,
    pub bytes: f64,
    pub passes: u32,
    pub kernels: u32,
}

impl CostModel {
    /// The cost of the nodes in `order` (operands first), of which `roots` are kept.
    pub(in crate::egraph) fn total<'a>(
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
                total.time += self.memory(work(root).elements, work(root).elements);
                total.kernels += 1;
            }
        }
        for &node in order {
            if work(node).role == Role::Contraction {
                total.time += self.inside_kept(node, order, &work, &operands, states);
            }
        }
        for &node in order {
            if states[node].waits() {
                match self.again(node, None, &work, &operands, states) {
                    Some(again) if again.saved > 0.0 => {
                        total.time += again.time;
                        again.apply(states);
                    }
                    _ => states[node].stored = true,
                }
            }
        }
        let (mut written, mut read) = (0.0, 0.0);
        for &node in order {
            let (work, state) = (work(node), &states[node]);
            if state.stored && state.computed {
                written += work.elements;
            }
            read += f64::from(state.reads.count_ones()) * work.elements;
        }
        total.bytes = 4.0 * (read + written);
        total.time += walked + self.read(read) + self.written(written);
        total.kernels += kernels.count_ones();
        total.time += f64::from(kernels.count_ones()) * self.launch;
        total
    }

    /// Keep the result of a contraction and compute again what its epilogue would leave for other
    /// kernels, if that is cheaper; the time of that.
    fn inside_kept<'a>(
        &self,
        contraction: usize,
        order: &[usize],
        work: &impl Fn(usize) -> Work,
        operands: &impl Fn(usize) -> &'a [usize],
        states: &mut [State],
    ) -> f64 {
        let own = states[contraction].epilogue;
        if states[contraction].stored || states[contraction].reads != 0 {
            return 0.0;
        }
        let left = order[own..].iter().copied();
        let left = left.filter(|&node| states[node].epilogue == own && states[node].waits());
        let again: Vec<Again> = left
            .filter_map(|node| self.again(node, Some(contraction), work, operands, states))
            .filter(|again| again.saved > 0.0)
            .collect();
        let reads = again
            .iter()
            .fold(0, |reads, again| reads | states[again.node].reads);
        let saved: f64 = again.iter().map(|again| again.saved).sum();
        let elements = work(contraction).elements;
        let paid = self.written(elements) + f64::from(reads.count_ones()) * self.read(elements);
        if saved <= paid {
            return 0.0;
        }
        states[contraction].stored = true;
        states[contraction].reads = reads;
        again
            .into_iter()
            .map(|again| {
                again.apply(states);
                again.time
            })
            .sum()
    }

    /// What it takes to compute a value again in every kernel that reads it, from what is in
    /// memory anyway and from `given`.
    fn again<'a>(
        &self,
        node: usize,
        given: Option<usize>,
        work: &impl Fn(usize) -> Work,
        operands: &impl Fn(usize) -> &'a [usize],
        states: &[State],
    ) -> Option<Again> {
        let (mut time, mut bases, mut steps) = (0.0, Vec::new(), 0);
        let mut open = vec![node];
        while let Some(next) = open.pop() {
            let state = &states[next];
            if Some(next) == given {
                continue;
            }
            if next != node && (state.stored || !state.computed) {
                if state.computed || work(next).role == Role::Leaf {
                    bases.push(next);
                }
                continue;
            }
            steps += 1;
            if work(next).role != Role::Elementwise || steps > 12 {
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
            f64::from(missing.count_ones()) * self.read(work(*base).elements)
        };
        let elements = work(node).elements;
        let kept = self.written(elements) + times * self.read(elements);
        Some(Again {
            node,
            time: time * times,
            saved: kept - time * times - bases.iter().map(more).sum::<f64>(),
            bases,
        })
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
