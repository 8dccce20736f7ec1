use meganeura::prelude::*;

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32, x: [batch, time]))]
struct Net {
    #[layer(from(tokens), out = 3)]
    linear: Linear,
    #[layer(from(x), rows = 100, width = 64)]
    embed: Embedding,
    #[layer(from(tokens))]
    relu: Relu,
    #[layer(from(x))]
    child: Child,
}

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32))]
struct Child {
    #[layer(rows = 100, width = 64)]
    embed: Embedding,
}

#[derive(Model)]
#[model(input(tokens: [batch] as i32, x: [batch] as f64, y: [batch] as complex))]
struct Unknown {
    #[layer(from(x))]
    same: Relu,
}

fn main() {
    let _ = (Net::new(), Child::new(), Unknown::new());
}
