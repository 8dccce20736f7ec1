use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(skip, out = 3)]
    first: Linear,
    #[layer(skip, residual)]
    second: Relu,
    third: Relu,
}

fn main() {}
