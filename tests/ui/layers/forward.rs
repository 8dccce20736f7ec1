use meganeura::prelude::*;

#[derive(Clone, Copy)]
struct NoSelf;

#[layer]
impl Layer for NoSelf {
    const BASE: Self = NoSelf;

    fn forward<'g>(x: Tensor<'g>) -> Tensor<'g> {
        x
    }
}

#[derive(Clone, Copy)]
struct NoTensor;

#[layer]
impl Layer for NoTensor {
    const BASE: Self = NoTensor;

    fn forward(&self) -> u32 {
        3
    }
}

#[derive(Clone, Copy)]
struct NoResult;

#[layer]
impl Layer for NoResult {
    const BASE: Self = NoResult;

    fn forward<'g>(&self, _: Tensor<'g>) -> u32 {
        3
    }
}

fn main() {}
