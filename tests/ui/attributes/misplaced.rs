use meganeura::prelude::*;

#[derive(Model)]
#[layer(out = 10)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[model(skip)]
    title: u32,
    #[layer]
    first: Relu,
    #[layer = "out"]
    second: Relu,
    #[layer(out = 10)]
    scores: Linear,
}

fn main() {
    let _ = Net::new();
}
