//! Attention on every instruction set and number of threads.

use super::{Buffers, Contents, run_with};
use crate::codegen::tests::reference;
use crate::codegen::tests::samples::{Sample, narrowed, samples};
use crate::ir::DType;
use crate::runtime::cpu::vector::InstructionSet;
use crate::schedule::kernel::Action;

fn attentions() -> Vec<Sample> {
    let all = samples().into_iter();
    let mut attentions: Vec<Sample> = all
        .filter(|sample| matches!(sample.kernel.action, Action::Attention(_)))
        .collect();
    let rounded: Vec<Sample> = attentions
        .iter()
        .filter_map(|sample| narrowed(sample, true))
        .collect();
    assert!(attentions.len() > 4 && rounded.len() == attentions.len());
    attentions.extend(rounded);
    attentions
}

fn buffers(sample: &Sample) -> Buffers {
    let contents = sample.buffers.iter().map(|buffer| Contents {
        dtype: buffer.dtype,
        bits: buffer
            .values
            .iter()
            .map(|&value| (value as f32).to_bits())
            .collect(),
    });
    Buffers(contents.collect())
}

/// How far floats are from what they should be, for the size of those that are off, or of `all`;
/// infinities must agree.
fn distance(found: &[f32], expected: &[f64], all: bool) -> f64 {
    let (mut off, mut size) = (0.0, 0.0);
    for (&found, &expected) in found.iter().zip(expected) {
        let found = f64::from(found);
        if found != expected {
            off += (found - expected).powi(2);
        }
        if (found != expected || all) && expected.is_finite() {
            size += expected.powi(2);
        }
    }
    (off / size.max(1e-9)).sqrt()
}

#[test]
fn attention_is_what_the_kernel_says() {
    for sample in attentions() {
        let mut expected: Vec<Vec<f64>> = sample
            .buffers
            .iter()
            .map(|buffer| buffer.values.clone())
            .collect();
        reference::run(&sample.kernel, &mut expected);
        let mut results: Vec<Buffers> = Vec::new();
        for set in InstructionSet::available() {
            let name = &sample.kernel.name;
            let found = run_with(&sample.kernel.action, &buffers(&sample), 2, set).expect(name);
            for write in sample.kernel.writes() {
                let found = found.get(write);
                let expected = &expected[write.index()];
                // Where floats differ in their last place, halves may in theirs.
                let halves = sample.buffers[write.index()].dtype == DType::BF16;
                let off = distance(&found, expected, halves);
                assert!(
                    off < if halves { 1e-3 } else { 2e-6 },
                    "{name} on {set:?}: buffer {} is off by {off}",
                    write.0
                );
            }
            results.push(found);
        }
        for threads in [1, 3] {
            let set = InstructionSet::detect();
            let other = run_with(&sample.kernel.action, &buffers(&sample), threads, set);
            assert_eq!(other.expect("it runs"), results[0], "{threads} threads");
        }
    }
}
