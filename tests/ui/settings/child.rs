use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize = 64, heads: usize = 4), input(x: [batch, width]))]
struct Block {
    #[layer(out = width)]
    first: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Fixed {
    first: Relu,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(haeds = 3)]
    a: Block,
    #[layer(out = 3)]
    b: Fixed,
    #[layer(repeat(3), widht = 3)]
    c: Vec<Block>,
}

fn main() {}
