use meganeura::prelude::*;

#[derive(Model)]
enum Head {
    Linear(Linear),
    Same(Relu),
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(out = 3)]
    flat: Head,
    #[layer(..Head::liner(Linear { out: 3, bias: true }))]
    misspelt: Head,
    #[layer(..Head::linear(Relu))]
    other: Head,
}

fn main() {}
