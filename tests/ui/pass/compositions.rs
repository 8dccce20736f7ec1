//! Sequences, repetitions and wrappers in each other.

use meganeura::prelude::*;

#[derive(Model, Clone, Debug, PartialEq)]
#[model(input(x: [batch, 8]), output = [batch, 8])]
struct Net {
    #[layer(out = 8)]
    nested: ((Linear, Relu), (Tanh, PreNorm<Linear8>), Sigmoid),
    #[layer(repeat(2), out = 8)]
    pairs: Vec<(Linear, Relu)>,
    #[layer(out = 8)]
    wrapped: PreNorm<[(Linear, Gelu); 2], LayerNorm>,
    #[layer(when(true), out = 8)]
    maybe: Option<PreNorm<(Linear, Silu)>>,
    #[layer(out = 8)]
    one: (Linear,),
    #[layer(repeat(0), out = 99)]
    none: Vec<Linear>,
    empty: [Relu; 0],
}

#[derive(Model, Clone, Debug, PartialEq)]
#[model(input(x: [batch, width]), output = [batch, 8])]
struct Linear8 {
    #[layer(out = 8)]
    linear: Linear,
}

fn main() {
    let graph = Graph::new();
    let out = Net::new().build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 8]);
    let names: Vec<String> = graph.variables().into_iter().map(|(variable, _)| variable.name).collect();
    for name in [
        "nested.0.0.weight",
        "nested.1.1.inner.linear.bias",
        "pairs.1.0.weight",
        "wrapped.inner.1.0.bias",
        "maybe.inner.0.weight",
        "one.0.weight",
    ] {
        assert!(names.iter().any(|known| known == name), "{name} is not in {names:?}");
    }
}
