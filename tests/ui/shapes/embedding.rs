use meganeura::prelude::*;

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32), output = [batch, time, 100])]
struct Net {
    #[layer(rows = 100, width = 64)]
    embed: Embedding,
    #[layer(out = 32)]
    narrow: Linear,
    #[layer(tie(embed))]
    logits: Unembedding,
}

fn main() {}
