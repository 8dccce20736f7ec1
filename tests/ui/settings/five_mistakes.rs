use meganeura::prelude::*;

// Two mistakes in attributes and three in shapes: the attributes are reported first, together …
#[derive(Model)]
#[model(input(x: [batch, 64]), output = [batch, 10])]
struct Net {
    #[layer(out = 64)]
    first: Linear,
    #[layer(residul)]
    second: Relu,
    #[layer(residual, out = 32)]
    third: Linear,
    #[layer(from(x), heads = 2)]
    fourth: SelfAttention,
    #[layer(from(first), outs = 64)]
    fifth: Linear,
    #[layer(from(first, fifth))]
    sixth: Add,
    #[layer(from(x), out = 12)]
    scores: Linear,
}

fn main() {}
