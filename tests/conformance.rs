//! Every op of the table, on the oracle and on every device, rewritten or not.
//!
//! A new op needs no new test: its block says where it is tried. Gradients are checked with
//! the op in the middle of a graph and a random upstream gradient.

#[path = "conformance/graphs.rs"]
mod graphs;
#[path = "conformance/pytorch.rs"]
mod pytorch;
#[path = "conformance/references.rs"]
mod references;
mod support;

use std::collections::HashMap;

use meganeura::autodiff::gradients;
use meganeura::egraph::Rewrites;
use meganeura::ir::{Array, Case, DType, Domain, Graph, OpDef, Tensor, Vjp};
use meganeura::ops;
use meganeura::runtime::{Device, Session};
use support::samples::{relative_error, trial};

/// What a device computes may be off by this much, relative to the norm.
const TOLERANCE: f64 = 1e-5;

type Values = HashMap<String, Array>;

/// A case as a graph of primitives with the outputs `result`, `output` and one gradient for
/// each float operand.
fn graph_of(def: &'static OpDef, case: &Case) -> (Graph, Values) {
    let graph = Graph::new();
    let (trial, values) = trial(&graph, def, case);
    graph.output("result", trial.result);
    graph.output("output", trial.output);
    assert!(
        graph.errors().is_empty(),
        "{}: {:?}",
        def.name,
        graph.errors()
    );
    let (graph, images) = ops::expand(&graph);
    let image = |tensor: Tensor<'_>| graph.tensor(images.get(tensor.id()).expect("an image"));
    if trial.output.dtype() == DType::F32 {
        let floats = trial
            .operands
            .iter()
            .filter(|operand| operand.dtype() == DType::F32);
        let sources: Vec<_> = floats.map(|operand| image(*operand)).collect();
        let found = gradients(&[(image(trial.output), image(trial.upstream))], &sources);
        for (index, gradient) in found.into_iter().enumerate() {
            graph.output(&format!("gradient {index}"), gradient);
        }
    }
    assert!(
        graph.errors().is_empty(),
        "{}: {:?}",
        def.name,
        graph.errors()
    );
    (graph, values)
}

/// Run `check` on every case of every op.
fn for_every_case(mut check: impl FnMut(&'static OpDef, &Case)) {
    let mut cases = 0;
    for def in ops::all() {
        for case in (def.cases)() {
            check(def, &case);
            cases += 1;
        }
    }
    assert!(cases > 100, "only {cases} cases");
}

#[test]
fn expansions_mean_what_the_oracle_says() {
    for_every_case(|def, case| {
        let graph = Graph::new();
        let (trial, values) = trial(&graph, def, case);
        let direct = ops::evaluate(&graph, &values)[trial.result.id().index()].clone();
        let (expanded, images) = ops::expand(&graph);
        let image = images.get(trial.result.id()).expect("an image");
        let composed = ops::evaluate(&expanded, &values)[image.index()].clone();
        assert_eq!(
            direct.shape,
            trial.result.shape(),
            "{}: the oracle's shape",
            def.name
        );
        let error = relative_error(&composed.data, &direct.data);
        assert!(error < 1e-9, "{} {case:?}: off by {error}", def.name);
    });
}

/// Whether finite differences can tell the gradient: not at ties, and not of an op that lets
/// none through by intent.
fn differentiable(def: &OpDef, case: &Case) -> bool {
    let ties = case
        .operands
        .iter()
        .any(|(_, domain)| matches!(domain, Domain::Integers(..)));
    !ties && !matches!(def.vjp, Vjp::Zero)
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for_every_case(|def, case| {
        if !differentiable(def, case) {
            return;
        }
        let (graph, values) = graph_of(def, case);
        let outputs: HashMap<String, _> = graph.outputs().into_iter().collect();
        let expected = ops::evaluate(&graph, &values);
        let objective = |values: &Values| -> f64 {
            let output = &ops::evaluate(&graph, values)[outputs["output"].index()];
            output
                .data
                .iter()
                .zip(&values["upstream"].data)
                .map(|(y, g)| y * g)
                .sum()
        };
        let floats = (0..case.operands.len())
            .filter(|&index| !matches!(case.operands[index].1, Domain::Indices(_) | Domain::Truth));
        for (position, operand) in floats.enumerate() {
            let Some(id) = outputs.get(&format!("gradient {position}")) else {
                continue;
            };
            let name = format!("x{operand}");
            let found = &expected[id.index()].data;
            // Up to twelve elements, spread over the operand.
            for element in (0..found.len()).step_by(found.len().div_ceil(12).max(1)) {
                let moved = |by: f64| {
                    let mut values = values.clone();
                    values.get_mut(&name).expect("an operand").data[element] += by;
                    objective(&values)
                };
                let step = 1e-5;
                let numeric = (moved(step) - moved(-step)) / (2.0 * step);
                let error = (numeric - found[element]).abs() / numeric.abs().max(1.0);
                assert!(
                    error < 1e-5,
                    "{} {case:?}: gradient of {name}[{element}] is {}, differences say {numeric}",
                    def.name,
                    found[element]
                );
            }
        }
    });
}

/// A graph's outputs and updates on a device, against the oracle.
fn check_graph(device: &Device, rewrites: Rewrites, graph: &Graph, values: &Values, what: &str) {
    let expected = ops::evaluate(graph, values);
    let mut session = Session::with_rewrites(device, 0, rewrites).expect("the device is there");
    let step = session
        .compile(graph)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    support::give(&mut session, step, graph, values);
    session
        .run(step)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let check = |name: &str, found: Vec<f32>, expected: &Array| {
        let found: Vec<f64> = found.into_iter().map(f64::from).collect();
        let error = relative_error(&found, &expected.data);
        assert!(
            error < TOLERANCE,
            "{what} on {device}, rewrites {rewrites:?}: `{name}` is off by {error}"
        );
    };
    for (name, id) in graph.outputs() {
        check(
            &name,
            session.output(step, &name).expect("an output"),
            &expected[id.index()],
        );
    }
    for (variable, value) in graph.updates() {
        let (variable, _) = graph
            .variables()
            .into_iter()
            .find(|(_, id)| *id == variable)
            .expect("a variable");
        let found = session.variable(&variable.name).expect("a variable");
        check(&variable.name, found, &expected[value.index()]);
    }
}

/// Every case on a device, all outputs against the oracle.
fn check_device(device: &Device, rewrites: Rewrites) {
    for_every_case(|def, case| {
        let (graph, values) = graph_of(def, case);
        check_graph(
            device,
            rewrites,
            &graph,
            &values,
            &format!("{} {case:?}", def.name),
        );
    });
    let (graph, values) = graphs::prologue_and_epilogue();
    check_graph(device, rewrites, &graph, &values, "prologue and epilogue");
    let (graph, values) = graphs::regions();
    check_graph(device, rewrites, &graph, &values, "regions");
}

#[test]
fn the_cpu_agrees_with_the_oracle() {
    check_device(&Device::cpu(), Rewrites::Off);
}

#[test]
fn the_cpu_agrees_with_the_oracle_after_rewriting() {
    check_device(&Device::cpu(), Rewrites::EGraph);
}

#[test]
fn the_gpu_agrees_with_the_oracle() {
    let Some(device) = support::gpu() else { return };
    check_device(&device, Rewrites::Off);
}

#[test]
fn the_gpu_agrees_with_the_oracle_after_rewriting() {
    let Some(device) = support::gpu() else { return };
    check_device(&device, Rewrites::EGraph);
}
