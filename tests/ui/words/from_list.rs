use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(from(3))]
    a: Relu,
    #[layer(from(a.))]
    b: Relu,
    #[layer(from(x y))]
    c: Relu,
    #[layer(from("x"))]
    d: Relu,
    #[layer(from(x.0))]
    e: Relu,
}

fn main() {}
