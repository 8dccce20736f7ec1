//! What layers compute, against the plainest code that says the same.

#[path = "layers/dropout.rs"]
mod dropout;
#[path = "layers/pytorch.rs"]
mod pytorch;
#[path = "layers/rules.rs"]
mod rules;
mod support;

use meganeura::ir::Array;
use meganeura::ops::evaluate_nodes;
use meganeura::prelude::*;
use std::collections::HashMap;

/// Some numbers that look like none in particular.
fn numbers(shape: &Shape, seed: f64) -> Array {
    let mut count = seed;
    Array::from_fn(shape, |_| {
        count += 1.0;
        (count * 12.9898).sin()
    })
}

/// What a layer makes of `x`, in double precision, and the values it was given.
fn run(layer: &dyn Layer, x: [usize; 3]) -> (Array, HashMap<String, Array>) {
    let graph = Graph::new();
    let out = layer.forward(&graph, &[graph.input("x", x, DType::F32)]);
    assert_eq!(graph.errors(), []);
    let mut leaves = HashMap::from([("x".to_owned(), numbers(&Shape::from(x), 0.0))]);
    for (index, (variable, _)) in graph.variables().into_iter().enumerate() {
        let values = numbers(&variable.shape, 100.0 * (index + 1) as f64);
        leaves.insert(variable.name, values);
    }
    let values = evaluate_nodes(&graph, &leaves, &[out[0].id()]);
    (values[0].clone(), leaves)
}

/// Attention written out. `pair` tells the number of the pair that each place of a head is in, and the
/// places of that pair.
fn attention(
    layer: SelfAttention,
    leaves: &HashMap<String, Array>,
    [batch, time, width]: [usize; 3],
    pair: impl Fn(usize) -> (usize, usize, usize),
) -> Array {
    let head = width / layer.heads;
    let group = layer.heads.checked_div(layer.kv_heads).unwrap_or(1);
    let project = |name: &str, b: usize, t: usize, column: usize| -> f64 {
        let weight = &leaves[&format!("{name}.weight")];
        (0..width)
            .map(|i| leaves["x"].at(&[b, t, i]) * weight.at(&[i, column]))
            .sum()
    };
    let rotated = |name: &str, b: usize, t: usize, h: usize, i: usize| {
        let (number, first, second) = pair(i);
        let angle = t as f64 * 100f64.powf(-(number as f64) / (head / 2) as f64);
        let at = |i| project(name, b, t, h * head + i);
        if i == first {
            at(first) * angle.cos() - at(second) * angle.sin()
        } else {
            at(second) * angle.cos() + at(first) * angle.sin()
        }
    };
    let mixed = Array::from_fn(&Shape::from([batch, time, width]), |index| {
        let (b, t, h, i) = (index[0], index[1], index[2] / head, index[2] % head);
        let seen = if layer.causal { 0..=t } else { 0..=time - 1 };
        let scores: Vec<f64> = seen
            .clone()
            .map(|s| {
                let products = (0..head)
                    .map(|i| rotated("query", b, t, h, i) * rotated("key", b, s, h / group, i));
                (products.sum::<f64>() / (head as f64).sqrt()).exp()
            })
            .collect();
        let total: f64 = scores.iter().sum();
        let values = seen.map(|s| project("value", b, s, h / group * head + i));
        values
            .zip(scores)
            .map(|(value, score)| value * score / total)
            .sum()
    });
    let out = &leaves["out.weight"];
    Array::from_fn(&Shape::from([batch, time, width]), |index| {
        let sum = (0..width).map(|i| mixed.at(&[index[0], index[1], i]) * out.at(&[i, index[2]]));
        sum.sum()
    })
}

#[test]
fn attention_is_what_it_says() {
    let shape = [2, 5, 16];
    let neighbours = |i: usize| (i / 2, i / 2 * 2, i / 2 * 2 + 1);
    let halves = |half: usize| move |i: usize| (i % half, i % half, i % half + half);
    let base = SelfAttention {
        heads: 2,
        kv_heads: 0,
        causal: true,
        rope: Rope::interleaved(100.0),
        score_matrix: false,
        bias: Biases::None,
    };
    let close = |layer: SelfAttention, expected: &dyn Fn(&HashMap<String, Array>) -> Array| {
        let (found, leaves) = run(&layer, shape);
        let expected = expected(&leaves);
        let off = found.zip(&expected, |a, b| (a - b).abs());
        let worst = off.data.iter().copied().fold(0.0, f64::max);
        assert!(worst < 1e-9, "{layer:?} is {worst} off");
    };
    close(base, &|leaves| attention(base, leaves, shape, neighbours));
    let by_primitives = SelfAttention {
        score_matrix: true,
        ..base
    };
    close(by_primitives, &|leaves| {
        attention(base, leaves, shape, neighbours)
    });
    let grouped = SelfAttention {
        heads: 4,
        kv_heads: 2,
        causal: false,
        rope: Rope::halves(100.0),
        score_matrix: false,
        bias: Biases::None,
    };
    for score_matrix in [false, true] {
        let layer = SelfAttention {
            score_matrix,
            ..grouped
        };
        close(layer, &|leaves| {
            attention(grouped, leaves, shape, halves(2))
        });
    }
}

#[test]
fn attention_needs_heads_that_fit() {
    let graph = Graph::new();
    let x = Shapes::one(Dims::of(&[Dim::free("batch"), Dim::free("time"), Dim::of(64)]).named("x"));
    let said = |change: fn(&mut SelfAttention)| {
        let mut layer = SelfAttention::from_config(SelfAttention::BASE);
        change(&mut layer);
        Layer::shape(&layer, &x).problem().to_string()
    };
    assert_eq!(
        said(|layer| layer.heads = 5),
        "cannot split width 64 into 5 heads"
    );
    assert_eq!(
        said(|layer| (layer.heads, layer.kv_heads) = (4, 3)),
        "cannot share 3 key heads among 4 heads"
    );
    assert_eq!(
        said(|layer| (layer.heads, layer.rope) = (64, Rope::halves(10.0))),
        "cannot split width 64 into 64 heads of pairs to rotate"
    );
    assert_eq!(said(|layer| layer.heads = 8), "");
    assert_eq!(graph.errors(), []);
}
