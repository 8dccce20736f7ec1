//! A decoder with tied embeddings, blocks by number, and residual branches.

use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize = 288, hidden: usize = 768), input(x: [batch, time, width]))]
struct Block {
    #[layer(residual, out = width)]
    mix: PreNorm<Linear>,
    #[layer(residual, hidden = hidden)]
    mlp: PreNorm<SwiGlu>,
}

#[derive(Model)]
#[model(
    config(vocab: usize = 4096, width: usize = 288, hidden: usize = 768, depth: usize = 6),
    input(tokens: [batch, time] as u32),
    output = [batch, time, vocab],
)]
struct Gpt {
    #[layer(rows = vocab, width = width)]
    embed: Embedding,
    #[layer(repeat(depth), width = width, hidden = hidden)]
    blocks: Vec<Block>,
    norm: RmsNorm,
    #[layer(tie(embed))]
    logits: Unembedding,
}

fn main() {
    let gpt = Gpt::with(|config| {
        config.vocab = 100;
        config.width = 8;
        config.hidden = 16;
        config.depth = 2;
    });
    assert_eq!(gpt.blocks.len(), 2);

    let graph = Graph::new();
    let logits = gpt.build(&graph, &[("batch", 3), ("time", 5)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(logits[0].shape().dims(), [3, 5, 100]);
    let names: Vec<String> = graph.variables().into_iter().map(|(variable, _)| variable.name).collect();
    assert_eq!(
        names,
        [
            "embed.weight",
            "blocks.0.mix.norm.weight",
            "blocks.0.mix.inner.weight",
            "blocks.0.mix.inner.bias",
            "blocks.0.mlp.norm.weight",
            "blocks.0.mlp.inner.gate.weight",
            "blocks.0.mlp.inner.up.weight",
            "blocks.0.mlp.inner.down.weight",
            "blocks.1.mix.norm.weight",
            "blocks.1.mix.inner.weight",
            "blocks.1.mix.inner.bias",
            "blocks.1.mlp.norm.weight",
            "blocks.1.mlp.inner.gate.weight",
            "blocks.1.mlp.inner.up.weight",
            "blocks.1.mlp.inner.down.weight",
            "norm.weight",
        ]
    );
    // What was set is read back from the fields.
    assert_eq!(gpt.outputs()[0].dims.to_string(), "[batch, time, 100]");
}
