//! The first example: an image classifier in a dozen lines.

use meganeura::prelude::*;

/// 64 pixels → 10 class scores.
#[derive(Model)]
#[model(input(pixels: [batch, 64]), output = [batch, 10])]
struct Digits {
    #[layer(out = 128)]
    hidden: (Linear, Relu),
    #[layer(out = 10)]
    scores: Linear,
}

fn main() {
    let graph = Graph::new();
    let scores = Digits::new().build(&graph, &[("batch", 32)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(scores[0].shape().dims(), [32, 10]);
    let names: Vec<String> = graph.variables().into_iter().map(|(variable, _)| variable.name).collect();
    assert_eq!(names, ["hidden.0.weight", "hidden.0.bias", "scores.weight", "scores.bias"]);
}
