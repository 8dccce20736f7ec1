use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [a, b, c, d, e, f, g]))]
struct Net {
    first: Relu,
}

fn main() {}
