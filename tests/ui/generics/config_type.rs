use meganeura::prelude::*;

#[derive(Model)]
#[model(config(setting: T), input(x: [batch, 8]))]
struct Net<T: Layer> {
    first: T,
}

#[derive(Model)]
#[model(config = u32, input(x))]
struct NoConfig {
    first: Relu,
}

fn main() {}
