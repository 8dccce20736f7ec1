use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 8]))]
struct Net {
    first: Linear,
    #[layer(tie(first))]
    second: Linear,
}

fn main() {}
