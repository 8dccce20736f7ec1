use meganeura::prelude::*;

#[derive(Model)]
#[model(
    config(width: usize = 3, width: usize = 4),
    input(x: [batch, 64], x: [batch, 64]),
    output(first, first),
)]
struct Net {
    #[layer(from(x))]
    first: Relu,
    #[layer(rename("first"))]
    second: Relu,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Shadow {
    x: Relu,
}

fn main() {
    let _ = (Net::new(), Shadow::new());
}
