use meganeura::prelude::*;

#[derive(Model)]
#[model(config(deep: bool = true), input(x: [batch, 64]))]
struct Net {
    #[layer(when(deep), out = 3)]
    first: (Linear, Relu),
}

fn main() {}
