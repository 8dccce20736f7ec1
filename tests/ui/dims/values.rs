use meganeura::prelude::*;

const WIDTH: usize = 64;

#[derive(Model)]
#[model(input(a: [batch, WIDHT], b: [batch, WIDTH as u32], c: [batch, 3.0 as usize]))]
struct Net {
    #[layer(from(a))]
    first: Relu,
}

fn main() {}
