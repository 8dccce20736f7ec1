use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: = 3, : usize, depth usize, heads: usize 3), input(x: [batch, 64]))]
struct Net {
    first: Relu,
}

fn main() {}
