use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(..)]
    a: Linear,
    #[layer(..Linear { out: 3, bias: false }, ..Linear { out: 3, bias: true })]
    b: Linear,
    #[layer(..RmsNorm { epsilon: 1e-6 })]
    c: Linear,
}

fn main() {}
