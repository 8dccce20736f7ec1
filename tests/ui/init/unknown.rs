use meganeura::prelude::*;

#[derive(Model)]
#[model(config(scale: f32 = 0.1), input(x: [batch, 8]))]
struct Net {
    #[layer(out = 3, init(KaimingNromal))]
    first: Linear,
    #[layer(out = 3, init(Normal { mean: 0.0 }))]
    second: Linear,
    #[layer(out = 3, init(0.5))]
    third: Linear,
}

fn main() {}
