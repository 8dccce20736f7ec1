//! Names that count: `{i}` is the number of the repetition.

use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize), input(x: [batch, width]))]
struct Block {
    #[layer(out = width, rename("model.layers.{i}.self_attn.q_proj"))]
    query: Linear,
    #[layer(out = width)]
    own: Linear,
    #[layer(tie(query), rename("again.{i}"))]
    tied: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 4]))]
struct Net {
    #[layer(repeat(2), width = 4)]
    blocks: Vec<Block>,
    #[layer(rename("tail.{i}.linear"), out = 4)]
    tail: [Linear; 2],
    inner: Inner,
}

#[derive(Model)]
#[model(input(x: [batch, 4]))]
struct Inner {
    #[layer(repeat(1), width = 4, rename("deep.{i}"))]
    blocks: Vec<Block>,
}

#[derive(Model)]
#[model(input(x: [batch, 4]))]
struct Alone {
    #[layer(rename("h.{i}"), out = 4)]
    only: Linear,
}

fn main() {
    let graph = Graph::new();
    Net::new().build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    let names = graph.variables().into_iter().map(|(variable, _)| variable.name);
    let weights: Vec<String> = names.filter(|name| name.ends_with("weight")).collect();
    assert_eq!(
        weights,
        [
            "model.layers.0.self_attn.q_proj.weight",
            "blocks.0.own.weight",
            "model.layers.1.self_attn.q_proj.weight",
            "blocks.1.own.weight",
            "tail.0.linear.weight",
            "tail.1.linear.weight",
            "inner.model.layers.0.self_attn.q_proj.weight",
            "inner.deep.0.own.weight",
        ]
    );
    let graph = Graph::new();
    Alone::new().build(&graph, &[("batch", 2)]);
    assert_eq!(
        graph.errors()[0].to_string(),
        "`rename(\"h.{i}\")` counts with `{i}`, but no `repeat` is around it"
    );
}
