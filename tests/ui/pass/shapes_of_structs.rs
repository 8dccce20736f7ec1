//! Tuple structs, skipped fields, `cfg`, comments, models in functions.

#![allow(dead_code)]

use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 8]), output = [batch, 5])]
struct Positional(
    #[layer(out = 5)] Linear,
    /// Documented.
    #[layer(skip)]
    Vec<u32>,
    [Relu; 3],
    #[cfg(any())] Nowhere,
);

#[derive(Model)]
#[model(input(x: [batch, 8]))]
#[model(output = [batch, 3])]
struct Named {
    /// A comment, and attributes in several pieces.
    #[layer(out = 3)]
    #[layer(bias = false)]
    #[cfg(all())]
    first: Linear,
    #[cfg(any())]
    second: Nowhere,
    #[cfg_attr(all(), layer(residual))]
    third: Tanh,
    #[layer(skip)]
    name: Option<&'static str>,
}

fn main() {
    #[derive(Model)]
    #[model(input(x: [batch, 8]), output = [batch, 5])]
    struct Local {
        positional: Positional,
    }

    let graph = Graph::new();
    let out = Local::new().build(&graph, &[("batch", 2)]);
    assert_eq!(out[0].shape().dims(), [2, 5]);
    let names: Vec<String> = graph.variables().into_iter().map(|(variable, _)| variable.name).collect();
    assert_eq!(names, ["positional.0.weight", "positional.0.bias"]);
    assert!(!Named::new().first.bias);
    assert!(Named::new().name.is_none());
}
