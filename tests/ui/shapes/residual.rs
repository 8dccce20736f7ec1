use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, time, 288]))]
struct Net {
    #[layer(residual, out = 256)]
    narrow: PreNorm<Linear>,
    #[layer(out = 288)]
    wide: Linear,
    #[layer(out = 100, add(x))]
    other: Linear,
    #[layer(residual, out = 288)]
    unknown_before: Linear,
}

fn main() {
    let _ = Net::new();
}
