use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64], memory: [batch, 64]))]
struct Decoder {
    #[layer(from(x, memory))]
    sum: Add,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    decoder: Decoder,
    #[layer(from(x, x, x))]
    three: Decoder,
}

fn main() {}
