use meganeura::prelude::*;

#[derive(Model)]
#[model = "net"]
struct Net {
    first: Relu,
}

#[derive(Model)]
#[model]
struct Bare {
    first: Relu,
}

fn main() {}
