use meganeura::prelude::*;

fn width() -> usize {
    std::env::args().count()
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    #[layer(out = width())]
    a: Linear,
}

fn main() {
    let _ = Net::new();
}
