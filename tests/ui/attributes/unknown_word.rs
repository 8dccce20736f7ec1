use meganeura::prelude::*;

#[derive(Model)]
#[model(inputs(x: [batch, 64]), ouput = [batch, 10], optimizer = Adam)]
struct Net {
    #[layer(out = 10)]
    scores: Linear,
}

fn main() {
    let _ = Net::new();
}
