//! An enum is a choice between layers, made at run time.

use meganeura::prelude::*;

#[derive(Model, Clone, Copy, Debug, PartialEq)]
enum Activation {
    Relu(Relu),
    Gelu(Gelu),
    Wide((Linear, Tanh)),
    Super(Silu),
}

#[derive(Model, Clone, Debug, PartialEq)]
#[model(config(activation: meganeura::model::ConfigOf<Activation> = Activation::gelu(Gelu::tanh())),
        input(x: [batch, 8]))]
struct Mlp {
    #[layer(out = 16)]
    up: Linear,
    #[layer(..activation)]
    activation: Activation,
    #[layer(..Activation::wide(Linear { out: 4, bias: false }))]
    wide: Activation,
    plain: Activation,
    #[layer(..Activation::super_(Silu))]
    last: Activation,
}

fn main() {
    let mut mlp = Mlp::new();
    assert_eq!(mlp.activation, Activation::Gelu(Gelu::tanh()));
    assert_eq!(mlp.plain, Activation::Relu(Relu));
    mlp.activation = Activation::Wide((Linear { out: 3, bias: true }, Tanh));

    let graph = Graph::new();
    let out = mlp.build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 4]);
    let names: Vec<String> = graph.variables().into_iter().map(|(variable, _)| variable.name).collect();
    assert_eq!(
        names,
        ["up.weight", "up.bias", "activation.0.weight", "activation.0.bias", "wide.0.weight"]
    );
}
