use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(repeat(2.5), out = 3)]
    first: Vec<Linear>,
    #[layer(repeat(DEPHT), out = 3)]
    second: Vec<Linear>,
}

fn main() {}
