//! Well-known models, each in a screen of structs: their sizes are those that were published, and
//! they train on every device.

#[path = "models/images.rs"]
mod images;
#[path = "models/plain_data.rs"]
mod plain_data;
#[path = "models/recompute.rs"]
mod recompute;
#[path = "models/sequences.rs"]
mod sequences;
mod support;

use images::{LeNet, ResNet18, UNet};
use meganeura::autodiff;
use meganeura::ops::expand;
use meganeura::prelude::*;
use meganeura::runtime::{Session, StepId};
use meganeura::train::{Optimizer, add_updates};
use sequences::{Bert, Gpt, Llama, Whisper};

const RATE: f64 = 0.01;

type Dims<'a> = &'a [(&'a str, usize)];

/// What is trained and what is not, without a number of it being made.
fn sizes(model: &impl Model, dims: Dims) -> (usize, usize) {
    let summary = model
        .summary(dims)
        .unwrap_or_else(|errors| panic!("{errors:#?}"));
    let trained = summary.trained();
    (trained, summary.parameters() - trained)
}

#[test]
fn sizes_are_those_that_were_published() {
    let image: Dims = &[("batch", 1), ("height", 224), ("across", 224)];
    assert_eq!(sizes(&LeNet::new(), &[("batch", 1)]), (61_706, 0));
    assert_eq!(sizes(&ResNet18::new(), image), (11_689_512, 9_600));
    // As torch counts the PyTorch implementation by milesial with bilinear upsampling.
    let image: Dims = &[("batch", 1), ("h", 16), ("w", 16)];
    assert_eq!(sizes(&UNet::new(), image), (17_263_042, 8_832));
    let text: Dims = &[("batch", 1), ("time", 128)];
    assert_eq!(sizes(&Gpt::new(), text), (124_439_808, 0));
    assert_eq!(sizes(&Llama::new(), text), (1_235_814_400, 0));
    assert_eq!(sizes(&Bert::new(), text), (109_482_240, 0));
    let sound: Dims = &[("batch", 1), ("frames", 3000), ("mels", 80), ("time", 8)];
    assert_eq!(sizes(&Whisper::new(), sound), (37_184_640, 1500 * 384));
}

/// A training graph that makes the first output small.
fn training_graph(model: &impl Model, dims: Dims) -> Graph {
    let graph = Graph::training();
    let out = model.build(&graph, dims)[0];
    assert_eq!(graph.errors(), []);
    graph.output("loss", (out - 1.0).square().mean_all());
    let (graph, _) = expand(&graph);
    let forward = graph.nodes().len();
    add_updates(&graph, &Sgd::new(RATE));
    let graph = autodiff::recompute(graph, forward);
    assert_eq!(graph.errors(), []);
    graph
}

fn compile(graph: &Graph, device: &Device) -> (Session, StepId) {
    let mut session = Session::new(device, 1).unwrap();
    let step = session
        .compile(graph)
        .unwrap_or_else(|error| panic!("{error}"));
    let rates = Sgd::new(RATE).inputs(1);
    for (name, id) in graph.inputs() {
        let ty = graph.tensor(id).ty();
        let count = ty.shape.elements();
        match ty.dtype {
            DType::U32 => {
                let integers: Vec<u32> = (0..count).map(|i| (i * 7 % 3 % 2) as u32).collect();
                session.input(step, &name, &integers)
            }
            _ if rates.iter().any(|(rate, _)| *rate == name) => {
                session.input(step, &name, &[RATE as f32])
            }
            _ => {
                let floats: Vec<f32> = (0..count).map(|i| (i as f32 * 0.37).sin()).collect();
                session.input(step, &name, &floats)
            }
        }
        .unwrap();
    }
    (session, step)
}

/// The losses of some steps on the same batch.
fn losses(session: &mut Session, step: StepId, count: usize) -> Vec<f32> {
    let mut losses = Vec::new();
    for _ in 0..count {
        session.run(step).unwrap();
        losses.push(session.output(step, "loss").unwrap()[0]);
    }
    losses
}

fn trains(name: &str, model: &impl Model, dims: Dims) {
    let graph = training_graph(model, dims);
    let run = |device: &Device| {
        let (mut session, step) = compile(&graph, device);
        losses(&mut session, step, 3)
    };
    let found = run(&Device::cpu());
    let finite = found.iter().all(|loss| loss.is_finite());
    assert!(finite && found[2] < found[0], "{name}: {found:?}");
    if let Some(gpu) = support::gpu() {
        let other = run(&gpu);
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 2e-3 * a.abs();
        assert!(
            found.iter().zip(&other).all(close),
            "{name}: {found:?}, on the GPU {other:?}"
        );
    }
}

#[test]
fn models_of_images_train() {
    trains("LeNet", &LeNet::new(), &[("batch", 2)]);
    let small = ResNet18::with(|config| (config.width, config.classes) = (4, 5));
    trains(
        "ResNet-18",
        &small,
        &[("batch", 2), ("height", 64), ("across", 64)],
    );
    let small = UNet::with(|config| config.width = 2);
    trains("U-Net", &small, &[("batch", 1), ("h", 2), ("w", 2)]);
}

#[test]
fn models_of_sequences_train() {
    let text: Dims = &[("batch", 2), ("time", 5)];
    let gpt = Gpt::with(|config| {
        (config.vocab, config.context, config.width) = (11, 8, 16);
        (config.heads, config.depth) = (2, 2);
    });
    trains("GPT", &gpt, text);
    let llama = Llama::with(|config| {
        (config.vocab, config.width, config.hidden) = (11, 16, 24);
        (config.heads, config.groups, config.depth) = (4, 2, 2);
    });
    trains("Llama", &llama, text);
    let bert = Bert::with(|config| {
        (config.vocab, config.context, config.width) = (11, 8, 16);
        (config.heads, config.depth) = (2, 2);
    });
    trains("BERT", &bert, text);
    let whisper = Whisper::with(|config| {
        (config.mels, config.vocab, config.width) = (6, 11, 16);
        (config.heads, config.depth) = (2, 2);
    });
    trains(
        "Whisper",
        &whisper,
        &[("batch", 2), ("frames", 10), ("mels", 6), ("time", 4)],
    );
}
