use meganeura::prelude::*;

#[derive(Model)]
#[model(input = x, output = 10, config(width), crate)]
#[model(input(x: 64, y [batch], 3: [batch]))]
struct Net {
    #[layer(out = , bias = true)]
    a: Linear,
    #[layer(out 10)]
    b: Linear,
    #[layer("out" = 10, bias = false true)]
    c: Linear,
}

fn main() {
    let _ = Net::new();
}
