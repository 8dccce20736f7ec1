use meganeura::prelude::*;

#[derive(Model)]
struct Net {
    #[layer(out = 10)]
    scores: Linear,
}

#[derive(Model)]
#[model(input())]
struct Empty {
    #[layer(out = 10)]
    scores: Linear,
}

fn main() {
    let _ = (Net::new(), Empty::new());
}
