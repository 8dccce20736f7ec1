//! What optimization promises besides equal values.

use meganeura::egraph::{CostModel, Rewrites, optimize};
use meganeura::ir::{DType, Graph};

use super::form::text;
use super::random::graph;
use super::support::{Fill, check};

#[test]
fn the_same_graph_gives_the_same_result() {
    for seed in [3, 14, 77] {
        for rewrites in [Rewrites::Greedy, Rewrites::EGraph] {
            let twice = [0, 1].map(|_| {
                let (optimized, report) =
                    optimize(&graph(seed, 16), rewrites, &CostModel::default());
                (text(&optimized), report.rules, report.cost_after)
            });
            assert_eq!(twice[0], twice[1]);
        }
    }
}

#[test]
fn off_only_drops_dead_code() {
    let graph = Graph::new();
    let x = graph.input("x", [3], DType::F32);
    let unused = (x * 2.0).exp();
    graph.output("y", x * 2.0 * 3.0);
    let (copy, report) = optimize(&graph, Rewrites::Off, &CostModel::default());
    assert_eq!(copy.nodes().len(), graph.nodes().len() - 1);
    assert_eq!(report.cost_before, report.cost_after);
    assert!(!unused.is_poisoned());
}

#[test]
fn nodes_keep_their_layer() {
    let graph = Graph::new();
    let x = graph.input("x", [64, 32], DType::F32);
    let y = graph.scoped("first", || (x * 2.0 * 3.0).tanh());
    let z = graph.scoped("second", || y.softmax());
    graph.output("z", z);
    let (graph, _) = meganeura::ops::expand(&graph);
    let (optimized, _) = optimize(&graph, Rewrites::EGraph, &CostModel::default());
    let nodes = optimized.nodes();
    let layer = |name: &str| {
        let node = nodes.iter().find(|node| node.op.def.name == name);
        optimized.scope_path(node.expect("it is there").scope)
    };
    assert_eq!(
        (layer("tanh"), layer("exp")),
        ("first".into(), "second".into())
    );
}

#[test]
fn what_does_not_fit_the_language_stays_as_it_is() {
    let empty = Graph::new();
    let x = empty.input("x", [0, 3], DType::F32);
    empty.output("y", (x - x).sum(&[0]) * 2.0 * 3.0);
    let (copy, report) = optimize(&empty, Rewrites::EGraph, &CostModel::default());
    assert_eq!(report.kept, ["an axis of size 0"]);
    assert_eq!(text(&copy), text(&empty));

    let deep = Graph::new();
    let x = deep.input("x", [2; 9], DType::F32);
    deep.output("y", x * 2.0 * 3.0);
    let (_, report) = optimize(&deep, Rewrites::EGraph, &CostModel::default());
    assert_eq!(report.kept, ["more than 8 axes"]);
}

#[test]
fn nothing_that_cancels_hides_a_nan() {
    let graph = Graph::new();
    let x = graph.input("x", [4, 8], DType::F32);
    graph.output("difference", x - x);
    graph.output("centred", (x - x.mean(&[1])).sum(&[1]));
    graph.output("nothing", x * 0.0);
    graph.output("one", (x * x + 1.0) / (x * x + 1.0));
    graph.output("covered", x - x.mean(&[1]) + (x - x.mean(&[1])).sum(&[1]));
    check("cancelled", &graph, 1, &[Fill::Nan, Fill::NotFinite], 6);
}

/// Halves of large numbers, squares of quotients: what was written to be stable stays so.
#[test]
fn stable_forms_stay_stable() {
    let graph = Graph::new();
    let x = graph.input("x", [16, 64], DType::F32);
    let scaled = x / x.abs().max(&[1]);
    let norm = scaled.square().sum(&[1]).sqrt() * x.abs().max(&[1]);
    graph.output("norm", norm);
    let centred = x - x.mean(&[1]);
    graph.output("variance", centred.square().mean(&[1]));
    let (optimized, _) = optimize(&graph, Rewrites::EGraph, &CostModel::default());
    // In floats of 32 bits, on values whose squares are not.
    for (offset, size) in [(0.0, 1e30), (0.0, 1e-30), (1e6, 1.0)] {
        let values: Vec<f32> = (0..16 * 64)
            .map(|i| (offset + size * f64::from((i * 37 % 101) as u32) / 101.0) as f32)
            .collect();
        let before = singles(&graph, &values);
        let after = singles(&optimized, &values);
        for (a, b) in before.iter().zip(&after) {
            for (a, b) in a.iter().zip(b) {
                let error = (a - b).abs() / a.abs().max(f32::MIN_POSITIVE);
                assert!(
                    !a.is_finite() || error < 1e-3,
                    "{offset} {size}: {a} and {b}"
                );
            }
        }
    }
}

/// The outputs with every value rounded to single precision.
fn singles(graph: &Graph, x: &[f32]) -> Vec<Vec<f32>> {
    let mut values: Vec<meganeura::ir::Array> = Vec::new();
    for node in graph.nodes().iter() {
        let value = if node.inputs.is_empty() && node.ty.shape.rank() == 2 {
            let data = x.iter().map(|&x| f64::from(x)).collect();
            meganeura::ir::Array::new(node.ty.shape.clone(), data)
        } else {
            let operands: Vec<_> = node.inputs.iter().map(|id| &values[id.index()]).collect();
            (node.op.def.evaluate)(&node.op.attributes, &operands, &node.ty)
        };
        values.push(value.map(|x| f64::from(x as f32)));
    }
    let outputs = graph.outputs().into_iter();
    outputs
        .map(|(_, id)| values[id.index()].data.iter().map(|&x| x as f32).collect())
        .collect()
}

#[test]
fn a_node_knows_the_rules_that_led_to_it() {
    let graph = Graph::new();
    let input = |name, dims: [usize; 2]| graph.input(name, dims, DType::F32);
    let (x, a, b) = (
        input("x", [128, 512]),
        input("a", [512, 2]),
        input("b", [2, 512]),
    );
    graph.output("y", x.matmul(a.matmul(b)));
    let model = CostModel::default();
    let (given, _) = optimize(&graph, Rewrites::Off, &model);
    for rewrites in [Rewrites::Greedy, Rewrites::EGraph] {
        let (optimized, report) = optimize(&graph, rewrites, &model);
        let y = optimized.outputs()[0].1;
        let explanation = report.explain(y).expect("it was rewritten");
        assert_eq!(
            explanation.to_string(),
            "x @ (a @ b)\n  = (x @ a) @ b    (reassociate)\n",
            "{rewrites:?}"
        );
        assert_eq!(report.explain(optimized.inputs()[0].1), None);
    }
    let (optimized, report) = optimize(&graph, Rewrites::EGraph, &model);
    assert_eq!((report.before.kernels, report.after.kernels), (2, 2));
    assert!(report.after.bytes < report.before.bytes);
    let page = report.to_html("low rank", &given, &optimized);
    assert!(page.contains("(x @ a) @ b    (reassociate)"));
}
