use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(out = 32)]
    first: (Linear, Relu, Unsure, PreNorm<Unsure>),
}

#[derive(Model)]
#[model(input(x: [batch, 32]), output = [batch, 33])]
struct Unsure {
    #[layer(out = 32)]
    inner: Linear,
}

fn main() {}
