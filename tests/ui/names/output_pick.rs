use meganeura::prelude::*;

#[derive(Clone, Copy)]
struct Split;

#[layer]
impl Layer for Split {
    const BASE: Self = Split;

    const fn shape(&self, x: &Shapes) -> Shapes {
        Shapes::many(&[x.first(), x.first()])
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> [Tensor<'g>; 2] {
        [x, x]
    }
}

#[derive(Model)]
#[model(input(x: [batch, 64]), output(one = first, two = second))]
struct Child {
    first: Relu,
    second: Relu,
}

#[derive(Model)]
#[model(input(x: [batch, 64]))]
struct Net {
    split: Split,
    #[layer(from(split.2))]
    third: Relu,
    #[layer(from(x))]
    child: Child,
    #[layer(from(child.thre))]
    named: Relu,
    #[layer(from(third.1))]
    single: Relu,
}

fn main() {}
