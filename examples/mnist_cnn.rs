//! MNIST with convolutions: 60,000 handwritten digits to learn from, 10,000 to test on.
//!
//! `examples/fetch-data.sh && cargo run --release --example mnist_cnn -- --epochs 5`

mod common;

use std::path::PathBuf;

use clap::Parser;
use meganeura::data::Mnist;
use meganeura::prelude::*;

/// 28×28 pixels → 10 class scores.
#[derive(Model)]
#[model(input(image: [batch, 1, 28, 28]), output = [batch, 10])]
pub struct Classifier {
    #[layer(out = 32, kernel = 3, padding = 1)]
    first: Conv2d,
    halve: (Relu, MaxPool2d),
    #[layer(out = 64, kernel = 3, padding = 1)]
    second: Conv2d,
    quarter: (Relu, MaxPool2d, Flatten),
    #[layer(out = 128)]
    hidden: (Linear, Relu),
    #[layer(out = 10)]
    scores: Linear,
}

/// Train on MNIST.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Arguments,
    /// Times through the training set.
    #[arg(long, default_value_t = 5)]
    epochs: usize,
    /// Images in a step.
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// The learning rate, which falls to 0 in the course of training.
    #[arg(long, default_value_t = 1e-3)]
    rate: f64,
    /// The folder with the four IDX files.
    #[arg(long, default_value = "data/mnist")]
    data: PathBuf,
}

fn main() -> common::Outcome {
    let arguments = Arguments::parse();
    let Mnist { train, test } = Mnist::open(&arguments.data)?;
    let [train, test] = [train, test].map(|data| data.reshape("image", [1, 28, 28]));
    let mut trainer = arguments.common.trainer(
        Classifier::new(),
        Loss::cross_entropy("label"),
        AdamW::new(arguments.rate),
    )?;
    let fit = Fit::epochs(arguments.epochs).batch(arguments.batch);
    let history = trainer.fit(&train?, &fit.anneal())?;
    arguments.common.finish(&mut trainer, &history, &test?)
}
