//! When a graph is built, the same rules speak in the same words.

use meganeura::prelude::*;

#[derive(Model)]
#[model(input(x: [batch, 8]), output = [batch, 4])]
struct Inner {
    #[layer(out = 4)]
    first: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, time, 8], y: [batch, time, 4]))]
struct Net {
    #[layer(from(x), residual, out = 8)]
    first: Linear,
    #[layer(from(first, x))]
    sum: Add,
    #[layer(out = 4, add(y))]
    last: Linear,
}

fn errors(build: impl Fn(&Graph)) -> Vec<String> {
    let graph = Graph::new();
    build(&graph);
    graph.errors().iter().map(ToString::to_string).collect()
}

fn main() {
    let dims = [("batch", 2), ("time", 3)];
    assert!(errors(|graph| drop(Net::new().build(graph, &dims))).is_empty());

    let mut net = Net::new();
    net.first.out = 7;
    net.last.out = 5;
    assert_eq!(
        errors(|graph| drop(net.build(graph, &dims))),
        ["first: is residual but turns [2, 3, 8] (`x`) into [2, 3, 7]"]
    );
    net.first.out = 8;
    assert_eq!(
        errors(|graph| drop(net.build(graph, &dims))),
        ["last: adds [2, 3, 4] (`y`) to its [2, 3, 5]"]
    );

    let mut inner = Inner::new();
    inner.first.out = 5;
    assert_eq!(
        errors(|graph| drop(inner.build(graph, &[("batch", 2)]))),
        ["puts out [2, 5] (`first`) but declares output = [2, 4]"]
    );

    assert_eq!(
        errors(|graph| drop(Net::new().build(graph, &[("bacth", 2), ("time", 3)]))),
        [
            "no input has a free dim `bacth`: did you mean `batch`?",
            "the free dim `batch` has no number: bind it, as in &[(\"batch\", 32)]"
        ]
    );
    assert_eq!(
        errors(|graph| drop(Net::new().build(graph, &[]))),
        ["the free dims `batch`, `time` have no number: bind them, as in &[(\"batch\", 32), (\"time\", 32)]"]
    );
    assert_eq!(
        errors(|graph| {
            let x = graph.input("x", [2, 3, 8], DType::F32);
            let y = graph.input("y", [2, 4, 4], DType::F32);
            let _ = Net::new().forward(graph, &[x, y]);
        }),
        ["takes `y`: [batch, time, 4] but is given [2, 4, 4]: `time` is 3 and 4"]
    );
    assert_eq!(
        errors(|graph| {
            let x = graph.input("x", [2, 3, 8], DType::U32);
            let _ = Net::new().forward(graph, &[x]);
        }),
        ["takes 2 values but is given 1: write `from(a, b)`"]
    );
}
