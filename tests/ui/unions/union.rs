use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 8]))]
union Either {
    linear: Linear,
    relu: Relu,
}

fn main() {}
