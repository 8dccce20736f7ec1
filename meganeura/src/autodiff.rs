//! Gradients: graph to graph, from the `vjp` rules of the primitives.
//!
//! Contributions of repeated uses are summed, those of one layer first. Gradients are
//! ordinary graph, so they can be differentiated again. Each gradient node belongs to the
//! layer of the op it is the gradient of.

mod recompute;

pub use recompute::{recompute, recompute_layers};

use crate::ir::{Graph, NodeId, Tensor, Vjp};

/// The gradients of Σ output · upstream with respect to `sources`, added to the graph.
///
/// `seeds` pairs outputs with their upstream gradients, of the same shape. The graph must
/// consist of primitives on the way (see [`crate::ops::expand`]); a source that no output
/// depends on gets zeros.
pub fn gradients<'g>(
    seeds: &[(Tensor<'g>, Tensor<'g>)],
    sources: &[Tensor<'g>],
) -> Vec<Tensor<'g>> {
    let Some((first, _)) = seeds.first() else {
        return sources.iter().map(|source| zeros(*source)).collect();
    };
    let graph = first.graph();
    if seeds
        .iter()
        .any(|(output, upstream)| output.is_poisoned() || upstream.is_poisoned())
    {
        return sources.iter().map(|source| zeros(*source)).collect();
    }
    let reached = reached_from(graph, sources);
    let mut contributions: Vec<Vec<Tensor<'g>>> = vec![Vec::new(); reached.len()];
    for (output, upstream) in seeds {
        contributions[output.id().index()].push(upstream.broadcast(output.shape()));
    }
    for index in (0..reached.len()).rev() {
        if !reached[index] || contributions[index].is_empty() {
            continue;
        }
        let id = NodeId::new(index);
        let total = total(graph, id, &contributions[index]);
        contributions[index] = vec![total];
        graph.in_scope_of(id, || {
            for (operand, gradient) in operand_gradients(graph, id, total) {
                if reached[operand.index()] {
                    contributions[operand.index()].push(gradient);
                }
            }
        });
    }
    sources
        .iter()
        .map(
            |source| match contributions.get(source.id().index()).map(Vec::as_slice) {
                Some([]) | None => zeros(*source),
                Some(parts) => total(graph, source.id(), parts),
            },
        )
        .collect()
}

fn zeros(source: Tensor<'_>) -> Tensor<'_> {
    source.graph().constant(0.0).broadcast(source.shape())
}

/// Which nodes depend on a source.
fn reached_from(graph: &Graph, sources: &[Tensor<'_>]) -> Vec<bool> {
    let nodes = graph.nodes();
    let mut reached = vec![false; nodes.len()];
    for source in sources {
        if let Some(slot) = reached.get_mut(source.id().index()) {
            *slot = true;
        }
    }
    for (index, node) in nodes.iter().enumerate() {
        if node.inputs.iter().any(|input| reached[input.index()]) {
            reached[index] = true;
        }
    }
    reached
}

/// The gradients one node passes on to its operands.
fn operand_gradients<'g>(
    graph: &'g Graph,
    id: NodeId,
    upstream: Tensor<'g>,
) -> Vec<(NodeId, Tensor<'g>)> {
    let node = graph.nodes()[id.index()].clone();
    let (op, inputs) = graph.composite(id).unwrap_or((node.op, node.inputs));
    match op.def.vjp {
        Vjp::Zero => Vec::new(),
        Vjp::Rule(rule) => {
            let operands: Vec<Tensor<'g>> =
                inputs.iter().map(|&input| graph.tensor(input)).collect();
            let gradients = rule(&op.attributes, &operands, graph.tensor(id), upstream);
            inputs
                .into_iter()
                .zip(gradients)
                .filter_map(|(input, g)| Some((input, g?)))
                .collect()
        }
        Vjp::Derived => {
            graph.fail(format!(
                "`{}` has no gradient of its own: expand the graph before differentiating it",
                op.def.name
            ));
            Vec::new()
        }
    }
}

/// The sum of the contributions to one node: those of one layer are summed within it first,
/// the layers' sums within the node's own.
fn total<'g>(graph: &'g Graph, id: NodeId, parts: &[Tensor<'g>]) -> Tensor<'g> {
    let scope = |part: &Tensor<'g>| graph.nodes()[part.id().index()].scope;
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|part| std::cmp::Reverse(scope(part)));
    let layers = sorted.chunk_by(|a, b| scope(a) == scope(b)).map(|parts| {
        let sum = |sum: Tensor<'g>, part: &Tensor<'g>| sum + *part;
        graph.in_scope_of(parts[0].id(), || parts[1..].iter().fold(parts[0], sum))
    });
    let layers: Vec<Tensor<'g>> = layers.collect();
    graph.in_scope_of(id, || {
        layers[1..].iter().fold(layers[0], |sum, part| sum + *part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Array, DType, Init};
    use crate::ops::evaluate_nodes;
    use std::collections::HashMap;

    fn scalars(values: &[(&str, f64)]) -> HashMap<String, Array> {
        values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Array::new([], vec![*value])))
            .collect()
    }

    #[test]
    fn repeated_uses_are_summed_and_twice_works() {
        let graph = Graph::new();
        let x = graph.input("x", [], DType::F32);
        let y = x * x * x;
        let first = gradients(&[(y, graph.constant(2.0))], &[x])[0];
        let second = gradients(&[(first, graph.constant(1.0))], &[x])[0];
        let values = evaluate_nodes(&graph, &scalars(&[("x", 3.0)]), &[first.id(), second.id()]);
        // 2 · 3x² and 2 · 6x at 3.
        assert_eq!((values[0].data[0], values[1].data[0]), (54.0, 36.0));
        assert!(graph.errors().is_empty());
    }

    #[test]
    fn an_unused_source_gets_zeros_and_a_detached_one_too() {
        let graph = Graph::new();
        let used = graph.parameter("used", [2], Init::Ones);
        let unused = graph.parameter("unused", [3], Init::Ones);
        let y = (used * used.detach()).sum_all();
        let found = gradients(&[(y, graph.constant(1.0))], &[used, unused]);
        let ones = HashMap::from([("used".to_owned(), Array::new([2], vec![5.0, 7.0]))]);
        let values = evaluate_nodes(&graph, &ones, &[found[0].id(), found[1].id()]);
        assert_eq!(values[0].data, [5.0, 7.0]);
        assert_eq!(values[1].data, [0.0; 3]);
    }

    #[test]
    fn select_sends_no_nan_from_the_branch_not_taken() {
        let graph = Graph::new();
        let x = graph.input("x", [], DType::F32);
        let y = x.less(graph.constant(1.0)).select(x * 2.0, x.log());
        let g = gradients(&[(y, graph.constant(3.0))], &[x])[0];
        let value = evaluate_nodes(&graph, &scalars(&[("x", 0.0)]), &[y.id()]);
        assert_eq!(value[0].data, [0.0]);
        assert!(!evaluate_nodes(&graph, &scalars(&[("x", 0.5)]), &[g.id()])[0].data[0].is_nan());
    }
}
