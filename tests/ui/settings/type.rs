use meganeura::prelude::*;

const WIDTH: usize = 64;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(out = 3.5)]
    a: Linear,
    #[layer(out = WIDHT)]
    b: Linear,
    #[layer(out = WIDTH, bias = "no")]
    c: Linear,
}

fn main() {
    let _ = Net::new();
}
