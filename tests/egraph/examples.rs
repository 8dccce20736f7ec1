//! The models of the examples: forward and backward, however their graph is rewritten.

use std::collections::HashMap;

use meganeura::ir::{Array, DType, Domain, Graph};
use meganeura::model::Model;
use meganeura::ops::evaluate;
use meganeura::runtime::{Device, Session};

use super::support::{ALL, Random, draw};
use super::workload_models::with_gradients;
use crate::{digits, mnist, mnist_cnn};

const BATCH: usize = 3;

/// Loss, scores and the gradients of all parameters.
fn graph(model: &impl Model) -> Graph {
    let graph = Graph::new();
    let scores = model.build(&graph, &[("batch", BATCH)])[0];
    let labels = graph.input("label", [BATCH], DType::U32);
    graph.output("scores", scores);
    graph.output("loss", scores.cross_entropy(labels));
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    with_gradients(&graph)
}

/// Every result on the processor is the oracle's to 1e-5, whichever way it is rewritten.
fn holds(name: &str, model: &impl Model) {
    let graph = graph(model);
    let mut expected: Option<Vec<Array>> = None;
    for rewrites in ALL {
        let mut session = Session::with_rewrites(&Device::cpu(), 5, rewrites).expect("a processor");
        let step = session.compile(&graph).expect("it compiles");
        let mut leaves = HashMap::new();
        for (input, id) in graph.inputs() {
            let shape = graph.tensor(id).shape();
            let array = match graph.tensor(id).dtype() {
                DType::U32 => draw(&shape, Domain::Indices(10), &mut Random::new(7)),
                _ => draw(&shape, Domain::Uniform(0.0, 1.0), &mut Random::new(8)),
            };
            let floats: Vec<f32> = array.data.iter().map(|&x| x as f32).collect();
            let given = match graph.tensor(id).dtype() {
                DType::U32 => {
                    let integers: Vec<u32> = array.data.iter().map(|&x| x as u32).collect();
                    session.input(step, &input, &integers)
                }
                _ => session.input(step, &input, &floats),
            };
            given.expect("an input");
            leaves.insert(input, Array::new(shape, widened(&floats)));
        }
        for (variable, _) in graph.variables() {
            let values = session.variable(&variable.name).expect("a variable");
            let array = Array::new(variable.shape.clone(), widened(&values));
            leaves.insert(variable.name, array);
        }
        session.run(step).expect("it runs");
        let wanted = expected.get_or_insert_with(|| {
            let values = evaluate(&graph, &leaves);
            let outputs = graph.outputs().into_iter();
            outputs.map(|(_, id)| values[id.index()].clone()).collect()
        });
        assert!(wanted.len() > 5, "{name}: gradients of all parameters");
        for ((output, _), wanted) in graph.outputs().into_iter().zip(wanted.iter()) {
            let found = session.output(step, &output).expect("an output");
            let size = wanted.data.iter().map(|x| x * x).sum::<f64>().sqrt();
            let off = found.iter().zip(&wanted.data);
            let off: f64 = off.map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
            let error = off.sqrt() / size;
            assert!(error <= 1e-5, "{name}, {rewrites:?}, `{output}`: {error:e}");
        }
    }
}

fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

#[test]
fn digits_stay_equal() {
    holds("digits", &digits::Digits::new());
}

#[test]
fn mnist_stays_equal() {
    holds("mnist", &mnist::Classifier::new());
}

#[test]
fn convolutions_on_mnist_stay_equal() {
    holds("mnist_cnn", &mnist_cnn::Classifier::new());
}
