//! Whole models can share their parameters, inside repeated ones too.

use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize), input(x: [batch, width]), output = [batch, width])]
struct Block {
    #[layer(out = width)]
    up: (Linear, Relu),
    #[layer(repeat(2), out = width)]
    more: Vec<Linear>,
}

#[derive(Model)]
#[model(config(width: usize = 4), input(x: [batch, width]), output = [batch, width])]
struct Pair {
    #[layer(width = width, rename("one"))]
    first: Block,
    #[layer(tie(first))]
    second: Block,
    #[layer(tie(second))]
    third: Block,
}

#[derive(Model)]
#[model(input(x: [batch, 4]))]
struct Net {
    #[layer(repeat(2))]
    pairs: Vec<Pair>,
}

fn main() {
    let graph = Graph::new();
    let _ = Net::new().build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    let names: Vec<String> = graph.variables().into_iter().map(|(variable, _)| variable.name).collect();
    assert_eq!(names.len(), 12);
    assert_eq!(names[0], "pairs.0.one.up.0.weight");
    assert_eq!(names[6], "pairs.1.one.up.0.weight");
}
