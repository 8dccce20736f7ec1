//! Weights side by side: whatever lies where, values are those of weights that lie apart.

mod support;
#[path = "support/device.rs"]
mod device;

use std::collections::HashMap;

use meganeura::egraph::{CostModel, Rewrites};
use meganeura::ir::{Array, DType, Domain, Graph, Init, Shape, Tensor, Treatment};
use meganeura::layers::{Biases, Rope, SelfAttention, SwiGlu};
use meganeura::model::{Layer, Settings};
use meganeura::ops;
use meganeura::plan::Plan;
use meganeura::runtime::{Device, Session, StepId};
use meganeura::schedule::kernel::Action;
use meganeura::siblings::{Group, find, pack};
use meganeura::train::{AdamW, Optimizer, Sgd, add_updates};
use support::interpreter::interpret;
use support::samples::{Random, relative_error};

fn groups(graph: &Graph) -> Vec<Group> {
    find(graph, |_| false)
}

fn names(groups: &[Group]) -> Vec<&str> {
    groups.iter().map(|group| group.name.as_str()).collect()
}

fn random_leaves(graph: &Graph) -> HashMap<String, Array> {
    let mut random = Random::new(5);
    let variables = graph.variables().into_iter();
    let variables = variables.map(|(variable, id)| (variable.name, id));
    let leaves = graph.inputs().into_iter().chain(variables);
    let leaves = leaves.map(|(name, id)| {
        let ty = graph.tensor(id).ty();
        // Second moments are not negative.
        let domain = match (ty.dtype, name.contains("second_moment")) {
            (DType::U32, _) => Domain::Indices(4),
            (_, true) => Domain::Uniform(0.0, 1.0),
            _ => Domain::Uniform(-0.5, 0.5),
        };
        (name, random.array(&ty.shape, domain))
    });
    leaves.collect()
}

/// The leaves of the packed graph, from those of the graph as it was.
fn packed_leaves(leaves: &HashMap<String, Array>, groups: &[Group]) -> HashMap<String, Array> {
    let mut packed = leaves.clone();
    for group in groups {
        let mut whole = vec![f64::NAN; group.shape().elements()];
        for piece in &group.pieces {
            let values = &leaves[&piece.name].data;
            for (row, values) in values.chunks(piece.size).enumerate() {
                let at = row * group.columns() + piece.start;
                whole[at..at + piece.size].copy_from_slice(values);
            }
        }
        packed.insert(group.name.clone(), Array::new(group.shape(), whole));
    }
    packed
}

fn unpacked(results: &mut HashMap<String, Vec<f64>>, groups: &[Group]) {
    for group in groups {
        let Some(whole) = results.remove(&group.name) else {
            continue;
        };
        for piece in &group.pieces {
            let rows = whole.chunks(group.columns());
            let values = rows.flat_map(|row| &row[piece.start..piece.start + piece.size]);
            results.insert(piece.name.clone(), values.copied().collect());
        }
    }
}

/// The plan of the packed graph, which gives what the graph means.
fn checked_plan(graph: &Graph, groups: &[Group]) -> Plan {
    let leaves = random_leaves(graph);
    let packed = pack(graph, groups, &CostModel::default());
    assert!(packed.errors().is_empty(), "{:?}", packed.errors());
    let plan = Plan::new(&packed);
    let mut found = interpret(&plan, &packed_leaves(&leaves, groups));
    unpacked(&mut found, groups);
    let expected = ops::evaluate(graph, &leaves);
    let variables = graph.variables();
    let name = |id| variables.iter().find(|(_, leaf)| *leaf == id).unwrap();
    let updates = graph.updates().into_iter();
    let updates = updates.map(|(id, value)| (name(id).0.name.clone(), value));
    for (name, id) in graph.outputs().into_iter().chain(updates) {
        let error = relative_error(&found[&name], &expected[id.index()].data);
        assert!(error < 1e-6, "`{name}` is off by {error}\n{plan}");
    }
    plan
}

fn contractions(plan: &Plan) -> usize {
    let kernels = plan.kernels.iter();
    kernels
        .filter(|kernel| matches!(kernel.action, Action::Contract(_)))
        .count()
}

/// A decoder block without its norms.
fn block<'g>(x: Tensor<'g>, attention: SelfAttention, hidden: usize) -> Tensor<'g> {
    let graph = x.graph();
    let mixed = graph.scoped("attention", || attention.forward(graph, &[x])[0]);
    let x = x + mixed;
    let gated = SwiGlu {
        hidden,
        ..SwiGlu::from_config(SwiGlu::BASE)
    };
    x + graph.scoped("mlp", || gated.forward(graph, &[x])[0])
}

fn attention(bias: Biases, kv_heads: usize) -> SelfAttention {
    SelfAttention {
        heads: 4,
        kv_heads,
        causal: true,
        rope: Rope::interleaved(10_000.0),
        bias,
        ..SelfAttention::from_config(SelfAttention::BASE)
    }
}

/// A training step of a block.
fn training(attention: SelfAttention, optimizer: &dyn Optimizer) -> Graph {
    let graph = evaluation(attention, 2);
    add_updates(&graph, optimizer);
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    graph
}

fn evaluation(attention: SelfAttention, batch: usize) -> Graph {
    let graph = Graph::new();
    let x = graph.input("x", [batch, 6, 32], DType::F32);
    // The block's input has a gradient, too.
    let scale = graph.parameter("scale", [32], Init::Ones);
    let y = block(x.rms_norm(scale, 1e-5), attention, 40);
    graph.output("loss", y.square().mean_all());
    ops::expand(&graph).0
}

#[test]
fn queries_keys_values_and_their_moments_lie_side_by_side() {
    let graph = training(attention(Biases::None, 0), &AdamW::new(1e-3));
    let found = groups(&graph);
    let weights = ["query", "key", "value"].map(|name| format!("attention.{name}.weight"));
    let gates = ["gate", "up"].map(|name| format!("mlp.{name}.weight"));
    let moments = |names: &[String], which: &str| {
        let names: Vec<String> = names.iter().map(|name| format!("{name}.{which}")).collect();
        names.join(" | ")
    };
    let mut wanted = vec![weights.join(" | "), gates.join(" | ")];
    for which in ["first_moment", "second_moment"] {
        wanted.push(moments(&weights, which));
        wanted.push(moments(&gates, which));
    }
    let mut found = names(&found);
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn every_step_graph_packs_the_same_weights() {
    for bias in [Biases::None, Biases::All] {
        let training = training(attention(bias, 2), &AdamW::new(1e-3));
        let evaluation = evaluation(attention(bias, 2), 7);
        let parameters = |graph: &Graph| {
            let mut groups = groups(graph);
            groups.retain(|group| !group.name.contains("moment"));
            groups
        };
        assert_eq!(parameters(&training), parameters(&evaluation));
        let count = if bias == Biases::All { 3 } else { 2 };
        assert_eq!(parameters(&evaluation).len(), count);
    }
}

#[test]
fn packed_steps_compute_what_the_graph_means() {
    let adam = AdamW::new(1e-3);
    let sgd = Sgd::new(0.1).momentum(0.9);
    for bias in [Biases::None, Biases::All, Biases::AllButKey] {
        for kv_heads in [0, 2] {
            for optimizer in [&adam as &dyn Optimizer, &sgd] {
                let graph = training(attention(bias, kv_heads), optimizer);
                checked_plan(&graph, &groups(&graph));
            }
            let graph = evaluation(attention(bias, kv_heads), 3);
            checked_plan(&graph, &groups(&graph));
        }
    }
}

#[test]
fn a_block_has_fewer_kernels_and_moves_less() {
    let graph = training(attention(Biases::None, 0), &AdamW::new(1e-3));
    let apart = checked_plan(&graph, &[]);
    let packed = checked_plan(&graph, &groups(&graph));
    println!("{apart}\n{packed}");
    // Of queries, keys and values 3 + 3 + 3 become 1 + 1 + 1; of gate and up 2 + 2 + 2 may
    // become 2 + 1 + 1.
    assert_eq!(contractions(&apart) - contractions(&packed), 8);
    assert!(packed.bytes_moved() < apart.bytes_moved());
}
