//! Models of sequences.

use meganeura::prelude::*;

#[derive(Model, Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[model(config(width: usize, hidden: usize), input(x: [batch, time, width]))]
pub struct Mlp {
    #[layer(out = hidden)]
    up: (Linear, Gelu),
    #[layer(out = width)]
    down: Linear,
}

#[derive(Model, Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[model(
    config(width: usize, heads: usize, causal: bool = true, bias: Biases = Biases::All),
    input(x: [batch, time, width]),
)]
pub struct Block {
    #[layer(residual, heads = heads, causal = causal, bias = bias)]
    attention: PreNorm<SelfAttention, LayerNorm>,
    #[layer(residual, width = width, hidden = 4 * width)]
    mlp: PreNorm<Mlp, LayerNorm>,
}

/// GPT-2, small (Radford et al., 2019).
#[derive(Model, Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[model(
    config(vocab: usize = 50_257, context: usize = 1024, width: usize = 768, heads: usize = 12, depth: usize = 12),
    input(tokens: [batch, time] as u32),
    output = [batch, time, vocab],
)]
pub struct Gpt {
    #[layer(rows = vocab, width = width)]
    embed: Embedding,
    #[layer(rows = context)]
    positions: Positions,
    #[layer(repeat(depth), width = width, heads = heads)]
    blocks: Vec<Block>,
    norm: LayerNorm,
    #[layer(tie(embed))]
    logits: Unembedding,
}

#[derive(Model, Clone, Copy, Debug, PartialEq)]
#[model(
    config(width: usize, heads: usize, groups: usize, hidden: usize),
    input(x: [batch, time, width]),
)]
pub struct LlamaBlock {
    #[layer(residual, heads = heads, kv_heads = heads / groups, causal = true, rope = Rope::halves(500_000.0))]
    attention: PreNorm<SelfAttention>,
    #[layer(residual, hidden = hidden)]
    mlp: PreNorm<SwiGlu>,
}

/// Llama 3.2 with a billion parameters.
#[derive(Model, Clone, Debug, PartialEq)]
#[model(
    config(vocab: usize = 128_256, width: usize = 2048, heads: usize = 32, groups: usize = 4, hidden: usize = 8192, depth: usize = 16),
    input(tokens: [batch, time] as u32),
    output = [batch, time, vocab],
)]
pub struct Llama {
    #[layer(rows = vocab, width = width)]
    embed: Embedding,
    #[layer(repeat(depth), width = width, heads = heads, groups = groups, hidden = hidden)]
    blocks: Vec<LlamaBlock>,
    norm: RmsNorm,
    #[layer(tie(embed))]
    logits: Unembedding,
}

#[derive(Model, Clone, Copy, Debug, PartialEq)]
#[model(config(width: usize, heads: usize), input(x: [batch, time, width]))]
pub struct BertBlock {
    #[layer(residual, heads = heads, bias = Biases::All)]
    attention: SelfAttention,
    #[layer(epsilon = 1e-12)]
    attention_norm: LayerNorm,
    #[layer(residual, width = width, hidden = 4 * width)]
    mlp: Mlp,
    #[layer(epsilon = 1e-12)]
    norm: LayerNorm,
}

/// BERT, base (Devlin et al., 2019), with the pooler.
#[derive(Model, Clone, Debug, PartialEq)]
#[model(
    config(vocab: usize = 30_522, context: usize = 512, width: usize = 768, heads: usize = 12, depth: usize = 12),
    input(tokens: [batch, time] as u32, kinds: [batch, time] as u32),
    output(pooled: [batch, width], states = blocks: [batch, time, width]),
)]
pub struct Bert {
    #[layer(from(tokens), rows = vocab, width = width)]
    words: Embedding,
    #[layer(from(kinds), rows = 2, width = width, add(words))]
    kind: Embedding,
    #[layer(rows = context)]
    positions: Positions,
    #[layer(epsilon = 1e-12)]
    norm: (LayerNorm, Dropout),
    #[layer(repeat(depth), width = width, heads = heads)]
    blocks: Vec<BertBlock>,
    #[layer(index = 0)]
    first: Select,
    #[layer(out = width)]
    pooled: (Linear, Tanh),
}

#[derive(Model, Clone, Copy, Debug, PartialEq)]
#[model(
    config(width: usize, heads: usize),
    input(x: [batch, time, width], memory: [batch, frames, width]),
    output(mlp, memory),
)]
pub struct DecoderBlock {
    #[layer(from(x), residual, heads = heads, causal = true, bias = Biases::AllButKey)]
    attention: PreNorm<SelfAttention, LayerNorm>,
    norm: LayerNorm,
    #[layer(from(norm, memory), heads = heads, bias = Biases::AllButKey, add(attention))]
    cross: CrossAttention,
    #[layer(residual, width = width, hidden = 4 * width)]
    mlp: PreNorm<Mlp, LayerNorm>,
}

/// Whisper, tiny (Radford et al., 2023). The encoder's positions are waves there; here they are a
/// frozen table of the same size.
#[derive(Model, Clone, Debug, PartialEq)]
#[model(
    config(mels: usize = 80, vocab: usize = 51_865, width: usize = 384, heads: usize = 6, depth: usize = 4),
    input(sound: [batch, mels, frames], tokens: [batch, time] as u32),
    output = [batch, time, vocab],
)]
pub struct Whisper {
    #[layer(from(sound), out = width, kernel = 3, padding = 1)]
    conv1: (Conv1d, Gelu),
    #[layer(out = width, kernel = 3, stride = 2, padding = 1)]
    conv2: (Conv1d, Gelu, SwapLast),
    #[layer(rows = 1500, freeze)]
    waves: Positions,
    #[layer(repeat(depth), width = width, heads = heads, causal = false, bias = Biases::AllButKey)]
    encoder: Vec<Block>,
    memory: LayerNorm,
    #[layer(from(tokens), rows = vocab, width = width)]
    embed: Embedding,
    #[layer(rows = 448)]
    positions: Positions,
    #[layer(repeat(depth), from(positions, memory), width = width, heads = heads)]
    decoder: Vec<DecoderBlock>,
    #[layer(from(decoder.0))]
    norm: LayerNorm,
    #[layer(tie(embed))]
    logits: Unembedding,
}
