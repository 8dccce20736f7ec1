use meganeura::prelude::*;

#[derive(Model)]
#[model(config(WIDTH: usize = 3), input(x: [batch, WIDTH]))]
struct Net<const WIDTH: usize> {
    first: Relu,
}

fn main() {}
