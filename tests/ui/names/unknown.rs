use meganeura::prelude::*;

#[derive(Model)]
#[model(input(tokens: [batch, 64]), output(scores, hiden))]
struct Net {
    #[layer(out = 10)]
    hidden: Linear,
    #[layer(from(tokns))]
    a: Relu,
    #[layer(from(hidden, z))]
    b: Add,
    #[layer(from(scores), add(hidden))]
    c: Relu,
    #[layer(from(d))]
    d: Relu,
    #[layer(out = 10, add(hiddn))]
    scores: Linear,
}

fn main() {
    let _ = Net::new();
}
