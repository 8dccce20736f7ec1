use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, W]))]
struct Mlp<const W: usize, A: Layer> {
    #[layer(out = W / 2)]
    down: Linear,
    activation: A,
    #[layer(residual, out = W)]
    up: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    first: Mlp<64, Relu>,
    #[layer(from(x))]
    second: Mlp<32, Gelu>,
}

check!(Mlp<16, Gelu>);

fn main() {}
