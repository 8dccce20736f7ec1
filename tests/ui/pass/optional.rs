//! Layers that may be absent.

use meganeura::prelude::*;

#[derive(Model)]
#[model(config(width: usize = 8, out: usize = 8), input(x: [batch, width]), output = [batch, out])]
struct Shortcut {
    #[layer(from(x), when(width != out), out = out)]
    shortcut: Option<(Linear, Relu)>,
    #[layer(from(x), out = out, add(shortcut))]
    main: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 8]), output = [batch, 4])]
struct Net {
    same: Shortcut,
    #[layer(out = 4)]
    other: Shortcut,
}

fn main() {
    assert!(Net::new().same.shortcut.is_none());
    assert!(Net::new().other.shortcut.is_some());
    let graph = Graph::new();
    let out = Net::new().build(&graph, &[("batch", 2)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 4]);
}
