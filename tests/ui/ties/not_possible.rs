use meganeura::prelude::*;

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32))]
struct Net {
    #[layer(rows = 10, width = 8)]
    embed: Embedding,
    norm: RmsNorm,
    #[layer(tie(embed))]
    linear: Linear,
}

fn main() {}
