use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, time]), output = [batch, time - 1])]
struct Net {
    first: Relu,
}

fn main() {}
