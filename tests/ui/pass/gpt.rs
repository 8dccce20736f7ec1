//! A small Llama: rotary positions, causal attention, gated blocks, tied embeddings.

use meganeura::prelude::*;

/// One decoder block, used by name inside another model.
#[derive(Model)]
#[model(config(width: usize = 288, heads: usize = 6, hidden: usize = 768),
        input(x: [batch, time, width]))]
struct Block {
    #[layer(residual, heads = heads, causal = true, rope = Rope::interleaved(10_000.0))]
    attention: PreNorm<SelfAttention>,
    #[layer(residual, hidden = hidden)]
    mlp: PreNorm<SwiGlu>,
}

#[derive(Model)]
#[model(config(vocab: usize = 4096, width: usize = 288, heads: usize = 6, hidden: usize = 768, depth: usize = 6),
        input(tokens: [batch, time] as u32), output = [batch, time, vocab])]
struct Gpt {
    #[layer(rows = vocab, width = width)]
    embed: Embedding,
    #[layer(repeat(depth), width = width, heads = heads, hidden = hidden)]
    blocks: Vec<Block>,
    norm: RmsNorm,
    #[layer(tie(embed))]
    logits: Unembedding,
}

fn main() {
    let summary = Gpt::new().summary(&[("batch", 1), ("time", 4)]).unwrap();
    let block = 288 + 4 * 288 * 288 + 288 + 3 * 288 * 768;
    assert_eq!(summary.parameters(), 4096 * 288 + 6 * block + 288);
    let last = summary.rows.last().unwrap();
    assert_eq!((last.path.as_str(), last.kind.as_str()), ("logits", "Unembedding"));
    assert_eq!(last.outputs[0].dims(), [1, 4, 4096]);
}
