use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, time, 64], flat: [batch, 64]))]
struct Net {
    #[layer(from(x))]
    unset: SelfAttention,
    #[layer(from(x), heads = 5)]
    uneven: SelfAttention,
    #[layer(from(flat), heads = 4)]
    flat_input: SelfAttention,
    #[layer(from(x), heads = 4, kv_heads = 3)]
    groups: SelfAttention,
}

fn main() {}
