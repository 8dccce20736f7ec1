use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64], y: [batch, 64]))]
struct Net {
    #[layer(form(x))]
    a: Relu,
    #[layer(residul)]
    b: Relu,
    #[layer(repaet(3), out = 64)]
    c: Linear,
    #[layer(out = 64, bias)]
    d: Linear,
    #[layer(dropout(0.1))]
    e: Relu,
}

fn main() {
    let _ = Net::new();
}
