//! What is said of parameters: names, first values, freezing, sharing.

use meganeura::ir::VariableKind;
use meganeura::prelude::*;

const SMALL: Init = Init::Constant(0.01);

#[derive(Model)]
#[model(input(x: [batch, 8]))]
struct Net {
    #[layer(out = 8, rename("transformer.h"), freeze)]
    first: Linear,
    #[layer(out = 8, init(Kaiming))]
    second: (Linear, Relu),
    #[layer(out = 8, init(Normal { mean: 0.0, std: 0.02 }), recompute)]
    third: PreNorm<Linear>,
    #[layer(tie(second))]
    fourth: (Linear, Relu),
    #[layer(tie(fourth), bias = false, freeze)]
    fifth: (Linear, Relu),
    #[layer(out = 8, init(SMALL), rename(""))]
    sixth: Linear,
    #[layer(out = 8, init(Init::Orthogonal))]
    seventh: Linear,
}

fn main() {
    let graph = Graph::new();
    let out = Net::new().build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 8]);
    let found: Vec<(String, Init, VariableKind)> = graph
        .variables()
        .into_iter()
        .filter(|(variable, _)| variable.name.ends_with("weight"))
        .map(|(variable, _)| (variable.name, variable.init, variable.kind))
        .collect();
    let expected = [
        ("transformer.h.weight", None, VariableKind::Buffer),
        ("second.0.weight", Some(Init::KaimingNormal), VariableKind::Parameter),
        ("third.norm.weight", Some(Init::Ones), VariableKind::Parameter),
        ("third.inner.weight", Some(Init::Normal { mean: 0.0, std: 0.02 }), VariableKind::Parameter),
        ("weight", Some(SMALL), VariableKind::Parameter),
        ("seventh.weight", Some(Init::Orthogonal), VariableKind::Parameter),
    ];
    assert_eq!(found.len(), expected.len());
    for ((name, init, kind), (expected_name, expected_init, expected_kind)) in found.into_iter().zip(expected) {
        assert_eq!(name, expected_name);
        assert_eq!(kind, expected_kind);
        assert!(expected_init.is_none_or(|expected| expected == init), "{name}");
    }
}
