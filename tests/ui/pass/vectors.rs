//! Without a batch, and with many axes.

use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [64]), output = [10])]
struct Vector {
    #[layer(out = 32)]
    hidden: (Linear, Relu),
    #[layer(out = 10)]
    scores: Linear,
    softmax: Softmax,
}

#[derive(Model)]
#[model(input(x: [a, 2, 3, b, 4, 5]), output = [a, 24 * b * 5])]
struct Many {
    relu: Relu,
    flat: Flatten,
}

fn main() {
    let graph = Graph::new();
    let out = Vector::new().build(&graph, &[]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [10]);
    let graph = Graph::new();
    let out = Many::new().build(&graph, &[("a", 2), ("b", 3)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 360]);
}
