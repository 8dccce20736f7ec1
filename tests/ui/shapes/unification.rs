use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [n, n]))]
struct Square {
    first: Relu,
}

#[derive(Model)]
#[model(input(x: [batch, 2 * n], y: [batch, n + 1]))]
struct Related {
    #[layer(from(x))]
    first: Relu,
}

#[derive(Model)]
#[model(input(x: [3, 4], y: [3, 5], z: [3, 3]))]
struct Net {
    #[layer(from(x))]
    square: Square,
    #[layer(from(y, x))]
    odd: Related,
    #[layer(from(x, x))]
    other: Related,
    #[layer(from(x, z))]
    good: Related,
}

fn main() {}
