//! Dropout: the share, the scale, the gradient, and the same choice everywhere.

use std::collections::HashMap;

use crate::support;
use meganeura::autodiff::gradients;
use meganeura::ir::Array;
use meganeura::ops::{evaluate_nodes, expand};
use meganeura::prelude::*;
use meganeura::runtime::{Session, StepId};

const SHAPE: [usize; 3] = [8, 25, 100];

/// What is made of ones, and its gradient.
fn graph(layer: Dropout) -> Graph {
    let graph = Graph::training();
    let x = graph.input("x", SHAPE, DType::F32);
    let out = graph.scoped("drop", || layer.forward(&graph, &[x]))[0];
    graph.output("out", out);
    let (graph, _) = expand(&graph);
    let [(_, out), (_, x)] = [graph.outputs(), graph.inputs()].map(|list| list[0].clone());
    let seed = graph.constant(3.0);
    let gradient = gradients(&[(graph.tensor(out), seed)], &[graph.tensor(x)])[0];
    graph.output("gradient", gradient);
    assert_eq!(graph.errors(), []);
    graph
}

fn session(graph: &Graph, device: &Device, seed: u64) -> (Session, StepId) {
    let mut session = Session::new(device, seed).unwrap();
    let step = session.compile(graph).unwrap();
    let ones = vec![1.0f32; SHAPE.iter().product()];
    session.input(step, "x", &ones).unwrap();
    (session, step)
}

fn run((session, step): &mut (Session, StepId), output: &str) -> Vec<f32> {
    session.run(*step).unwrap();
    session.output(*step, output).unwrap()
}

#[test]
fn the_share_and_the_scale_are_right() {
    let graph = graph(Dropout { rate: 0.2 });
    let mut on_cpu = session(&graph, &Device::cpu(), 5);
    let first = run(&mut on_cpu, "out");
    let gradient = on_cpu.0.output(on_cpu.1, "gradient").unwrap();
    assert!(first.iter().all(|&value| value == 0.0 || value == 1.25));
    assert!(first.iter().zip(&gradient).all(|(out, g)| *g == 3.0 * out));
    // 20 000 draws: five deviations are 0.014.
    let kept = first.iter().filter(|value| **value > 0.0).count() as f64 / first.len() as f64;
    assert!((kept - 0.8).abs() < 0.014, "{kept} are kept");
    // Neighbours along any axis have nothing to do with each other.
    for shift in [1, 100, 2500] {
        let pairs = first.iter().zip(&first[shift..]);
        let both = pairs.filter(|(a, b)| **a > 0.0 && **b > 0.0).count();
        let both = both as f64 / (first.len() - shift) as f64;
        assert!((both - 0.64).abs() < 0.02, "{both} with the one {shift} on");
    }
    // Every step and every seed drops others; a seed drops the same again.
    let second = run(&mut on_cpu, "out");
    assert_ne!(first, second);
    assert_ne!(first, run(&mut session(&graph, &Device::cpu(), 6), "out"));
    let mut again = session(&graph, &Device::cpu(), 5);
    assert_eq!(first, run(&mut again, "out"));
    if let Some(gpu) = support::gpu() {
        let mut on_gpu = session(&graph, &gpu, 5);
        assert_eq!(first, run(&mut on_gpu, "out"));
        assert_eq!(second, run(&mut on_gpu, "out"));
    }
    // And the oracle agrees.
    let seed = again.0.variable("drop.seed").unwrap()[0];
    let leaves = HashMap::from([
        ("x".to_owned(), Array::from_fn(&Shape::from(SHAPE), |_| 1.0)),
        (
            "drop.seed".to_owned(),
            Array::new([], vec![f64::from(seed)]),
        ),
        ("drop.step".to_owned(), Array::new([], vec![0.0])),
    ]);
    let out = graph.outputs()[0].1;
    let expected = &evaluate_nodes(&graph, &leaves, &[out])[0];
    assert!(
        expected
            .data
            .iter()
            .zip(&first)
            .all(|(a, b)| *a as f32 == *b)
    );
}

#[test]
fn nothing_is_dropped_in_evaluation_or_at_rate_0() {
    for (graph, rate) in [(Graph::new(), 0.9), (Graph::training(), 0.0)] {
        let x = graph.input("x", SHAPE, DType::F32);
        let out = Dropout { rate }.forward(&graph, &[x])[0];
        assert_eq!(out.id(), x.id());
        assert!(graph.variables().is_empty() && graph.updates().is_empty());
    }
    let x = Shapes::one(Dims::of(&[Dim::of(4)]));
    let said = Layer::shape(&Dropout { rate: 1.0 }, &x);
    assert_eq!(said.problem().as_str(), "needs a rate from 0 to below 1");
}

#[test]
fn a_tensor_too_large_to_count_is_dropped_row_by_row() {
    let graph = Graph::training();
    let x = graph.input("x", [4, 1 << 23], DType::F32);
    let out = Dropout::BASE.forward(&graph, &[x])[0];
    assert_eq!(graph.errors(), []);
    assert_eq!(out.shape().dims(), [4, 1 << 23]);
}
