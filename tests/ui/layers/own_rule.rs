use meganeura::prelude::*;

/// Halves the last axis by adding neighbours.
#[derive(Clone, Copy)]
struct Halve;

#[layer]
impl Layer for Halve {
    const BASE: Self = Halve;

    const fn shape(&self, x: &Shapes) -> Shapes {
        let x = x.first();
        match x.last().value() {
            Some(width) if width % 2 == 1 => Shapes::fail(Message::new("cannot halve ").dims(&x)),
            _ => Shapes::one(x.with_last(x.last().over(2))),
        }
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        x
    }
}

#[derive(Model)]
#[model(input(x: [batch, 6]))]
struct Net {
    once: Halve,
    twice: Halve,
    #[layer(from(x, x))]
    two: Halve,
}

fn main() {
    let _ = Net::new();
}
