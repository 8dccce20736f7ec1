use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize, inner: usize), input(x: [batch, width]))]
struct Block {
    #[layer(out = inner)]
    up: (Linear, Gelu),
    #[layer(out = width)]
    down: Linear,
    #[layer(from(x, up))]
    sum: Add,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(width = 64, inner = 64)]
    good: Block,
    #[layer(width = 64, inner = 32)]
    inside: Block,
    #[layer(from(good), width = 65, inner = 65)]
    entry: Block,
    #[layer(from(good), repeat(3), width = 64, inner = 32)]
    many: Vec<Block>,
    #[layer(from(good), width = 64, inner = 32)]
    deep: PreNorm<PreNorm<Block>>,
    #[layer(from(x, x), width = 64, inner = 32)]
    two: Block,
}

fn main() {
    let _ = Net::new();
}
