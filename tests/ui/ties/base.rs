use meganeura::prelude::*;

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32))]
struct Net {
    #[layer(rows = 10, width = 8)]
    embed: Embedding,
    #[layer(tie(embed), ..Unembedding { rows: 10, width: 8 })]
    logits: Unembedding,
}

fn main() {}
