//! A training step in a memory budget: less memory, more arithmetic, the same numbers.

use meganeura::data::{Batch, Dataset, Field};
use meganeura::prelude::*;
use meganeura::train::TrainError;

#[derive(Model, Clone, Debug)]
#[model(input(x: [batch, time, width]))]
struct Block {
    #[layer(residual, heads = 2, causal = true)]
    attention: PreNorm<SelfAttention>,
    #[layer(residual, hidden = 64)]
    mlp: PreNorm<SwiGlu>,
}

#[derive(Model, Clone, Debug)]
#[model(input(x: [batch, time, 16]))]
struct Deep {
    #[layer(repeat(5))]
    blocks: Vec<Block>,
    #[layer(out = 3)]
    scores: Linear,
}

const ROWS: usize = 8;
const TIME: usize = 32;

fn batch() -> Batch {
    let wave = |count: usize| (0..count).map(|i| (i as f32 * 0.37).sin()).collect();
    let data = Dataset::new([
        Field::new("x", [TIME, 16], wave(ROWS * TIME * 16)),
        Field::new("t", [TIME, 3], wave(ROWS * TIME * 3)),
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
    let Err(TrainError::Memory {
        budget: 1,
        least,
        fixed,
    }) = trained(Some(1))
    else {
        panic!("nothing fits a byte");
    };
    println!("{free} bytes without a budget, at least {least}, {fixed} of them fixed");
    // Of what the passes leave for each other, less than half is needed.
    assert!(fixed < least && 2 * (least - fixed) < free - fixed);
    let mut more = u64::MAX;
    for eighths in 0..=8 {
        let budget = least + (free - least) * eighths / 8;
        let (peak, again, other) = trained(Some(budget)).expect("it fits");
        println!("budget {budget}: peak {peak}, {again} operations");
        assert!(peak <= budget, "{peak} of {budget}");
        // The more there is, the less is computed again; with enough, nothing.
        assert!(again <= more, "budget {budget}: {again} after {more}");
        assert!(again > operations || eighths == 8 && again == operations);
        more = again;
        for (a, b) in losses.iter().zip(&other) {
            assert!((a - b).abs() <= 1e-6 * a.abs(), "{losses:?} and {other:?}");
        }
    }
    let message = trained(Some(least - 1))
        .expect_err("too little")
        .to_string();
    assert!(message.contains(&least.to_string()), "{message}");
}
