use meganeura::prelude::*;

#[derive(Model)]
#[model(config(wide: bool = true), input(x: [batch, 64]))]
struct Net {
    #[layer(when(wide), out = 128)]
    widen: Option<Linear>,
    #[layer(out = 64, add(widen))]
    last: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Uses {
    wide: Net,
    #[layer(wide = false)]
    narrow: Net,
}

fn main() {}
