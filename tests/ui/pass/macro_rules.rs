//! Models written by `macro_rules`.

use meganeura::prelude::*;

macro_rules! perceptron {
    ($name:ident, $first:expr, $($field:ident: $ty:ty = $out:expr),+) => {
        #[derive(Model)]
        #[model(config(scale: usize = 2), input(x: [batch, $first]))]
        struct $name {
            $(
                #[layer(out = scale * $out)]
                $field: $ty,
            )+
            #[layer(repeat(scale), out = 3)]
            many: Vec<Linear>,
        }
    };
}

perceptron!(Small, 4 * 2, a: (Linear, Relu) = 8, b: Linear = 2 + 2);

fn main() {
    let graph = Graph::new();
    let out = Small::new().build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 3]);
    assert_eq!(Small::new().b.out, 8);
    assert_eq!(Small::new().many.len(), 2);
}
