use meganeura::prelude::*;

#[derive(Model)]
#[model(input(image: [batch, 3, 4, 5]), output = [batch, 61])]
struct Net {
    flat: Flatten,
}

#[derive(Model)]
#[model(input(image: [batch, channels, 4, 5], flat: [batch, 20]))]
struct Free {
    #[layer(from(image))]
    flatten: Flatten,
    #[layer(from(flatten, flat))]
    sum: Add,
}

fn main() {}
