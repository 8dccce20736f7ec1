use meganeura::prelude::*;

#[derive(Model)]
enum Activation {
    None,
    Relu(Relu),
    Named { layer: Relu },
    Two(Relu, Gelu),
    Size(usize),
}

#[derive(Model)]
enum Empty {}

fn main() {}
