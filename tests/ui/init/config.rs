use meganeura::prelude::*;

#[derive(Model)]
#[model(config(scale: f32 = 0.1), input(x: [batch, 8]))]
struct Net {
    #[layer(out = 3, init(Constant(scale)))]
    first: Linear,
    #[layer(out = 3, init())]
    second: Linear,
    #[layer(out = 3, init, freeze(), recompute(x))]
    third: Linear,
}

fn main() {}
