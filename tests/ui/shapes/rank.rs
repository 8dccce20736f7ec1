use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [], y: [batch]))]
struct Net {
    #[layer(from(x), out = 3)]
    linear: Linear,
    #[layer(from(x))]
    norm: RmsNorm,
    #[layer(from(x))]
    softmax: Softmax,
    #[layer(from(x))]
    flat: Flatten,
    #[layer(from(y))]
    fine: Flatten,
}

fn main() {}
