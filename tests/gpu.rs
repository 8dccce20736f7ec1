//! Plans on the GPU, a software driver included: what it computes is what the graph means.
//!
//! Without a GPU these tests say why they do nothing; with `MEGANEURA_REQUIRE_GPU=1` that is
//! a failure.

#[path = "support/device.rs"]
mod device;
#[path = "support/samples.rs"]
mod samples;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use device::load;
use meganeura::autodiff::gradients;
use meganeura::egraph::CostModel;
use meganeura::ir::{Array, DType, Domain, Graph, Init, OpDef, Tensor};
use meganeura::ops;
use meganeura::plan::Plan;
use meganeura::runtime::Executor;
use meganeura::runtime::cpu::CpuExecutor;
use meganeura::runtime::gpu::{Context, GpuExecutor};
use samples::{Random, relative_error, trial};

/// One executor with the kernels for software drivers, and one with those for GPUs; both
/// must be right on every device.
fn executors(test: &str) -> Option<Vec<GpuExecutor>> {
    let context = match Context::best() {
        Ok(context) => context,
        Err(error) if std::env::var("MEGANEURA_REQUIRE_GPU").is_ok_and(|v| v == "1") => {
            panic!("{test} needs a GPU: {error}")
        }
        Err(error) => {
            // Past the test runner, which keeps what passing tests print to itself.
            let _ = writeln!(std::io::stderr(), "{test}: skipped, no GPU here: {error}");
            return None;
        }
    };
    let variant =
        |software| GpuExecutor::with_variant(Arc::clone(&context), software).expect("a queue");
    Some(vec![variant(true), variant(false)])
}

/// A graph of primitives gives on the device what the oracle gives for every output and
/// update.
fn assert_device_matches(
    executors: &mut [GpuExecutor],
    graph: &Graph,
    values: &HashMap<String, Array>,
    what: &str,
) {
    let plan = Plan::new(graph);
    let expected = ops::evaluate(graph, values);
    let outputs = graph.outputs().into_iter();
    let variables = graph.variables();
    let updates = graph.updates().into_iter().map(|(variable, value)| {
        let (variable, _) = variables.iter().find(|(_, id)| *id == variable).unwrap();
        (variable.name.clone(), value)
    });
    let wanted: Vec<_> = outputs.chain(updates).collect();
    for (variant, executor) in ["software", "gpu"].into_iter().zip(executors) {
        let loaded = load(executor, &plan, values);
        executor.run(loaded.program).unwrap();
        let found = loaded.results(executor);
        for (name, id) in &wanted {
            let error = relative_error(&found[name], &expected[id.index()].data);
            assert!(
                error < 1e-5,
                "{what}, kernels for {variant}: `{name}` is off by {error:e}\n{plan}"
            );
        }
    }
}

#[test]
fn every_op_and_its_gradient_holds_on_the_device() {
    let Some(mut executors) = executors("every_op_and_its_gradient_holds_on_the_device") else {
        return;
    };
    for def in ops::all() {
        let def: &'static OpDef = def;
        for case in (def.cases)() {
            let graph = Graph::new();
            let (trial, values) = trial(&graph, def, &case);
            graph.output("result", trial.result);
            graph.output("output", trial.output);
            let (graph, images) = ops::expand(&graph);
            let image = |tensor: Tensor<'_>| graph.tensor(images.get(tensor.id()).unwrap());
            if trial.output.dtype() == DType::F32 {
                let floats = trial.operands.iter().filter(|x| x.dtype() == DType::F32);
                let sources: Vec<_> = floats.map(|operand| image(*operand)).collect();
                let seeds = [(image(trial.output), image(trial.upstream))];
                for (index, gradient) in gradients(&seeds, &sources).into_iter().enumerate() {
                    graph.output(&format!("gradient {index}"), gradient);
                }
            }
            let what = format!("{} {case:?}", def.name);
            assert_device_matches(&mut executors, &graph, &values, &what);
        }
    }
}

/// Integers that are copied, cut and put together arrive bit by bit, though kernels compute
/// with floats.
#[test]
fn integers_keep_all_of_their_bits() {
    let graph = Graph::new();
    let x = graph.input("x", [3, 8], DType::U32);
    let memory = graph.state("memory", [3, 8], Init::Zeros);
    graph.output("turned", x.transpose(&[1, 0]));
    graph.output("part", x.slice_step(1, 1, 3, 2));
    graph.output("flat", x.reshape([4, 6]).slice(1, 2, 3));
    graph.output("joined", graph.concat(&[x, x.slice(0, 1, 1), x], 0));
    graph.output("padded", x.pad(&[(1, 2), (0, 1)], 0.0));
    graph.output("window", x.window(1, 3, 2, 1));
    graph.output("both", x);
    graph.output("number", x.cast(DType::F32) * 2.0);
    graph.update(memory, memory + x.cast(DType::F32));
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    let (graph, _) = ops::expand(&graph);
    let numbers = (0..24u32).map(|i| f64::from(u32::MAX - i.pow(5)));
    let mut numbers: Vec<f64> = numbers.collect();
    // Those that would be denormal floats, or NaN with and without a signal.
    numbers[..6].copy_from_slice(&[
        0.0,
        1.0,
        16_777_217.0,
        8_388_607.0,
        2_139_095_041.0,
        4_290_772_993.0,
    ]);
    let values = HashMap::from([
        ("x".to_owned(), Array::new([3, 8], numbers)),
        ("memory".to_owned(), Array::new([3, 8], vec![0.0; 24])),
    ]);
    let mut devices: Vec<Box<dyn Executor>> = vec![Box::new(CpuExecutor::new(None))];
    for gpu in executors("integers_keep_all_of_their_bits")
        .into_iter()
        .flatten()
    {
        devices.push(Box::new(gpu));
    }
    let (plan, expected) = (Plan::new(&graph), ops::evaluate(&graph, &values));
    for (device, executor) in devices.iter_mut().enumerate() {
        let loaded = load(executor.as_mut(), &plan, &values);
        executor.run(loaded.program).unwrap();
        let found = loaded.results(executor.as_mut());
        for (name, id) in graph.outputs() {
            let expected = &expected[id.index()].data;
            match name.as_str() {
                "number" => assert!(relative_error(&found[&name], expected) < 1e-6),
                _ => assert_eq!(
                    &found[&name], expected,
                    "`{name}` on device {device}\n{plan}"
                ),
            }
        }
    }
}

/// Random values for every leaf of a graph.
fn random_leaves(graph: &Graph, classes: u32) -> HashMap<String, Array> {
    let mut random = Random::new(11);
    let variables = graph.variables().into_iter();
    let variables = variables.map(|(variable, id)| (variable.name, id));
    let leaves = graph
        .inputs()
        .into_iter()
        .chain(variables)
        .map(|(name, id)| {
            let ty = graph.tensor(id).ty();
            let domain = match ty.dtype {
                DType::U32 => Domain::Indices(classes),
                _ => Domain::Uniform(-0.5, 0.5),
            };
            (name, random.array(&ty.shape, domain))
        });
    leaves.collect()
}

/// The graph in primitives, with an update by plain descent for every variable.
fn with_descent(graph: &Graph, loss: Tensor<'_>) -> Graph {
    graph.output("loss", loss);
    let (graph, images) = ops::expand(graph);
    let loss = graph.tensor(images.get(loss.id()).expect("an image"));
    let variables = graph.variables();
    let sources: Vec<Tensor<'_>> = variables.iter().map(|(_, id)| graph.tensor(*id)).collect();
    let found = gradients(&[(loss, graph.constant(1.0))], &sources);
    for (variable, gradient) in sources.into_iter().zip(found) {
        graph.update(variable, variable - gradient * 0.1);
    }
    graph
}

#[test]
fn a_training_step_updates_every_variable() {
    let Some(mut executors) = executors("a_training_step_updates_every_variable") else {
        return;
    };
    for (batch, width) in [(6, 20), (32, 64)] {
        let graph = Graph::new();
        let x = graph.input("x", [batch, width], DType::F32);
        let labels = graph.input("labels", [batch], DType::U32);
        let first = graph.parameter("first", [width, 24], Init::Zeros);
        let bias = graph.parameter("bias", [24], Init::Zeros);
        let weight = graph.parameter("weight", [24], Init::Ones);
        let second = graph.parameter("second", [24, 10], Init::Zeros);
        let hidden = (x.matmul(first) + bias).relu().rms_norm(weight, 1e-5);
        let loss = hidden.matmul(second).cross_entropy(labels);
        let graph = with_descent(&graph, loss);
        let leaves = random_leaves(&graph, 10);
        assert_device_matches(&mut executors, &graph, &leaves, "a classifier");
    }
}

#[test]
fn tokens_are_embedded_normalized_and_predicted() {
    let Some(mut executors) = executors("tokens_are_embedded_normalized_and_predicted") else {
        return;
    };
    let graph = Graph::new();
    let tokens = graph.input("tokens", [2, 5], DType::U32);
    let labels = graph.input("labels", [2, 5], DType::U32);
    let table = graph.parameter("table", [7, 8], Init::Ones);
    let position = graph.parameter("position", [5, 8], Init::Ones);
    let weight = graph.parameter("weight", [8], Init::Ones);
    let bias = graph.parameter("bias", [8], Init::Zeros);
    let up = graph.parameter("up", [8, 12], Init::Ones);
    let down = graph.parameter("down", [12, 8], Init::Ones);
    let x = table.gather(tokens) + position;
    let normal = x.layer_norm(weight, bias, 1e-5);
    let scores = normal.matmul(normal.swap_last()) * 0.35;
    let x = x + scores.softmax().matmul(normal);
    let x = x + x.matmul(up).gelu().matmul(down);
    let loss = x.matmul(table.swap_last()).cross_entropy(labels);
    let graph = with_descent(&graph, loss);
    let leaves = random_leaves(&graph, 7);
    assert_device_matches(&mut executors, &graph, &leaves, "a small language model");
}

#[test]
fn steps_follow_each_other_and_repeat_bit_by_bit() {
    let Some(mut executors) = executors("steps_follow_each_other_and_repeat_bit_by_bit") else {
        return;
    };
    let graph = Graph::new();
    let x = graph.input("x", [40, 30], DType::F32);
    let labels = graph.input("labels", [40], DType::U32);
    let weight = graph.parameter("weight", [30, 8], Init::Zeros);
    let loss = x.matmul(weight).cross_entropy(labels);
    let graph = with_descent(&graph, loss);
    let leaves = random_leaves(&graph, 8);
    let plan = Plan::new(&graph);
    for executor in &mut executors {
        let losses = [(); 2].map(|()| {
            let loaded = load(executor, &plan, &leaves);
            let mut losses = Vec::new();
            for _ in 0..5 {
                executor.run(loaded.program).unwrap();
                losses.push(loaded.results(executor)["loss"][0]);
            }
            losses
        });
        assert_eq!(losses[0], losses[1]);
        assert!(
            losses[0].windows(2).all(|pair| pair[1] < pair[0]),
            "{losses:?}"
        );
    }
}

#[test]
fn graphs_are_rewritten_by_the_devices_own_rates() {
    let Some(executors) = executors("graphs_are_rewritten_by_the_devices_own_rates") else {
        return;
    };
    // A shader's floats stay floats in memory, whatever computes them.
    let processor = CostModel {
        halves: false,
        ..CostModel::default()
    };
    let card = CostModel::gpu();
    assert!(card.byte < processor.byte && card.flop < processor.flop);
    for executor in executors {
        // A software driver computes on the processor.
        let expected = match executor.context().adapter().is_software() {
            true => &processor,
            false => &card,
        };
        assert_eq!(executor.cost_model(), *expected, "{}", executor.describe());
    }
}
