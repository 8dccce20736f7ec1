use meganeura::prelude::*;

#[derive(Model)]
#[model(config(kind: Gelu, rate: f32, depth: usize), input(x: [batch, 64]))]
struct Net {
    #[layer(..kind)]
    first: Gelu,
}

fn main() {}
