use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize), input(x: [batch, width]))]
struct Block {
    first: Relu,
}

check!();
check!(Block { widht: 3 });
check!(Block(3));
check!(Block { width = 3 });
check!(Blok { width: 3 });

fn main() {}
