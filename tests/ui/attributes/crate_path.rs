use meganeura::prelude::*;

#[derive(Model)]
#[model(crate = "meganeura", input(x: [batch, 64]))]
struct Net {
    first: Relu,
}

fn main() {}
