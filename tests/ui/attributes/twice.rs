use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]), input(y: [batch, 64]))]
#[model(output = [batch, 10], output = [batch, 20])]
#[model(config(width: usize = 3), config(height: usize = 3))]
struct Net {
    #[layer(from(x), from(y), residual, residual, out = 10, out = 20)]
    scores: Linear,
}

fn main() {
    let _ = Net::new();
}
