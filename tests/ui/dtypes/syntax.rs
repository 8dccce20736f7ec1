use meganeura::prelude::*;

#[derive(Model)]
#[model(input(tokens: [batch, time] as, x: [batch] as u32 u32), output = [batch] as 3)]
struct Net {
    #[layer(from(x))]
    same: Flatten,
}

fn main() {}
