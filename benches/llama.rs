//! The language model of the yardstick's `gpt`, with any number of layers.

use meganeura::prelude::*;

/// A decoder block.
#[derive(Model)]
#[model(config(width: usize = 288), input(x: [batch, time, width]))]
pub struct Block {
    #[layer(residual, heads = 6, causal = true, rope = Rope::interleaved(10_000.0))]
    attention: PreNorm<SelfAttention>,
    #[layer(residual, hidden = 768)]
    mlp: PreNorm<SwiGlu>,
}

/// A Llama of width 288 over 4096 tokens.
#[derive(Model)]
#[model(
    config(layers: usize = 6),
    input(tokens: [batch, time] as u32),
    output = [batch, time, 4096],
)]
pub struct Llama {
    #[layer(rows = 4096, width = 288)]
    embed: Embedding,
    #[layer(repeat(layers))]
    blocks: Vec<Block>,
    norm: RmsNorm,
    #[layer(out = 4096, bias = false)]
    scores: Linear,
}
