//! MNIST: 60,000 handwritten digits to learn from, 10,000 to test on.
//!
//! `examples/fetch-data.sh && cargo run --release --example mnist -- --epochs 5`

mod common;

use std::path::PathBuf;

use clap::Parser;
use meganeura::data::Mnist;
use meganeura::prelude::*;

/// 28×28 pixels → 10 class scores.
#[derive(Model)]
#[model(input(image: [batch, 784]), output = [batch, 10])]
pub struct Classifier {
    #[layer(out = 512)]
    hidden: (Linear, LayerNorm, Gelu),
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
    /// The folder with the four IDX files.
    #[arg(long, default_value = "data/mnist")]
    data: PathBuf,
}

fn main() -> common::Outcome {
    let arguments = Arguments::parse();
    let Mnist { train, test } = Mnist::open(&arguments.data)?;
    let mut trainer = arguments.common.trainer(
        Classifier::new(),
        Loss::cross_entropy("label"),
        AdamW::new(1e-3),
    )?;
    let history = trainer.fit(&train, &Fit::epochs(arguments.epochs).batch(128).anneal())?;
    arguments.common.finish(&mut trainer, &history, &test)
}
