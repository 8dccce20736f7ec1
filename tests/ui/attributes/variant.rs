use meganeura::prelude::*;

#[derive(Model)]
enum Activation {
    #[layer(exact = true)]
    Gelu(Gelu),
    Relu(Relu),
}

fn main() {}
