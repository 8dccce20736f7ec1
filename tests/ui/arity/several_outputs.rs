use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]), output(one = first, two = second))]
struct Two {
    first: Relu,
    second: Relu,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    two: Two,
    #[layer(out = 3)]
    both: Linear,
    #[layer(from(x), residual)]
    residual: Two,
    #[layer(from(x), add(two))]
    added: Relu,
}

fn main() {}
