use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]), output = [batch, 10])]
struct Net {
    #[layer(out = 11)]
    scores: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 64]), output(scores: [batch, 10], hidden: [batch, 32]))]
struct Two {
    #[layer(out = 33)]
    hidden: Linear,
    #[layer(out = 10)]
    scores: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, time]), output = [batch, tiem])]
struct Misspelt {
    same: Relu,
}

fn main() {
    let _ = (Net::new(), Two::new(), Misspelt::new());
}
