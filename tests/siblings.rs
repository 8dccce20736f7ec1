//! Weights side by side: whatever lies where, values are those of weights that lie apart.

mod support;

use std::collections::HashMap;

use meganeura::egraph::{CostModel, Rewrites, optimize};
use meganeura::interop::safetensors::Tensors;
use meganeura::interop::weights::Convention;
use meganeura::ir::{Array, DType, Domain, Graph, Init, Shape, Tensor, Treatment};
use meganeura::layers::{Biases, Rope, SelfAttention, SwiGlu};
use meganeura::model::{Layer, Settings};
use meganeura::ops;
use meganeura::plan::Plan;
use meganeura::runtime::{Device, Session, StepId};
use meganeura::schedule::kernel::Action;
use meganeura::siblings::{Group, find, pack};
use meganeura::train::{AdamW, Optimizer, Sgd, add_updates};
use support::give;
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
    let packed = pack(graph, groups);
    assert!(packed.errors().is_empty(), "{:?}", packed.errors());
    let (packed, report) = optimize(&packed, Rewrites::EGraph, &CostModel::default());
    println!("{report}");
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
    let gated = SwiGlu { hidden };
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
    // Of queries, keys and values 3 + 3 + 3 products become 1 + 1 + 1. Of gate and up 2 + 2 + 2
    // become 1 + 1 + 1: this small, a kernel more costs less than a product more.
    assert_eq!(contractions(&apart), 21, "{apart}");
    assert_eq!(contractions(&packed), 12, "{packed}");
    assert!(packed.bytes_moved() < apart.bytes_moved());
    // And gate and up are read from memory by a kernel of their own, and the gradient of the
    // values, which an attention makes, is copied to its place beside the others. The gradients of
    // queries and keys are turned back and put there by one kernel, as they are turned by one.
    assert_eq!(
        (apart.kernels.len(), packed.kernels.len()),
        (34, 25),
        "{apart}\n{packed}"
    );
}

#[test]
fn only_what_is_trained_alike_shares_a_buffer() {
    fn input(graph: &Graph) -> Tensor<'_> {
        graph.input("x", [5, 8], DType::F32)
    }
    // One is frozen.
    let graph = Graph::new();
    let x = input(&graph);
    let frozen = Treatment {
        frozen: true,
        ..Treatment::default()
    };
    let a = graph.treated(&frozen, || graph.parameter("a", [8, 4], Init::Ones));
    let b = graph.parameter("b", [8, 4], Init::Ones);
    graph.output("loss", (x.matmul(a) * x.matmul(b)).mean_all());
    assert!(groups(&graph).is_empty());
    add_updates(&graph, &Sgd::new(0.1));
    assert!(groups(&graph).is_empty());

    // Other left operands.
    let graph = Graph::new();
    let x = input(&graph);
    let a = graph.parameter("a", [8, 4], Init::Ones);
    let b = graph.parameter("b", [8, 4], Init::Ones);
    graph.output("loss", (x.matmul(a) * x.tanh().matmul(b)).mean_all());
    assert!(groups(&graph).is_empty());

    // One is a table of rows, too.
    let graph = Graph::new();
    let x = input(&graph);
    let tokens = graph.input("tokens", [5], DType::U32);
    let a = graph.parameter("a", [8, 4], Init::Ones);
    let b = graph.parameter("b", [8, 4], Init::Ones);
    let rows = a.gather(tokens);
    graph.output("loss", (x.matmul(a) * x.matmul(b) * rows).mean_all());
    assert!(groups(&graph).is_empty());

    // Only one bias, or biases that differ: the weights alone.
    let graph = Graph::new();
    let x = input(&graph);
    let a = graph.parameter("a", [8, 4], Init::Ones);
    let b = graph.parameter("b", [8, 6], Init::Ones);
    let bias = graph.parameter("bias", [4], Init::Ones);
    let y = (x.matmul(a) + bias).sum_all() * x.matmul(b).square().sum_all();
    graph.output("loss", y);
    add_updates(&graph, &Sgd::new(0.1));
    let found = groups(&graph);
    assert_eq!(names(&found), ["a | b"]);
    checked_plan(&graph, &found);
}

/// Weight decay for some parameters only.
struct DecaysOnly(&'static str);

impl Optimizer for DecaysOnly {
    fn update<'g>(&self, graph: &'g Graph, name: &str, x: Tensor<'g>, gradient: Tensor<'g>) {
        let decayed = if name.contains(self.0) { x * 0.9 } else { x };
        graph.update(x, decayed - gradient * 0.1);
    }

    fn inputs(&self, _: u64) -> Vec<(&'static str, f32)> {
        Vec::new()
    }

    fn set_learning_rate(&mut self, _: f64) {}

    fn learning_rate(&self) -> f64 {
        0.1
    }
}

#[test]
fn groups_with_settings_of_their_own_stay_apart() {
    let graph = training(attention(Biases::None, 0), &DecaysOnly("query"));
    let found = groups(&graph);
    assert_eq!(names(&found), ["mlp.gate.weight | mlp.up.weight"]);
    checked_plan(&graph, &found);

    // When they lie side by side already, each still follows its own rule.
    let packed = groups(&evaluation(attention(Biases::None, 0), 2));
    assert_eq!(packed.len(), 2);
    checked_plan(&graph, &packed);

    // A step that trains one of them and leaves the others.
    let graph = evaluation(attention(Biases::None, 0), 2);
    let variables = graph.variables();
    let of = |name: &str| variables.iter().find(|(v, _)| v.name.contains(name));
    let key = graph.tensor(of("key").expect("a key").1);
    graph.update(key, key * 0.5);
    assert_eq!(groups(&graph).len(), 1);
    checked_plan(&graph, &packed);
}

/// The oracle's variables after so many steps.
fn trained(
    graph: &Graph,
    leaves: &HashMap<String, Array>,
    optimizer: &dyn Optimizer,
    steps: u64,
) -> HashMap<String, Array> {
    let mut leaves = leaves.clone();
    let names: HashMap<_, _> = graph
        .variables()
        .into_iter()
        .map(|(v, id)| (id, v.name))
        .collect();
    for step in 1..=steps {
        for (name, value) in optimizer.inputs(step) {
            let value = Array::new(Shape::scalar(), vec![f64::from(value)]);
            leaves.insert(name.to_owned(), value);
        }
        let values = ops::evaluate(graph, &leaves);
        for (variable, value) in graph.updates() {
            leaves.insert(names[&variable].clone(), values[value.index()].clone());
        }
    }
    leaves
}

fn run_steps(session: &mut Session, step: StepId, optimizer: &dyn Optimizer, steps: u64) {
    for index in 1..=steps {
        for (name, value) in optimizer.inputs(index) {
            if session.has_input(step, name) {
                session.input(step, name, &[value]).unwrap();
            }
        }
        session.run(step).unwrap();
    }
}

fn train_on(device: &Device, bias: Biases, kv_heads: usize, optimizer: &dyn Optimizer) {
    let graph = training(attention(bias, kv_heads), optimizer);
    let mut leaves = random_leaves(&graph);
    for (name, array) in &mut leaves {
        if name.contains("moment") {
            array.data.fill(0.0);
        }
    }
    let expected = trained(&graph, &leaves, optimizer, 3);
    let mut session = Session::new(device, 1).unwrap();
    let step = session.compile(&graph).unwrap();
    give(&mut session, step, &graph, &leaves);
    run_steps(&mut session, step, optimizer, 3);
    for (variable, _) in graph.variables() {
        let found = session.variable(&variable.name).unwrap();
        let found: Vec<f64> = found.into_iter().map(f64::from).collect();
        let error = relative_error(&found, &expected[&variable.name].data);
        assert!(error < 2e-4, "{bias:?} `{}`: {error}", variable.name);
    }
}

fn train_everywhere(device: &Device) {
    let adam = AdamW::new(1e-2);
    let sgd = Sgd::new(0.1).momentum(0.9);
    train_on(device, Biases::None, 0, &adam);
    train_on(device, Biases::All, 2, &adam);
    train_on(device, Biases::AllButKey, 2, &sgd);
    train_on(device, Biases::None, 0, &DecaysOnly("value"));
}

#[test]
fn steps_on_the_cpu_are_the_oracles() {
    train_everywhere(&Device::cpu());
}

#[test]
fn steps_on_the_gpu_are_the_oracles() {
    if let Some(device) = support::gpu() {
        train_everywhere(&device);
    }
}

#[test]
fn all_steps_of_a_session_share_what_lies_side_by_side() {
    let adam = AdamW::new(1e-2);
    let layer = || attention(Biases::All, 2);
    for training_first in [true, false] {
        let mut session = Session::new(&Device::cpu(), 3).unwrap();
        let graph = training(layer(), &adam);
        let other = evaluation(layer(), 3);
        let (step, evaluating) = if training_first {
            let step = session.compile(&graph).unwrap();
            (step, session.compile(&other).unwrap())
        } else {
            let evaluating = session.compile(&other).unwrap();
            (session.compile(&graph).unwrap(), evaluating)
        };
        let inputs = |graph: &Graph| {
            let mut leaves = random_leaves(graph);
            let variables = graph.variables();
            leaves.retain(|name, _| variables.iter().all(|(v, _)| v.name != *name));
            leaves
        };
        let given = inputs(&graph);
        give(&mut session, step, &graph, &given);
        run_steps(&mut session, step, &adam, 2);
        let mut leaves = inputs(&other);
        give(&mut session, evaluating, &other, &leaves);
        session.run(evaluating).unwrap();
        for (variable, _) in other.variables() {
            let values = session.variable(&variable.name).unwrap();
            let values = values.into_iter().map(f64::from).collect();
            leaves.insert(variable.name, Array::new(variable.shape, values));
        }
        let expected = ops::evaluate(&other, &leaves)[other.outputs()[0].1.index()].data[0];
        let found = f64::from(session.output(evaluating, "loss").unwrap()[0]);
        assert!(
            (found - expected).abs() < 1e-5 * expected.abs(),
            "{found} {expected}"
        );
    }
}

#[test]
fn names_values_and_files_stay_as_they_are() {
    let graph = evaluation(attention(Biases::All, 2), 2);
    let session = |rewrites| {
        let mut session = Session::with_rewrites(&Device::cpu(), 9, rewrites).unwrap();
        session.compile(&graph).unwrap();
        session
    };
    let (mut apart, mut packed) = (session(Rewrites::Off), session(Rewrites::EGraph));
    let known = |session: &Session| session.variables().cloned().collect::<Vec<_>>();
    assert_eq!(known(&apart), known(&packed));
    for variable in known(&apart) {
        let values = packed.variable(&variable.name).unwrap();
        assert_eq!(values, apart.variable(&variable.name).unwrap());
    }
    // Strictly, in the layout of PyTorch, whole or not at all.
    let torch = Convention::torch();
    let mut other = Session::new(&Device::cpu(), 10).unwrap();
    other.declare(&graph).unwrap();
    let file = Tensors::of_session(&mut other, &torch).unwrap();
    file.load_into(&mut packed, &torch).unwrap();
    for variable in known(&apart) {
        let values = packed.variable(&variable.name).unwrap();
        assert_eq!(values, other.variable(&variable.name).unwrap());
        assert!(values.iter().any(|&value| value != 0.0));
    }
    // One of them alone.
    let size = packed.variable("attention.key.weight").unwrap().len();
    let ones = vec![1.0; size];
    packed.set_variable("attention.key.weight", &ones).unwrap();
    assert_eq!(packed.variable("attention.key.weight").unwrap(), ones);
    let query = other.variable("attention.query.weight").unwrap();
    assert_eq!(packed.variable("attention.query.weight").unwrap(), query);
    assert!(
        packed
            .set_variable("attention.key.weight", &ones[1..])
            .is_err()
    );
}
