//! Training with products of rounded operands against training without.

use super::language_model;
use meganeura::data::{Dataset, Field};
use meganeura::ir::random::Stream;
use meganeura::prelude::*;

#[derive(Model)]
#[model(input(features: [batch, 48]), output = [batch, 10])]
struct Classifier {
    norm: LayerNorm,
    #[layer(out = 96)]
    hidden: (Linear, Gelu),
    hidden_norm: LayerNorm,
    #[layer(out = 64)]
    deep: (Linear, Relu),
    #[layer(out = 10)]
    scores: Linear,
}

/// Rows of noise; the label says which of ten features is largest, but for one row in five.
fn data(rows: usize) -> Dataset {
    let mut features = vec![0.0; rows * 48];
    Stream::named(0, "features").fill_normal(&mut features);
    let stream = Stream::named(0, "labels");
    let largest = |row: &[f32]| {
        let of = |index: &u32| row[*index as usize];
        (0..10).max_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or(0)
    };
    let labels: Vec<u32> = (features.chunks(48).zip(0..))
        .map(|(row, index)| match stream.below(index, 5) {
            0 => stream.below(index + rows as u64, 10) as u32,
            _ => largest(row),
        })
        .collect();
    Dataset::new([
        Field::new("features", [48], features),
        Field::new("label", [], labels),
    ])
    .expect("a data set")
}

fn losses(device: &Device, precision: Precision) -> Vec<f32> {
    let loss = Loss::cross_entropy("label");
    let model = Classifier::new();
    let mut trainer = Trainer::new(model, loss, AdamW::new(2e-3), device, 7).expect("a trainer");
    trainer.precision(precision);
    let history = trainer.fit(&data(1600), &Fit::epochs(5).batch(64).quiet());
    history.expect("training").losses
}

/// One curve next to another: within 1 % at every step.
fn is_near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let mut most: f32 = 0.0;
    for (found, expected) in found.iter().zip(expected) {
        most = most.max((found - expected).abs() / expected);
    }
    assert!(most < 0.01, "off by {most}: {found:?} {expected:?}");
    assert!(found != expected, "nothing was rounded");
}

#[test]
fn a_classifier_learns_the_same_with_rounded_operands() {
    let exact = losses(&Device::cpu(), Precision::F32);
    let rounded = losses(&Device::cpu(), Precision::BF16);
    assert!(exact.len() >= 100 && exact[exact.len() - 1] < 0.75 * exact[0]);
    is_near(&rounded, &exact);
}

#[test]
fn a_language_model_learns_the_same_with_rounded_operands() {
    let [exact, rounded] = [Precision::F32, Precision::BF16]
        .map(|precision| language_model::losses(&Device::cpu(), precision, 5e-4, 120));
    assert!(exact[119] < 0.75 * exact[0]);
    is_near(&rounded, &exact);
}

#[test]
fn a_language_model_learns_the_same_with_rounded_operands_on_the_gpu() {
    let Some(device) = crate::support::gpu() else {
        return;
    };
    let cpu = language_model::losses(&Device::cpu(), Precision::F32, 5e-4, 10);
    let gpu = language_model::losses(&device, Precision::BF16, 5e-4, 10);
    is_near(&gpu, &cpu);
}

#[test]
fn any_number_of_threads_gives_the_same_with_rounded_operands() {
    let threads =
        |count| Device::cpu_with_threads(std::num::NonZeroUsize::new(count).expect("not zero"));
    let run = |count| language_model::losses(&threads(count), Precision::BF16, 3e-3, 5);
    assert_eq!(run(1), run(3));
}
