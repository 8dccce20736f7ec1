//! Training with what a step keeps rounded to bf16.

use meganeura::ir::random::Stream;
use meganeura::ir::{DType, Graph};
use meganeura::ops::expand;
use meganeura::plan::{Plan, Role};
use meganeura::prelude::*;
use meganeura::runtime::Session;
use meganeura::schedule::kernel::Action;
use meganeura::train::{Optimizer, add_updates};

const BATCH: usize = 8;
const TIME: usize = 64;
const TOKENS: u64 = 64;

#[derive(Model)]
#[model(config(width: usize = 64), input(x: [batch, time, width]))]
struct Block {
    #[layer(residual, heads = 4, causal = true, rope = Rope::interleaved(10_000.0))]
    attention: PreNorm<SelfAttention>,
    #[layer(residual, hidden = 128)]
    mlp: PreNorm<SwiGlu>,
}

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32), output = [batch, time, 64])]
struct LanguageModel {
    #[layer(rows = 64, width = 64)]
    embed: Embedding,
    #[layer(repeat(2))]
    blocks: Vec<Block>,
    norm: RmsNorm,
    #[layer(out = 64, bias = false)]
    scores: Linear,
}

/// Sequences in which four tokens may follow each, and what follows.
fn batch(number: u64) -> [Vec<u32>; 2] {
    let stream = Stream::named(number, "tokens");
    let (mut tokens, mut labels) = (Vec::new(), Vec::new());
    for sequence in 0..BATCH as u64 {
        let mut token = stream.below(sequence * 1000, TOKENS);
        for time in 0..TIME as u64 {
            tokens.push(token as u32);
            token = (token * 5 + stream.below(sequence * 1000 + time + 1, 4)) % TOKENS;
            labels.push(token as u32);
        }
    }
    [tokens, labels]
}

/// The losses of some steps, and the plan of one.
fn losses(device: &Device, precision: Precision, steps: u64) -> (Vec<f32>, Plan) {
    let optimizer = AdamW::new(3e-3);
    let graph = Graph::new();
    let scores = LanguageModel::new().build(&graph, &[("batch", BATCH), ("time", TIME)])[0];
    let labels = graph.input("label", [BATCH, TIME], DType::U32);
    graph.output("loss", scores.cross_entropy(labels));
    let (graph, _) = expand(&graph);
    add_updates(&graph, &optimizer);
    let mut session = Session::new(device, 0).expect("a session");
    session.precision(precision);
    let step = session.compile(&graph).expect("a step");
    let mut losses = Vec::new();
    for count in 1..=steps {
        for (name, values) in ["tokens", "label"].into_iter().zip(batch(count)) {
            session.input(step, name, &values).expect("an input");
        }
        for (name, value) in optimizer.inputs(count) {
            if session.has_input(step, name) {
                session.input(step, name, &[value]).expect("an input");
            }
        }
        session.run(step).expect("a run");
        losses.push(session.output(step, "loss").expect("a loss")[0]);
    }
    let plan = session.plan(step).clone();
    (losses, plan)
}

fn assert_near(found: &[f32], expected: &[f32]) {
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() < 0.01 * expected,
            "step {step}: {found} instead of {expected}"
        );
    }
}

#[test]
fn the_loss_goes_as_that_of_floats() {
    let [floats, halves] =
        [Precision::F32, Precision::BF16].map(|precision| losses(&Device::cpu(), precision, 120).0);
    println!("{:?} {:?}", floats.last(), halves.last());
    assert!(floats.last() < Some(&2.0), "it learns: {floats:?}");
    assert_near(&halves, &floats);
}

#[test]
fn the_gpu_rounds_alike() {
    let Some(device) = crate::support::gpu() else {
        return;
    };
    let [cpu, gpu] = [&Device::cpu(), &device].map(|device| losses(device, Precision::BF16, 4).0);
    assert_near(&gpu, &cpu);
}

#[test]
fn what_must_be_exact_is_kept_exactly() {
    let (_, plan) = losses(&Device::cpu(), Precision::BF16, 1);
    let halves = plan
        .buffers
        .iter()
        .filter(|buffer| buffer.dtype == DType::BF16);
    assert!(halves.clone().count() > 20, "{plan}");
    for buffer in halves {
        assert!(matches!(buffer.role, Role::Temporary { .. }), "{buffer:?}");
    }
    for kernel in &plan.kernels {
        let sums = match &kernel.action {
            Action::Loop(kernel) => &kernel.body.accumulates,
            Action::Contract(kernel) => &kernel.epilogue.accumulates,
            _ => continue,
        };
        for sum in sums {
            assert_eq!(
                plan.buffer(sum.access.buffer).dtype,
                DType::F32,
                "{}",
                kernel.name
            );
        }
    }
}
