//! Settings are constant expressions of any kind.

use meganeura::prelude::*;

const WIDTH: usize = 16;
static NAME: &str = "net";

struct Sizes;

impl Sizes {
    const HIDDEN: usize = 2 * WIDTH;
}

trait Depth {
    const DEPTH: usize;
}

impl Depth for Sizes {
    const DEPTH: usize = 3;
}

const fn largest(sizes: &[usize]) -> usize {
    let mut largest = 0;
    let mut index = 0;
    while index < sizes.len() {
        if sizes[index] > largest {
            largest = sizes[index];
        }
        index += 1;
    }
    largest
}

#[derive(Model)]
#[model(config(scale: usize = WIDTH / 8, deep: bool = NAME_IS_LONG), input(x: [batch, WIDTH]), output = [batch, 7])]
struct Net<const N: usize> {
    #[layer(out = Sizes::HIDDEN)]
    a: Linear,
    #[layer(out = largest(&[3, N, 5]), bias = N > 3)]
    b: Linear,
    #[layer(out = { let half = scale / 2; half + 1 })]
    c: Linear,
    #[layer(out = if deep { 9 } else { scale * N })]
    d: Linear,
    #[layer(repeat(<Sizes as Depth>::DEPTH), out = match N { 0 => 1, n => n })]
    e: Vec<Linear>,
    #[layer(out = 'a' as usize - b'Z' as usize)]
    f: Linear,
}

const NAME_IS_LONG: bool = 3 > 8;

fn main() {
    assert_eq!(NAME.len(), 3);
    let net = Net::<4>::new();
    let widths = [net.a.out, net.b.out, net.c.out, net.d.out, net.e[2].out, net.f.out];
    assert_eq!(widths, [32, 5, 2, 8, 4, 7]);
    assert!(net.summary(&[("batch", 1)]).is_ok());
}
