use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]), output)]
struct Nothing {
    first: Relu,
}

#[derive(Model)]
#[model(input(x: [batch, 64]), output())]
struct Empty {
    first: Relu,
}

#[derive(Model)]
#[model(input(x: [batch, 64]), output(first =, second: batch))]
struct Half {
    first: Relu,
    second: Relu,
}

fn main() {}
