use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(..RmsNorm { epsilon: 1e-6 })]
    c: Linear,
}

fn main() {}
