use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize = 64), input(x: [batch, width]))]
struct Net {
    #[layer(out = widht)]
    first: Linear,
    #[layer(out = Self::WIDTH)]
    second: Linear,
}

fn main() {}
