use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(from)]
    a: Relu,
    #[layer(from())]
    b: Relu,
    #[layer(residual(x))]
    c: Relu,
    #[layer(repeat(), out = 3)]
    d: Vec<Linear>,
    #[layer(repeat(2, 3), out = 3)]
    e: Vec<Linear>,
}

fn main() {
    let _ = Net::new();
}
