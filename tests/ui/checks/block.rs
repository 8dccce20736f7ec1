use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize, hidden: usize), input(x: [batch, width]), output = [batch, 4])]
struct Block {
    #[layer(out = hidden)]
    first: Linear,
    #[layer(out = 4, add(x))]
    second: Linear,
}

check!(Block { width: 4, hidden: 8 });
check!(Block { width: 5, hidden: 8 });
check!(Block { width: 4 });
check!(Block);
check!(Linear { out: 3 });
check!(Linear);

fn main() {}
