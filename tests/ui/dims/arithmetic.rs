use meganeura::prelude::*;

#[derive(Model)]
#[model(
    input(
        a: [batch % 2],
        b: [10 / batch],
        c: [batch.pow(2)],
        d: [half(batch)],
        e: [-batch],
        f: [batch as usize],
        g: [2.5],
        h: ["batch"],
        i: [if batch > 3 { 1 } else { 2 }],
    ),
)]
struct Net {
    #[layer(from(a))]
    first: Relu,
}

fn main() {}
