//! Models whose plain form is slow: what the e-graph makes of them, and where a local
//! rewriter over the same rules stays.

use std::collections::BTreeMap;

use meganeura::egraph::{CostModel, Rewrites, optimize, rule_names};
use meganeura::ir::{DType, Graph, Init};
use meganeura::ops::expand;
use meganeura::plan::Plan;
use meganeura::siblings::{find, pack};
use meganeura::train::{AdamW, Sgd};

use super::support::{Fill, check};
use super::training::{gpt, mlp, norms};
use super::workload_models::{linear_attention, lora, mean_pool};

/// The work a step takes without rewriting, by greedy rewriting and by the e-graph, in
/// multiples of `unit` floating-point operations.
fn work(graph: &Graph, unit: f64) -> [f64; 3] {
    [Rewrites::Off, Rewrites::Greedy, Rewrites::EGraph].map(|rewrites| {
        let (optimized, report) = optimize(graph, rewrites, &CostModel::default());
        let plan = Plan::new(&optimized);
        println!("== {rewrites:?}\n{report}{plan}");
        plan.flops() as f64 / unit
    })
}

/// Both gradients of A·B go through the gradient of W + A·B, which nobody wants: xᵀ·g. To get
/// one of them without it does not pay while the other needs it.
#[test]
fn the_gradient_of_a_frozen_weight_is_not_computed() {
    let optimizer = AdamW::new(1e-3);
    let fills = [Fill::Uniform(-1.0, 1.0)];
    check("lora", &lora(3, 5, 2, &optimizer), 1, &fills, 21);
    let graph = lora(512, 512, 8, &optimizer);
    let [off, greedy, found] = work(&graph, 2.0 * 512f64.powi(3));
    // Two layers forward, the gradient between them, and two gradients of weights.
    assert!(off > 5.0 && greedy > 5.0, "{off} and {greedy}");
    assert!((3.0..3.4).contains(&found), "{found}");
}

/// All of forward and backward through width × width matrices. Greedy sums keys and values
/// first, but not where a transposed product stands between: to turn it round brings nothing
/// by itself.
#[test]
fn linear_attention_is_linear_in_time() {
    check(
        "linear attention",
        &linear_attention(2, 4, 3),
        1,
        &[Fill::Uniform(-1.0, 1.0)],
        22,
    );
    let graph = linear_attention(8, 512, 64);
    let [off, greedy, found] = work(&graph, 2.0 * 8.0 * 512.0 * 512.0 * 64.0);
    assert!(off > 6.0 && greedy > 2.5, "{off} and {greedy}");
    // Six products of 512 × 64 × 64 instead, an eighth each, and what is elementwise.
    assert!(found < 0.9, "{found}");
}

/// The mean over positions comes before the projection, forward and backward. To leave the
/// axes apart which the product merges does not pay by itself.
#[test]
fn a_mean_over_positions_is_taken_before_the_projection() {
    let optimizer = Sgd::new(0.1);
    check(
        "mean pool",
        &mean_pool([2, 3], [4, 5], &optimizer),
        1,
        &[Fill::Uniform(-1.0, 1.0)],
        23,
    );
    let graph = mean_pool([16, 128], [256, 512], &optimizer);
    let [off, greedy, found] = work(&graph, 2.0 * 16.0 * 128.0 * 256.0 * 512.0);
    assert!(off > 2.0 && greedy > 1.0, "{off} and {greedy}");
    assert!(found < 0.05, "{found}");
}

/// What people write who think of formulas, not of floats or work: the logarithm of a softmax
/// at a temperature given by its logarithm, an adapter beside its weight, a mean by a matrix.
fn formulas() -> Graph {
    let graph = Graph::new();
    let x = graph.input("x", [64, 96], DType::F32);
    let parameter = |name, dims: [usize; 2]| graph.parameter(name, dims, Init::XavierUniform);
    let (w, a, b) = (
        parameter("w", [96, 96]),
        parameter("a", [96, 4]),
        parameter("b", [4, 96]),
    );
    let adapted = x.matmul(w) + x.matmul(a.matmul(b));
    let scores = adapted * graph.constant(-0.7).exp();
    let average = graph.constant(1.0 / 64.0).broadcast([1, 64]);
    graph.output("log", -scores.softmax().log());
    graph.output("mean", average.matmul(adapted));
    expand(&graph).0
}

#[test]
fn formulas_stay_equal() {
    let fills = [Fill::Uniform(-1.0, 1.0), Fill::Nan];
    check("formulas", &formulas(), 1, &fills, 24);
}

/// The graph over buffers in which sibling weights lie side by side.
fn packed(graph: &Graph) -> Graph {
    pack(graph, &find(graph, |_| false))
}

/// Queries, keys and values are one product. To take the first of them out of one with all
/// columns does not pay, so greedy does not.
#[test]
fn products_with_one_operand_become_one() {
    let graph = packed(&gpt(1, 2, 64, 128, 512));
    let [off, greedy, found] = [Rewrites::Off, Rewrites::Greedy, Rewrites::EGraph].map(|how| {
        let (_, report) = optimize(&graph, how, &CostModel::default());
        println!("== {how:?}\n{report}");
        report.after.contractions
    });
    assert!(found < greedy && greedy <= off, "{off}, {greedy}, {found}");
}

/// No rule is there that no workload needs.
#[test]
fn every_rule_fires_on_some_workload() {
    let optimizer = AdamW::new(1e-3);
    let suite = [
        ("mlp", mlp(64, &[784, 128], 10)),
        ("norms", norms(4096, 768)),
        ("gpt", gpt(2, 4, 64, 128, 512)),
        ("packed gpt", packed(&gpt(1, 4, 64, 128, 512))),
        ("formulas", formulas()),
        ("lora", lora(512, 512, 8, &optimizer)),
        ("linear attention", linear_attention(8, 512, 64)),
        ("mean pool", mean_pool([16, 128], [256, 512], &optimizer)),
    ];
    let mut fired: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, graph) in &suite {
        let (_, report) = optimize(graph, Rewrites::EGraph, &CostModel::default());
        for rule in report.rules.into_keys() {
            fired.entry(rule).or_default().push(name);
        }
    }
    let mut idle = Vec::new();
    for rule in rule_names() {
        println!("{rule:20} {:?}", fired.get(rule));
        if !fired.contains_key(rule) {
            idle.push(rule);
        }
    }
    assert!(idle.is_empty(), "rules that never fire: {idle:?}");
}
