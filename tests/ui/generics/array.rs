use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 8]))]
struct Net<const N: usize> {
    #[layer(out = 9, residual)]
    layers: [Linear; N],
}

#[derive(Model)]
#[model(input(x: [batch, 8]))]
struct Uses {
    none: Net<0>,
    two: Net<2>,
}

fn main() {}
