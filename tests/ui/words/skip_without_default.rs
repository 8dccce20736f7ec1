use meganeura::prelude::*;

struct Opened;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(skip)]
    file: Opened,
    first: Relu,
}

fn main() {}
