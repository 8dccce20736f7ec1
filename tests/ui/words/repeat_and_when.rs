use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(repeat(3), when(true), out = 3)]
    first: Vec<Linear>,
}

fn main() {}
