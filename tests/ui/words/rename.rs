use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(rename(first))]
    a: Relu,
    #[layer(rename("two words"))]
    b: Relu,
    #[layer(rename("h."))]
    c: Relu,
    #[layer(rename("d"))]
    d: Relu,
    #[layer(rename("d"))]
    e: Relu,
    #[layer(rename("h.{n}"))]
    f: Relu,
}

fn main() {}
