use meganeura::prelude::*;

// A mistake in the middle is one error, wherever in the middle it is.
#[derive(Model)]
#[model(input(x: [batch, time, 64]), output = [batch, time, 64])]
struct Net {
    block0: PreNorm<Block>,
    block1: PreNorm<Block>,
    block2: PreNorm<Block>,
    block3: PreNorm<Block>,
    block4: PreNorm<Block>,
    block5: PreNorm<Block>,
    #[layer(residual, out = 63)]
    block6: PreNorm<Block>,
    block7: PreNorm<Block>,
    block8: PreNorm<Block>,
    block9: PreNorm<Block>,
    block10: PreNorm<Block>,
    block11: PreNorm<Block>,
}

#[derive(Model)]
#[model(config(out: usize = 64), input(x: [batch, time, width]), output = [batch, time, out])]
struct Block {
    #[layer(residual, heads = 4)]
    attention: PreNorm<SelfAttention>,
    #[layer(out = out)]
    mlp: (Linear, Relu),
}

fn main() {}
