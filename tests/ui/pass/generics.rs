//! Types and numbers as parameters, with bounds and defaults.

use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, WIDTH]), output = [batch, WIDTH])]
struct Mlp<const WIDTH: usize, A: Layer = Relu>
where
    A: Send,
{
    #[layer(out = 2 * WIDTH)]
    up: Linear,
    activation: A,
    #[layer(residual, out = 2 * WIDTH)]
    middle: Linear,
    #[layer(out = WIDTH, add(x))]
    down: Linear,
}

#[derive(Model)]
#[model(config = L::Config, input(x))]
struct Twice<L: Layer> {
    #[layer(..config)]
    first: L,
    #[layer(..config)]
    second: L,
}

#[derive(Model)]
enum Either<A: Layer, B: Layer> {
    Left(A),
    Right(B),
}

#[derive(Model)]
#[model(input(x: [batch, 8]), output = [batch, 8])]
struct Net {
    narrow: Mlp<8>,
    other: Mlp<8, (Gelu, Tanh)>,
    #[layer(out = 8)]
    twice: Twice<PreNorm<Linear, LayerNorm>>,
    array: [Mlp<8>; 2],
    either: Either<Relu, Twice<Relu>>,
}

check!(Mlp<32, Gelu>);
check!(Twice<Linear> { out: 3 });

fn main() {
    let graph = Graph::new();
    let out = Net::new().build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 8]);
    let graph = Graph::new();
    let out = Mlp::<4>::new().build(&graph, &[("batch", 2)]);
    assert_eq!(out[0].shape().dims(), [2, 4]);
}
