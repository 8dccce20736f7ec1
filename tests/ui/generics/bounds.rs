use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 8]))]
struct Unbounded<A> {
    activation: A,
}

fn main() {}
