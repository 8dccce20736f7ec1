//! A training step in a memory budget: less memory, more arithmetic, the same numbers.

use meganeura::data::{Batch, Dataset, Field};
use meganeura::prelude::*;
use meganeura::train::TrainError;

#[derive(Model, Clone, Debug)]
#[model(input(x: [batch, 16]), output = [batch, 3])]
struct Deep {
    #[layer(repeat(6), out = 32)]
    layers: Vec<(Linear, LayerNorm, Gelu)>,
    #[layer(out = 3)]
    scores: Linear,
}

const ROWS: usize = 512;

fn batch() -> Batch {
    let wave = |count: usize| -> Vec<f32> { (0..count).map(|i| (i as f32 * 0.37).sin()).collect() };
    let data = Dataset::new([
        Field::new("x", [16], wave(ROWS * 16)),
        Field::new("t", [3], wave(ROWS * 3)),
    ]);
    let data = data.expect("equal rows");
    let mut batches = data.batches(ROWS).expect("a size");
    batches.next().expect("a batch")
}

/// Peak bytes, operations and five losses.
fn trained(budget: Option<u64>) -> Result<(u64, u64, Vec<f32>), TrainError> {
    let loss = Loss::mean_squared_error("t");
    let optimizer = AdamW::new(1e-3);
    let mut trainer = Trainer::new(Deep::new(), loss, optimizer, &Device::cpu(), 3)?;
    if let Some(bytes) = budget {
        trainer.memory_budget(bytes);
    }
    let batch = batch();
    let plan = trainer.plan(&batch)?;
    let (peak, operations) = (plan.peak_bytes(), plan.flops());
    let losses: Result<Vec<f32>, TrainError> = (0..5).map(|_| trainer.step(&batch)).collect();
    Ok((peak, operations, losses?))
}

#[test]
fn a_step_fits_its_memory_budget_and_computes_the_same() {
    let (free, operations, losses) = trained(None).expect("it trains");
    let error = trained(Some(1)).expect_err("nothing fits a byte");
    let message = error.to_string();
    let TrainError::Memory { least, fixed, .. } = error else {
        panic!("{message}");
    };
    assert!(message.contains(&least.to_string()), "{message}");
    println!("{free} bytes without a budget, at least {least}, {fixed} of them fixed");
    // Of what the passes leave for each other, less than half is needed.
    assert!(fixed < least && 2 * (least - fixed) < free - fixed);
    let mut more = u64::MAX;
    for quarters in 0..=4 {
        let budget = least + (free - least) * quarters / 4;
        let (peak, again, other) = trained(Some(budget)).expect("it fits");
        println!("budget {budget}: peak {peak}, {again} operations");
        assert!(peak <= budget, "{peak} of {budget}");
        // The more there is, the less is computed again; with enough, nothing.
        assert!(again <= more, "budget {budget}: {again} after {more}");
        assert!(again > operations || quarters == 4 && again == operations);
        more = again;
        for (a, b) in losses.iter().zip(&other) {
            assert!((a - b).abs() <= 1e-6 * a.abs(), "{losses:?} and {other:?}");
        }
    }
}
