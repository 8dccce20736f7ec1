use meganeura::prelude::*;

struct Tokenizer;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    tokenizer: Tokenizer,
}

fn main() {
    let _ = Net::new();
}
