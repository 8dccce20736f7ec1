//! Names, numbers, constants and arithmetic in shapes.

use meganeura::prelude::*;

const WIDTH: usize = 6;

mod sizes {
    pub const fn double(n: usize) -> usize {
        2 * n
    }
    pub const OUT: usize = 3;
}

#[derive(Model)]
#[model(
    config(heads: usize = 2, head: usize = 3),
    input(
        x: [batch, 2 * time - 1, heads * head],
        y: [batch, time, WIDTH],
        z: [(batch + 1) * 2, sizes::double(WIDTH), 2 * sizes::OUT, heads * 3],
    ),
    output = [batch, 2 * time - 1, WIDTH / 2],
)]
struct Net {
    #[layer(from(y))]
    unused: Relu,
    #[layer(from(z))]
    also: Relu,
    #[layer(from(x), out = heads + 1)]
    linear: Linear,
}

fn main() {
    let graph = Graph::new();
    let out = Net::new().build(&graph, &[("batch", 2), ("time", 4), ("heads", 2), ("head", 3)]);
    assert_eq!(graph.errors().iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(out[0].shape().dims(), [2, 7, 3]);
}
