use meganeura::prelude::*;

#[derive(Clone, Copy)]
struct Misspelt;

#[layer]
impl Layer for Misspelt {
    const BSAE: Self = Misspelt;

    const fn shpae(&self, x: &Shapes) -> Shapes {
        x.same()
    }

    fn forwards<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        x
    }
}

#[derive(Clone, Copy)]
struct Nothing;

#[layer]
impl Layer for Nothing {}

#[layer]
struct Struct;

#[layer]
impl Clone for Nothing {
    fn clone(&self) -> Self {
        Nothing
    }
}

fn main() {}
