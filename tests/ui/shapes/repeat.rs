use meganeura::prelude::*;

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
    #[layer(repeat(2))]
    twice: Vec<Halve>,
    #[layer(from(x))]
    array: [Halve; 2],
    #[layer(from(x), repeat(1))]
    once: Vec<Halve>,
    #[layer(residual)]
    same: Halve,
}

fn main() {}
