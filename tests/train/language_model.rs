//! A small Llama against PyTorch, from numbers that both make of the parameters' names.

use super::{fixture, floats};
use meganeura::ir::random::Stream;
use meganeura::ir::{DType, Graph, Shape, VariableKind};
use meganeura::ops::expand;
use meganeura::prelude::*;
use meganeura::runtime::Session;
use meganeura::train::{Optimizer, add_updates};

const BATCH: usize = 2;
const TIME: usize = 16;

#[derive(Model)]
#[model(config(width: usize = 32), input(x: [batch, time, width]))]
struct Block {
    #[layer(residual, heads = 4, causal = true, rope = Rope::interleaved(10_000.0))]
    attention: PreNorm<SelfAttention>,
    #[layer(residual, hidden = 48)]
    mlp: PreNorm<SwiGlu>,
}

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32), output = [batch, time, 64])]
struct LanguageModel {
    #[layer(rows = 64, width = 32)]
    embed: Embedding,
    #[layer(repeat(2))]
    blocks: Vec<Block>,
    norm: RmsNorm,
    #[layer(out = 64, bias = false)]
    scores: Linear,
}

/// As `language_model.py` starts: norms around 1, tables in ±1, matrices in ±1/√in.
fn start(name: &str, shape: &Shape) -> Vec<f32> {
    let mut values = vec![0.0; shape.elements()];
    Stream::named(0, name).fill_uniform(&mut values);
    for value in &mut values {
        let spread = *value * 2.0 - 1.0;
        *value = match shape.dims() {
            [_] => spread * 0.25 + 1.0,
            _ if name.starts_with("embed") => spread,
            dims => spread * (1.0 / (dims[0] as f64).sqrt()) as f32,
        };
    }
    values
}

fn below(name: &str, bound: u64) -> Vec<u32> {
    let stream = Stream::named(0, name);
    let count = (BATCH * TIME) as u64;
    (0..count).map(|i| stream.below(i, bound) as u32).collect()
}

/// The first losses at a precision and a learning rate.
pub fn losses(device: &Device, precision: Precision, rate: f64, steps: u64) -> Vec<f32> {
    let optimizer = AdamW::new(rate);
    let graph = Graph::new();
    let scores = LanguageModel::new().build(&graph, &[("batch", BATCH), ("time", TIME)])[0];
    let labels = graph.input("label", [BATCH, TIME], DType::U32);
    graph.output("loss", scores.cross_entropy(labels));
    let (graph, _) = expand(&graph);
    add_updates(&graph, &optimizer);
    let mut session = Session::new(device, 0).expect("a session");
    session.precision(precision);
    let step = session.compile(&graph).expect("a step");
    for (variable, _) in graph.variables() {
        if variable.kind == VariableKind::Parameter {
            let values = start(&variable.name, &variable.shape);
            session
                .set_variable(&variable.name, &values)
                .expect("a parameter");
        }
    }
    for (input, name) in [("tokens", "tokens"), ("label", "labels")] {
        session
            .input(step, input, &below(name, 64))
            .expect("an input");
    }
    let mut losses = Vec::new();
    for count in 1..=steps {
        for (name, value) in optimizer.inputs(count) {
            if session.has_input(step, name) {
                session.input(step, name, &[value]).expect("an input");
            }
        }
        session.run(step).expect("a run");
        losses.push(session.output(step, "loss").expect("a loss")[0]);
    }
    losses
}

fn trains_like_pytorch(device: &Device) {
    let reference = fixture("language_model");
    let expected = floats(&reference, "losses");
    let found = losses(device, Precision::F32, 3e-3, expected.len() as u64);
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() < 1e-3 * expected,
            "step {step}: {found}, PyTorch has {expected}"
        );
    }
}

#[test]
fn a_language_model_trains_like_pytorch() {
    trains_like_pytorch(&Device::cpu());
}

#[test]
fn a_language_model_trains_like_pytorch_on_the_gpu() {
    let Some(device) = crate::support::gpu() else {
        return;
    };
    trains_like_pytorch(&device);
}

#[test]
fn a_language_model_trains_the_same_for_any_number_of_threads() {
    let threads =
        |count| Device::cpu_with_threads(std::num::NonZeroUsize::new(count).expect("not zero"));
    let run = |count| losses(&threads(count), Precision::F32, 3e-3, 5);
    assert_eq!(run(1), run(3));
}
