use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize, depth: usize = 3), input(x: [batch, 64]))]
struct Net {
    #[layer(out = width)]
    first: Linear,
}

fn make() {
    let _ = Net::new();
    let _ = Net::with(3, |config| config.dpth = 3);
}

fn main() {}
