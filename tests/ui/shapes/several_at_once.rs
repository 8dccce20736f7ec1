use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]), output = [batch, 10])]
struct Net {
    #[layer(residual, out = 32)]
    first: Linear,
    #[layer(from(x), residual, out = 31)]
    second: Linear,
    #[layer(from(x), out = 30, add(x))]
    third: Linear,
    #[layer(from(x), out = 12)]
    scores: Linear,
}

fn main() {}
