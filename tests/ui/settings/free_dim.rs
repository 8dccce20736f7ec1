use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, width]))]
struct Net {
    #[layer(out = 2 * width)]
    a: Linear,
    #[layer(repeat(batch), out = 3)]
    b: Vec<Linear>,
}

fn main() {
    let _ = Net::new();
}
