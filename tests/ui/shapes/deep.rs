use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, width]))]
struct A {
    #[layer(residual, out = 7)]
    bad: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, width]))]
struct B {
    #[layer(repeat(2))]
    a: Vec<A>,
}

#[derive(Model)]
#[model(input(x: [batch, width]))]
struct C {
    b: (Relu, B),
}

#[derive(Model)]
#[model(input(x: [batch, 8]))]
struct Net {
    c: [C; 2],
}

fn main() {}
