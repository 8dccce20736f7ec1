use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(repeat = 3, out = 3)]
    many: Linear,
    #[layer(residual = true, out = 3)]
    residual: Linear,
}

fn main() {}
