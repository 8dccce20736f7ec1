use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 8]))]
struct Net {
    first: Box<dyn Layer>,
}

fn main() {}
