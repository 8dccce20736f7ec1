use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize, hidden: usize = 64), input(x: [batch, width]))]
struct Block {
    #[layer(out = hidden)]
    up: (Linear, Gelu),
    #[layer(out = width)]
    down: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    first: Linear,
    #[layer(bias = false)]
    second: (Linear, Relu),
    third: Block,
    #[layer(hidden = 32)]
    fourth: PreNorm<Block>,
}

fn main() {
    let _ = Net::new();
}
