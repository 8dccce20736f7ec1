use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(out = 64)]
    unsaid: Vec<Linear>,
    #[layer(repeat(2), out = 64)]
    said_twice: [Linear; 2],
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct NoVec {
    #[layer(repeat(2), out = 64)]
    one: Linear,
}

fn main() {
    let _ = (Net::new(), NoVec::new());
}
