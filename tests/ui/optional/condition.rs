use meganeura::prelude::*;

#[derive(Model)]
#[model(config(depth: usize = 3), input(x: [batch, 64]))]
struct Net {
    #[layer(when(depth), out = 3)]
    first: Option<Linear>,
}

fn main() {}
