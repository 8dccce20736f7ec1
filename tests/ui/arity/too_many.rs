use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64], y: [batch, 64]))]
struct Net {
    #[layer(from(x, y), out = 3)]
    linear: Linear,
    #[layer(from(x, y, x))]
    sum: Add,
    #[layer(from(x))]
    single: Add,
    #[layer(from(x, y))]
    sequence: (Add, Add),
}

fn main() {}
