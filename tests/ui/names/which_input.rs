use meganeura::prelude::*;

#[derive(Model)]
#[model(input(left: [batch, 64], right: [batch, 64]))]
struct Net {
    first: Relu,
    #[layer(from(first, right))]
    sum: Add,
}

fn main() {
    let _ = Net::new();
}
