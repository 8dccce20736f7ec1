use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, time, 288]))]
struct Net {
    norm: RmsNorm,
    #[layer(out = 256)]
    narrow: Linear,
    #[layer(from(x, narrow))]
    middle: Add,
    #[layer(out = 288)]
    wide: Linear,
}

#[derive(Model)]
#[model(input(a: [batch, n], b: [batch, m]))]
struct FreeNames {
    #[layer(from(a, b))]
    sum: Add,
}

fn main() {
    let _ = (Net::new(), FreeNames::new());
}
