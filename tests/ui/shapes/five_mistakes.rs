use meganeura::prelude::*;

// … and once they are right, all that is wrong with shapes. The first round is in `settings`.
#[derive(Model)]
#[model(input(x: [batch, 64]), output = [batch, 10])]
struct Net {
    #[layer(out = 64)]
    first: Linear,
    #[layer(residual)]
    second: Relu,
    #[layer(residual, out = 32)]
    third: Linear,
    #[layer(from(x), heads = 2)]
    fourth: SelfAttention,
    #[layer(from(first), out = 64)]
    fifth: Linear,
    #[layer(from(first, fifth))]
    sixth: Add,
    #[layer(from(x), out = 12)]
    scores: Linear,
}

fn main() {}
