use meganeura::prelude::*;

// After an opaque layer nothing is known, until something declares it.
#[derive(Clone, Copy)]
struct Mystery;

#[layer]
impl Layer for Mystery {
    const BASE: Self = Mystery;

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        x
    }
}

#[derive(Model)]
#[model(input(x: [batch, 8]), output = [batch, 9])]
struct Declared {
    mystery: Mystery,
}

#[derive(Model)]
#[model(input(x: [batch, 8]))]
struct Net {
    mystery: Mystery,
    fine: Relu,
    #[layer(from(x))]
    declared: Declared,
    #[layer(residual, out = 10)]
    wrong: Linear,
}

fn main() {}
