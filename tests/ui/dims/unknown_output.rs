use meganeura::prelude::*;

#[derive(Model)]
#[model(config(vocab: usize = 3), input(x: [batch, time]), output = [bacth, tim, vocb])]
struct Net {
    #[layer(out = vocab)]
    first: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, time]), output = [batch, classes])]
struct Far {
    first: Relu,
}

fn main() {}
