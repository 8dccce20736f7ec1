//! Handwritten digits, 8×8 pixels, with nothing to download.
//!
//! `cargo run --release --example digits -- --device best --epochs 30 --seed 0`

mod common;

use clap::Parser;
use meganeura::data::{Dataset, Field};
use meganeura::prelude::*;

/// 64 pixels → 10 class scores.
#[derive(Model)]
#[model(input(pixels: [batch, 64]), output = [batch, 10])]
pub struct Digits {
    #[layer(out = 256)]
    hidden: (Linear, LayerNorm, Gelu),
    #[layer(out = 256)]
    deep: (Linear, LayerNorm, Gelu),
    #[layer(out = 10)]
    scores: Linear,
}

/// Train on the handwritten digits that come with a cargo package.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: common::Arguments,
    /// Times through the training set.
    #[arg(long, default_value_t = 30)]
    epochs: usize,
}

fn main() -> common::Outcome {
    let arguments = Arguments::parse();
    let (train, test) = digits()?.split(0.2, arguments.common.seed)?;
    let mut trainer = arguments.common.trainer(
        Digits::new(),
        Loss::cross_entropy("label"),
        AdamW::new(1e-3),
    )?;
    let history = trainer.fit(&train, &Fit::epochs(arguments.epochs).batch(32).anneal())?;
    arguments.common.finish(&mut trainer, &history, &test)
}

/// 1,797 images with values 0 to 16, scaled to 0 to 1.
fn digits() -> Result<Dataset, common::Failure> {
    let raw = smartcore::dataset::digits::load_dataset();
    let pixels: Vec<f32> = raw.data.iter().map(|value| value / 16.0).collect();
    let labels: Vec<u32> = raw.target.iter().map(|value| *value as u32).collect();
    Ok(Dataset::new([
        Field::new("pixels", [64], pixels),
        Field::new("label", [], labels),
    ])?)
}
