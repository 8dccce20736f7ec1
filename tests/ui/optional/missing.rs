use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(when(true))]
    there: Option<Linear>,
    #[layer(when(false))]
    not_there: Option<Linear>,
}

fn main() {}
