use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize = 3.5, depth: usze = 3), input(x: [batch, 64]))]
struct Net {
    #[layer(out = width)]
    first: Linear,
}

fn main() {}
