use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 8]))]
struct Net<'a, 'b, A: Layer> {
    first: A,
    #[layer(skip)]
    names: Option<(&'a str, &'b str)>,
}

fn main() {}
