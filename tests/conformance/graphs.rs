//! Graphs of several ops, in which the scheduler meets what no op has by itself.

use meganeura::ir::{DType, Domain, Graph, Init, Shape};

use crate::Values;
use crate::support::samples::Random;

/// Slices of what has no memory, pieces of what is computed, a state that reads itself.
pub fn regions() -> (Graph, Values) {
    let graph = Graph::new();
    let mut random = Random::new(5);
    let mut values = Values::new();
    let mut leaf = |name: &str, dims: &[usize]| {
        let array = random.array(&Shape::from(dims), Domain::Uniform(-1.0, 1.0));
        values.insert(name.to_owned(), array);
        match name {
            "memory" => graph.state(name, dims, Init::Zeros),
            _ => graph.input(name, dims, DType::F32),
        }
    };
    let (x, y, weight, memory) = (
        leaf("x", &[3, 8]),
        leaf("y", &[1, 8]),
        leaf("weight", &[8, 4]),
        leaf("memory", &[4, 8]),
    );
    // One element of a leaf, and of an index, in arithmetic.
    let one = x.slice(0, 2, 1).slice(1, 5, 1).reshape([]);
    let place = graph.index([8, 6], 0).slice_step(0, 1, 3, 2);
    graph.output("one", (one * 2.0 + 1.0) * y);
    graph.output("place", place.cast(DType::F32) * one);
    // A part of what is computed, next to the whole of it.
    let whole = (x * y).tanh();
    graph.output(
        "part",
        whole.slice(0, 0, 2).exp() + whole.slice(1, 1, 1).slice(0, 1, 1),
    );
    graph.output("whole", whole.sum(&[1]));
    // Contractions with parts, pieces of contractions.
    let product = x.slice_step(1, 0, 4, 2).matmul(weight.slice(0, 3, 4));
    let padded = (product + 0.5)
        .relu()
        .pad(&[(1, 2), (0, 3)], f64::NEG_INFINITY);
    graph.output("padded", padded.exp());
    graph.output(
        "joined",
        graph.concat(&[product, x, product.detach() * 2.0, x], 1),
    );
    // What is made of leaves, as a piece.
    graph.output("made", graph.concat(&[(x * 3.0 - y).exp(), y], 0) * 2.0);
    graph.update(memory, graph.concat(&[memory.slice(0, 1, 3), y], 0));
    graph.output("window", memory.window(1, 3, 2, 1).sum(&[2]));
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    (graph, values)
}

/// Contractions whose operands are computed and whose results are updates: what the scheduler
/// makes prologues and epilogues of.
pub fn prologue_and_epilogue() -> (Graph, Values) {
    let graph = Graph::new();
    let mut random = Random::new(4);
    let mut values = Values::new();
    let mut random_values = |name: &str, dims: &[usize]| {
        values.insert(
            name.to_owned(),
            random.array(&Shape::from(dims), Domain::Uniform(-1.0, 1.0)),
        );
    };
    random_values("x", &[33, 40]);
    random_values("mean", &[40]);
    random_values("weight", &[40, 37]);
    random_values("moment", &[40, 37]);
    let x = graph.input("x", [33, 40], DType::F32);
    let mean = graph.input("mean", [40], DType::F32);
    let weight = graph.parameter("weight", [40, 37], Init::Ones);
    let moment = graph.state("moment", [40, 37], Init::Zeros);
    let y = ((x - mean) * 0.5).matmul(weight).tanh();
    let next = moment * 0.9 + x.swap_last().matmul(y) * 0.1;
    graph.update(moment, next);
    graph.update(weight, weight * 0.99 - next);
    graph.output("y", y);
    (graph, values)
}
