use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(outs = 128)]
    a: Linear,
    #[layer(out = 128, heads = 3)]
    b: (Linear, Relu),
    #[layer(rate = 0.1)]
    c: Relu,
}

fn main() {
    let _ = Net::new();
}
