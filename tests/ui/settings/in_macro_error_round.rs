use meganeura::prelude::*;

// What rustc has to say of sound fields comes in the same round as what the macro says.
#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(outs = 3)]
    a: Linear,
    #[layer(residul)]
    b: Relu,
    #[layer(repeat(2), out = "three")]
    c: Vec<Linear>,
}

fn main() {}
