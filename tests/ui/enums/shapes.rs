use meganeura::prelude::*;

#[derive(Model)]
enum Head {
    Linear(Linear),
    Same(Relu),
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(residual, ..Head::linear(Linear { out: 3, bias: true }))]
    wrong: Head,
    #[layer(from(x), residual, ..Head::same(Relu))]
    right: Head,
    #[layer(from(x))]
    unset: Head,
}

fn main() {}
