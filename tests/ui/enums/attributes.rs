use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 3]), output = [batch, 3], config(width: usize = 3))]
enum Activation {
    Relu(Relu),
}

fn main() {}
