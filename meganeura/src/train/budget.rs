//! A training step in no more memory than it may have: layers are computed again for the
//! backward pass, as few as suffice.
//!
//! The candidates are the layers and what contains them. They are marked one after the other,
//! those first that take the least time for each byte they save, so that each graph of the
//! sequence saves more than the one before. How much memory a graph really takes shows in its
//! plan, so the first that fits is searched for by bisection.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::TrainError;
use crate::autodiff::recompute_layers;
use crate::egraph::CostModel;
use crate::ir::{Graph, Lowering, Node};
use crate::plan::Role;
use crate::runtime::{Draft, Session};

/// A plan within a budget, of a training step whose first `forward` nodes were there before it
/// was differentiated.
pub(super) fn within(
    session: &Session,
    graph: &Graph,
    forward: usize,
    budget: u64,
) -> Result<Draft, TrainError> {
    let marked = sequence(&candidates(graph, forward, &session.cost_model()));
    let draft = |count: usize| {
        let layer = |scope: u32| layer_of(graph, scope, &marked[..count]);
        match recompute_layers(graph, forward, layer) {
            Some(again) => session.draft(&again),
            None => session.draft(graph),
        }
    };
    let first = draft(0)?;
    if first.plan.peak_bytes() <= budget {
        return Ok(first);
    }
    let (mut too_large, mut fits) = (0, marked.len());
    let mut found = draft(fits)?;
    if found.plan.peak_bytes() > budget {
        // More marks are not always less memory: look at all.
        let mut least = first;
        for count in (1..=marked.len()).rev() {
            let draft = draft(count)?;
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
    /// What the backward pass reads of its inside.
    bytes: f64,
    /// The time of computing it again.
    time: f64,
}

/// All layers that keep something for the backward pass.
fn candidates(graph: &Graph, forward: usize, model: &CostModel) -> Vec<Candidate> {
    let nodes = graph.nodes();
    let saved = saved(&nodes, forward);
    let mut paths: FxHashMap<u32, String> = FxHashMap::default();
    let mut found: BTreeMap<String, Candidate> = BTreeMap::new();
    let mut total = 0.0;
    for (index, node) in nodes[..forward].iter().enumerate() {
        let path = paths
            .entry(node.scope)
            .or_insert_with(|| graph.scope_path(node.scope));
        let bytes = match saved[index] {
            true => 4.0 * node.ty.shape.elements() as f64,
            false => 0.0,
        };
        total += bytes;
        let ends = path.match_indices('.').map(|(dot, _)| dot);
        for end in ends.chain([path.len()]).filter(|end| *end > 0) {
            let candidate = found
                .entry(path[..end].to_owned())
                .or_insert_with(|| Candidate {
                    path: path[..end].to_owned(),
                    scopes: FxHashSet::default(),
                    bytes: 0.0,
                    time: 0.0,
                });
            candidate.scopes.insert(node.scope);
            candidate.bytes += bytes;
            candidate.time += time(&nodes, node, model);
        }
    }
    // What is all alive at once when the backward pass begins saves nothing.
    let worth = |candidate: &Candidate| candidate.bytes > 0.0 && candidate.bytes <= 0.5 * total;
    found.into_values().filter(worth).collect()
}

/// Which forward values the backward pass reads, through views or not.
fn saved(nodes: &[Node], forward: usize) -> Vec<bool> {
    let mut saved = vec![false; nodes.len()];
    for node in &nodes[forward..] {
        for input in &node.inputs {
            saved[input.index()] = input.index() < forward;
        }
    }
    for index in (0..forward).rev() {
        let lowering = nodes[index].op.def.lowering;
        if saved[index] && matches!(lowering, Lowering::View(_)) {
            saved[index] = false;
            saved[nodes[index].inputs[0].index()] = true;
        }
        if matches!(
            lowering,
            Lowering::Leaf | Lowering::Constant | Lowering::Index
        ) {
            saved[index] = false;
        }
    }
    saved
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
