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
