//! Orders of matrix products that a local view does not find.

use meganeura::egraph::{CostModel, Estimate, Rewrites, optimize};
use meganeura::ir::{DType, Graph, Tensor};

use super::form::text;
use super::support::{SAME_KIND, check};

fn input<'g>(graph: &'g Graph, name: &str, dims: &[usize]) -> Tensor<'g> {
    graph.input(name, dims, DType::F32)
}

/// A graph at scale `1` (small, to be evaluated) and `16` (to be priced).
fn forms(name: &str, build: impl for<'g> Fn(&'g Graph, usize) -> Tensor<'g>) -> [Estimate; 3] {
    let small = Graph::new();
    small.output("y", build(&small, 1));
    check(name, &small, 1, &SAME_KIND, 5);
    let graph = Graph::new();
    graph.output("y", build(&graph, 16));
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    let model = CostModel::default();
    [Rewrites::Off, Rewrites::Greedy, Rewrites::EGraph].map(|rewrites| {
        let (optimized, report) = optimize(&graph, rewrites, &model);
        println!("== {name} {rewrites:?}\n{report}{}", text(&optimized));
        model.estimate(&optimized)
    })
}

#[test]
fn low_rank_updates_are_applied_in_turn() {
    let [off, _, found] = forms("x(AB)", |graph, n| {
        let x = input(graph, "x", &[8 * n, 32 * n]);
        let a = input(graph, "a", &[32 * n, 2]);
        let b = input(graph, "b", &[2, 32 * n]);
        x.matmul(a.matmul(b))
    });
    assert!(found.nanoseconds * 4.0 < off.nanoseconds);
}

#[test]
fn linear_attention_sums_keys_and_values_first() {
    let [off, _, found] = forms("(QKᵀ)V", |graph, n| {
        let [q, k, v] = ["q", "k", "v"].map(|name| input(graph, name, &[2, 32 * n, n]));
        q.matmul(k.swap_last()).matmul(v)
    });
    assert!(found.nanoseconds * 4.0 < off.nanoseconds);
}

#[test]
fn a_mean_of_a_product_is_the_product_of_a_mean() {
    let [off, _, found] = forms("mean(XW)", |graph, n| {
        let x = input(graph, "x", &[2, 8 * n, 4 * n]);
        let w = input(graph, "w", &[4 * n, 4 * n]);
        x.matmul(w).mean(&[1])
    });
    assert!(found.nanoseconds * 2.5 < off.nanoseconds);
}

#[test]
fn a_chain_starts_at_its_narrow_end() {
    let [off, _, found] = forms("((AB)C)d", |graph, n| {
        let [a, b, c] = ["a", "b", "c"].map(|name| input(graph, name, &[16 * n, 16 * n]));
        let d = input(graph, "d", &[16 * n, 1]);
        a.matmul(b).matmul(c).matmul(d)
    });
    assert!(found.nanoseconds * 4.0 < off.nanoseconds);
}

#[test]
fn transposes_cancel_and_are_absorbed() {
    let [_, _, found] = forms("((AB)ᵀ)ᵀ + (BᵀAᵀ)ᵀ", |graph, n| {
        let [a, b] = ["a", "b"].map(|name| input(graph, name, &[4 * n, 4 * n]));
        let first = a.matmul(b).swap_last().swap_last();
        first + b.swap_last().matmul(a.swap_last()).swap_last()
    });
    assert_eq!(found.contractions, 1);
}

#[test]
fn signs_and_scales_meet() {
    let [_, _, found] = forms("−(−(2x)) · ½", |graph, n| {
        let x = input(graph, "x", &[16 * n, 16 * n]);
        -(-(x * 2.0)) * 0.5 + 1.0
    });
    assert_eq!(found.instructions, 1);
}
