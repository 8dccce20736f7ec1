//! Descriptions are plain data: they go through a file and come back the same.

use super::sequences::Gpt;
use meganeura::prelude::*;

#[derive(Model, Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Activation {
    Relu(Relu),
    Gelu(Gelu),
}

#[derive(Model, Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[model(input(x: [batch, 6, 8]))]
struct Net {
    #[layer(residual, heads = 2, rope = Rope::halves(100.0), bias = Biases::AllButKey)]
    attention: PreNorm<SelfAttention, LayerNorm>,
    #[layer(..Activation::gelu(Gelu::tanh()))]
    activation: Activation,
    #[layer(out = 4, kernel = 3)]
    conv: (Conv1d, BatchNorm, Dropout),
    #[layer(when(false), out = 3)]
    absent: Option<Linear>,
    #[layer(skip)]
    note: String,
}

fn there_and_back<M>(model: &M, dims: &[(&str, usize)]) -> M
where
    M: Model + PartialEq + std::fmt::Debug + serde::Serialize + for<'d> serde::Deserialize<'d>,
{
    let written = serde_json::to_string(model).unwrap();
    let read: M = serde_json::from_str(&written).unwrap();
    assert_eq!(read, *model);
    let graph = |model: &M| {
        let graph = Graph::training();
        model.build(&graph, dims);
        assert_eq!(graph.errors(), []);
        format!("{:?}", graph.nodes())
    };
    assert_eq!(graph(&read), graph(model));
    read
}

#[test]
fn descriptions_go_through_files() {
    let mut net = Net::new();
    net.note = "changed".to_owned();
    net.activation = Activation::Relu(Relu);
    net.conv.2.rate = 0.5;
    there_and_back(&net, &[("batch", 2)]);
    let gpt = Gpt::with(|config| (config.depth, config.width, config.vocab) = (2, 24, 9));
    let gpt = there_and_back(&gpt, &[("batch", 1), ("time", 4)]);
    assert_eq!(gpt.config().map(|config| config.width), Some(24));
}
