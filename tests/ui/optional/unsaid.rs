use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(out = 3)]
    first: Option<Linear>,
}

fn main() {}
