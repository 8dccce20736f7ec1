//! A training step in no more memory than it may have: layers are computed again for the
//! backward pass, as few as suffice.
//!
//! The candidates are the layers and what contains them. They are marked one after the other,
//! those first that take the least time for each byte they save, so that each graph of the
//! sequence saves more than the one before. How much memory a graph really takes shows in its
//! plan, so the first that fits is searched for by bisection.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::TrainError;
use crate::autodiff::recompute_layers;
use crate::egraph::CostModel;
use crate::ir::{Graph, Lowering, Node};
use crate::plan::Role;
use crate::runtime::{Draft, Session};

/// How many graphs of the sequence are looked at.
const STAGES: usize = 12;

/// A plan within a budget, of a training step whose first `forward` nodes were there before it
/// was differentiated.
pub(super) fn within(
    session: &mut Session,
    graph: &Graph,
    forward: usize,
    budget: u64,
) -> Result<Draft, TrainError> {
    let model = session.cost_model();
    let marked = sequence(&candidates(graph, forward, &model));
    let stages = stages(&marked);
    let mut draft = |stage: usize| {
        let layer = |scope: u32| layer_of(graph, scope, &marked[..stages[stage]]);
        match recompute_layers(graph, forward, layer) {
            Some(again) => session.draft(&again),
            None => session.draft(graph),
        }
    };
    let first = draft(0)?;
    if first.plan.peak_bytes() <= budget {
        return Ok(first);
    }
    let (mut too_large, mut fits) = (0, stages.len() - 1);
    let mut found = draft(fits)?;
    if found.plan.peak_bytes() > budget {
        // More marks are not always less memory: look at all.
        let mut least = first;
        for stage in (1..stages.len()).rev() {
            let draft = draft(stage)?;
            if draft.plan.peak_bytes() < least.plan.peak_bytes() {
                least = draft;
            }
        }
        return match least.plan.peak_bytes() {
            peak if peak <= budget => Ok(least),
            peak => Err(TrainError::Memory {
                budget,
                least: peak,
                fixed: fixed_bytes(&least),
            }),
        };
    }
    while fits - too_large > 1 {
        let middle = usize::midpoint(fits, too_large);
        let draft = draft(middle)?;
        if draft.plan.peak_bytes() <= budget {
            (fits, found) = (middle, draft);
        } else {
            too_large = middle;
        }
    }
    Ok(found)
}

/// How many are marked in the graphs that are looked at, so that each saves about as much more
/// than the one before.
fn stages(marked: &[Candidate]) -> Vec<usize> {
    let total: f64 = marked.iter().map(|candidate| candidate.bytes).sum();
    let (mut saved, mut stages) = (0.0, vec![0]);
    for (index, candidate) in marked.iter().enumerate() {
        saved += candidate.bytes;
        let due = saved * STAGES as f64 >= total * stages.len() as f64;
        if due || index + 1 == marked.len() {
            stages.push(index + 1);
        }
    }
    stages
}

/// What is in memory between steps, too.
fn fixed_bytes(draft: &Draft) -> u64 {
    let fixed = draft.plan.buffers.iter();
    let fixed = fixed.filter(|buffer| !matches!(buffer.role, Role::Temporary { .. }));
    4 * fixed.map(|buffer| buffer.elements as u64).sum::<u64>()
}

/// The layer that a scope is computed again with: what the user marked, or the last marked
/// candidate that contains it.
fn layer_of(graph: &Graph, scope: u32, marked: &[Candidate]) -> Option<u32> {
    let by_mark = || {
        let marked = marked.iter().rev();
        let mut containing = marked.filter(|candidate| candidate.scopes.contains(&scope));
        // Of nested ones the outer: its scopes are more.
        let first = containing.next()?;
        let outer = containing.fold(first, |outer, other| {
            match other.scopes.len() > outer.scopes.len() {
                true => other,
                false => outer,
            }
        });
        outer.scopes.iter().min().copied()
    };
    graph.recomputed_with(scope).or_else(by_mark)
}

/// A layer that may be computed again.
#[derive(Clone, Debug)]
struct Candidate {
    /// The path it stands under.
    path: String,
    /// The scopes in it.
    scopes: FxHashSet<u32>,
    /// What need not be kept for the backward pass, less what must be instead.
    bytes: f64,
    /// The time of computing it again.
    time: f64,
}

/// All layers that keep something for the backward pass.
fn candidates(graph: &Graph, forward: usize, model: &CostModel) -> Vec<Candidate> {
    let nodes = graph.nodes();
    let saved = Saved::of(&nodes, forward);
    let mut found: BTreeMap<String, FxHashSet<u32>> = BTreeMap::new();
    let scopes: FxHashSet<u32> = nodes[..forward].iter().map(|node| node.scope).collect();
    for scope in scopes {
        let path = graph.scope_path(scope);
        let ends = path.match_indices('.').map(|(dot, _)| dot);
        for end in ends.chain([path.len()]).filter(|end| *end > 0) {
            let scopes = found.entry(path[..end].to_owned()).or_default();
            scopes.insert(scope);
        }
    }
    let total: f64 = saved.bytes.iter().sum();
    let mut roots = vec![false; nodes.len()];
    let outputs = graph.outputs().into_iter();
    for (_, id) in outputs.chain(
        graph
            .updates()
            .into_iter()
            .map(|(_, id)| (String::new(), id)),
    ) {
        roots[id.index()] = true;
    }
    let candidate = |(path, scopes): (String, FxHashSet<u32>)| {
        let inside = inside(&nodes[..forward], &roots, &scopes);
        let members = (0..forward).filter(|&index| inside[index]);
        let freed: f64 = members.clone().map(|index| saved.bytes[index]).sum();
        let mut starts: Vec<usize> = members
            .clone()
            .flat_map(|index| &nodes[index].inputs)
            .map(|input| base(&nodes, input.index()))
            .filter(|&start| !inside[start] && !saved.known[start])
            .collect();
        starts.sort_unstable();
        starts.dedup();
        let kept: f64 = starts.into_iter().map(|start| bytes(&nodes[start])).sum();
        let candidate = Candidate {
            path,
            scopes,
            bytes: freed - kept,
            time: members
                .map(|index| time(&nodes, &nodes[index], model))
                .sum(),
        };
        // What is all alive at once when the backward pass begins saves nothing.
        (candidate.bytes > 0.0 && freed <= 0.5 * total).then_some(candidate)
    };
    found.into_iter().filter_map(candidate).collect()
}

/// The nodes of some scopes that nobody else reads in the forward pass.
fn inside(nodes: &[Node], roots: &[bool], scopes: &FxHashSet<u32>) -> Vec<bool> {
    let within = |node: &Node| scopes.contains(&node.scope);
    let mut inside: Vec<bool> = nodes
        .iter()
        .zip(roots)
        .map(|(node, root)| within(node) && !root && !is_leaf(node))
        .collect();
    for node in nodes.iter().filter(|node| !within(node)) {
        for input in &node.inputs {
            inside[input.index()] = false;
        }
    }
    inside
}

fn is_leaf(node: &Node) -> bool {
    matches!(
        node.op.def.lowering,
        Lowering::Leaf | Lowering::Constant | Lowering::Index
    )
}

fn bytes(node: &Node) -> f64 {
    4.0 * node.ty.shape.elements() as f64
}

/// What a node is a view of.
fn base(nodes: &[Node], mut index: usize) -> usize {
    while matches!(nodes[index].op.def.lowering, Lowering::View(_)) {
        index = nodes[index].inputs[0].index();
    }
    index
}

/// What the backward pass finds of the forward pass.
struct Saved {
    /// For each value what it takes to keep it. Elementwise values that only others like them read
    /// are made again of those that are kept.
    bytes: Vec<f64>,
    /// Whether a value is at hand: kept, or made of what is.
    known: Vec<bool>,
}

impl Saved {
    fn of(nodes: &[Node], forward: usize) -> Saved {
        let count = nodes.len();
        // Read by the backward pass, through views or not, and by what needs it in memory.
        let (mut read, mut whole) = (vec![false; count], vec![false; count]);
        for (index, node) in nodes.iter().enumerate().rev() {
            let lowering = node.op.def.lowering;
            let view = matches!(lowering, Lowering::View(_));
            let anywhere = matches!(lowering, Lowering::Pointwise(_) | Lowering::Reduce(_));
            for input in node.inputs.iter().map(|input| input.index()) {
                read[input] |= index >= forward || view && read[index];
                whole[input] |= match view {
                    true => whole[index],
                    false => index >= forward && !anywhere,
                };
            }
        }
        let mut saved = Saved {
            bytes: vec![0.0; count],
            known: vec![false; count],
        };
        for (index, node) in nodes[..forward].iter().enumerate() {
            let inputs = node.inputs.iter().map(|input| input.index());
            let lowering = node.op.def.lowering;
            let made = match lowering {
                Lowering::Pointwise(_) | Lowering::View(_) => {
                    inputs.into_iter().all(|input| saved.known[input])
                }
                _ => is_leaf(node),
            };
            let kept = read[index] && !matches!(lowering, Lowering::View(_));
            saved.known[index] = made || kept;
            if kept && !is_leaf(node) && (!made || whole[index]) {
                saved.bytes[index] = bytes(node);
            }
        }
        saved
    }
}

/// About how long a node takes.
fn time(nodes: &[Node], node: &Node, model: &CostModel) -> f64 {
    let elements = node.ty.shape.elements() as f64;
    let read = node.inputs.iter().map(|input| &nodes[input.index()].ty);
    let read: f64 = read.map(|ty| ty.shape.elements() as f64).sum();
    match node.op.def.lowering {
        Lowering::Contract => {
            let depth = nodes[node.inputs[0].index()].ty.shape.last() as f64;
            2.0 * elements * depth * model.flop
        }
        Lowering::Pointwise(op) => elements * model.scalar(op),
        Lowering::Reduce(_) => read * model.pass,
        Lowering::View(_) | Lowering::Leaf | Lowering::Constant | Lowering::Index => 0.0,
        _ => model.read(read) + model.written(elements),
    }
}

/// The candidates in the order in which they are marked. One that contains marked ones counts
/// with what it adds to them.
fn sequence(candidates: &[Candidate]) -> Vec<Candidate> {
    let mut rest = candidates.to_vec();
    let mut marked: Vec<Candidate> = Vec::new();
    loop {
        let within = |outer: &Candidate, inner: &Candidate| {
            let tail = inner.path.strip_prefix(&outer.path);
            tail.is_some_and(|tail| tail.is_empty() || tail.starts_with('.'))
        };
        rest.retain(|candidate| !marked.iter().any(|mark| within(mark, candidate)));
        let adds = |candidate: &Candidate| {
            let inner = outermost(&marked, &within);
            let inner = inner.into_iter().filter(|mark| within(candidate, mark));
            inner.fold((candidate.bytes, candidate.time), |sum, mark| {
                (sum.0 - mark.bytes, sum.1 - mark.time)
            })
        };
        let ratio = |candidate: &Candidate| {
            let (bytes, time) = adds(candidate);
            match bytes > 0.0 {
                true => time / bytes,
                false => f64::INFINITY,
            }
        };
        let best = (0..rest.len()).min_by(|&a, &b| {
            let (first, second) = (&rest[a], &rest[b]);
            // Of equals the first: it is the last to be needed again.
            ratio(first)
                .total_cmp(&ratio(second))
                .then_with(|| first.scopes.iter().min().cmp(&second.scopes.iter().min()))
        });
        match best {
            Some(best) if ratio(&rest[best]).is_finite() => marked.push(rest.remove(best)),
            _ => return marked,
        }
    }
}

/// Of marked layers those that no other contains.
fn outermost<'m>(
    marked: &'m [Candidate],
    within: &impl Fn(&Candidate, &Candidate) -> bool,
) -> Vec<&'m Candidate> {
    let contained = |inner: &Candidate| {
        let others = marked.iter().filter(|other| other.path != inner.path);
        others.into_iter().any(|outer| within(outer, inner))
    };
    marked.iter().filter(|mark| !contained(mark)).collect()
}
