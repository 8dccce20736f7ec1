//! Layers whose shapes are known only when the graph is built.

use meganeura::prelude::*;

/// Without a shape rule.
#[derive(Clone, Copy, Debug)]
struct Mystery {
    out: usize,
}

#[layer]
impl Layer for Mystery {
    const BASE: Self = Mystery { out: 3 };

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let weight = x.graph().parameter("weight", [x.shape().last(), self.out], Init::Zeros);
        x.matmul(weight)
    }
}

/// The trait as it is, for any number of values.
#[derive(Clone, Copy, Debug)]
struct Sum;

#[layer]
impl Layer for Sum {
    const BASE: Self = Sum;

    fn forward<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        let Some((first, rest)) = inputs.split_first() else {
            return vec![graph.fail("sums at least one value")];
        };
        vec![rest.iter().fold(*first, |sum, other| sum + *other)]
    }
}

#[derive(Model, Debug)]
#[model(input(x: [batch, 8]), output = [batch, 5])]
struct Net {
    #[layer(out = 5)]
    mystery: Mystery,
    #[layer(make = || Box::new(Relu))]
    boxed: Box<dyn Layer>,
    #[layer(from(mystery, boxed, mystery))]
    sum: Sum,
}

fn main() {
    let mut net = Net::new();
    net.boxed = Box::new((Linear { out: 5, bias: true }, Gelu::exact()));
    let graph = Graph::new();
    let out = net.build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 5]);
}
