//! Models checked with given settings.

use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize, heads: usize = 4), input(x: [batch, time, width]))]
struct Block<A: Layer = Relu> {
    #[layer(residual, heads = heads)]
    attention: PreNorm<SelfAttention>,
    activation: A,
}

const WIDE: usize = 128;

check!(Block { width: 64 });
check!(Block<Gelu> { width: WIDE, heads: 8 });
check!(Linear { out: 3 });
check!((Linear, Relu) { out: 3 });
check!([Relu; 3]);

fn main() {
    check!(Block { width: 2 * WIDE, });
}
