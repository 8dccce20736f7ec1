use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    title: String,
    size: usize,
    borrowed: &'static Linear,
    nothing: (),
    pair: (Linear, f32),
    #[layer(repeat(3))]
    many: Vec<u8>,
    #[layer(out = 3)]
    good: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
union Both {
    linear: Linear,
    relu: Relu,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Nothing;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Borrowing<'a> {
    layer: Relu,
    #[layer(skip)]
    name: &'a str,
}

fn main() {
    let _ = Net::new();
}
