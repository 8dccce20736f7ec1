//! The scheduler and the plan: what kernels compute is what the graph means.

mod support;

use meganeura::autodiff::gradients;
use meganeura::ir::{DType, Graph, Init, OpDef, VariableKind};
use meganeura::ops;
use meganeura::plan::Plan;
use support::interpreter::interpret;
use support::samples::{relative_error, trial};

/// A graph's plan, interpreted, gives what the oracle gives for every output and update.
fn assert_plan_matches(
    graph: &Graph,
    values: &std::collections::HashMap<String, meganeura::ir::Array>,
    what: &str,
) -> Plan {
    let plan = Plan::new(graph);
    let found = interpret(&plan, values);
    let expected = ops::evaluate(graph, values);
    for (name, id) in graph.outputs() {
        let error = relative_error(&found[&name], &expected[id.index()].data);
        assert!(
            error < 1e-6,
            "{what}: output `{name}` is off by {error}\n{plan}"
        );
    }
    let variables = graph.variables();
    for (variable, value) in graph.updates() {
        let (variable, _) = variables.iter().find(|(_, id)| *id == variable).unwrap();
        let error = relative_error(&found[&variable.name], &expected[value.index()].data);
        assert!(
            error < 1e-6,
            "{what}: `{}` is off by {error}\n{plan}",
            variable.name
        );
    }
    plan
}

#[test]
fn every_op_and_its_gradient_is_planned_as_it_means() {
    for def in ops::all() {
        let def: &'static OpDef = def;
        for case in (def.cases)() {
            let graph = Graph::new();
            let (trial, values) = trial(&graph, def, &case);
            graph.output("result", trial.result);
            graph.output("output", trial.output);
            assert!(
                graph.errors().is_empty(),
                "{}: {:?}",
                def.name,
                graph.errors()
            );
            let (graph, images) = ops::expand(&graph);
            let image =
                |tensor: meganeura::ir::Tensor<'_>| graph.tensor(images.get(tensor.id()).unwrap());
            if trial.output.dtype() == DType::F32 {
                let sources: Vec<_> = trial
                    .operands
                    .iter()
                    .filter(|operand| operand.dtype() == DType::F32)
                    .map(|operand| image(*operand))
                    .collect();
                let seeds = [(image(trial.output), image(trial.upstream))];
                for (index, gradient) in gradients(&seeds, &sources).into_iter().enumerate() {
                    graph.output(&format!("gradient {index}"), gradient);
                }
            }
            assert!(
                graph.errors().is_empty(),
                "{}: {:?}",
                def.name,
                graph.errors()
            );
            assert_plan_matches(&graph, &values, &format!("{} {case:?}", def.name));
        }
    }
}

#[test]
fn updates_happen_at_once() {
    let graph = Graph::new();
    let a = graph.parameter("a", [4], Init::Ones);
    let b = graph.state("b", [4], Init::Zeros);
    graph.update(a, b * 2.0);
    graph.update(b, a + b);
    let c = graph.parameter("c", [4], Init::Ones);
    let d = graph.parameter("d", [4], Init::Ones);
    graph.update(c, d);
    graph.update(d, c);
    graph.output("old", a);
    assert_eq!(graph.variables()[1].0.kind, VariableKind::State);
    let values = ["a", "b", "c", "d"]
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let start = index as f64 * 10.0;
            (
                (*name).to_owned(),
                meganeura::ir::Array::new([4], vec![start, start + 1.0, start + 2.0, start + 3.0]),
            )
        });
    assert_plan_matches(&graph, &values.collect(), "updates");
}
