//! Layers of one's own, of all kinds.

use meganeura::prelude::*;

/// Generic, with a number of outputs that is a parameter.
#[derive(Clone, Copy, Debug)]
struct Copies<const N: usize>;

#[layer]
impl<const N: usize> Layer for Copies<N> {
    const BASE: Self = Copies;

    fn shape(&self, x: &Shapes) -> Shapes {
        let mut shapes = Shapes::NONE;
        let mut index = 0;
        while index < N {
            shapes = shapes.push(x.first());
            index += 1;
        }
        shapes
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> [Tensor<'g>; N] {
        [x; N]
    }
}

/// With named outputs.
#[derive(Clone, Copy, Debug)]
struct Extremes;

#[layer]
impl Layer for Extremes {
    const BASE: Self = Extremes;

    fn output_names(&self) -> &'static [&'static str] {
        &["low", "high"]
    }

    fn forward<'g>(&self, a: Tensor<'g>, b: Tensor<'g>) -> (Tensor<'g>, Tensor<'g>) {
        if a.shape() != b.shape() {
            let wrong = a.graph().fail("takes two values of the same shape");
            return (wrong, wrong);
        }
        (a.minimum(b), a.maximum(b))
    }
}

#[derive(Model)]
#[model(input(x: [batch, 8]), output(low: [batch, 8], high))]
struct Net {
    copies: Copies<2>,
    extremes: Extremes,
    #[layer(from(extremes.low))]
    low: Relu,
    #[layer(from(extremes.1))]
    high: Relu,
    #[layer(from(x))]
    eight: Copies<8>,
    #[layer(from(eight.7, eight.0))]
    sum: Add,
}

fn main() {
    let graph = Graph::new();
    let out = Net::new().build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out.len(), 2);
    assert_eq!(out[1].shape().dims(), [2, 8]);
}
