//! Attention on every instruction set and number of threads.

use super::{Buffers, Contents, run_with};
use crate::codegen::tests::reference;
use crate::codegen::tests::samples::{Sample, access, floats, narrowed, sample, samples};
use crate::ir::DType;
use crate::runtime::cpu::vector::InstructionSet;
use crate::schedule::attention::{AttentionKernel, AttentionPass};
use crate::schedule::kernel::{Access, Action, BufferId};

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

/// Holds a kernel to the reference on every instruction set, and to itself on other numbers of
/// threads; what the reference says of all buffers.
fn check(sample: &Sample, bound: f64) -> Vec<Vec<f64>> {
    let mut expected: Vec<Vec<f64>> = sample
        .buffers
        .iter()
        .map(|buffer| buffer.values.clone())
        .collect();
    reference::run(&sample.kernel, &mut expected);
    let mut results: Vec<Buffers> = Vec::new();
    let name = &sample.kernel.name;
    for set in InstructionSet::available() {
        let found = run_with(&sample.kernel.action, &buffers(sample), 2, set).expect(name);
        for write in sample.kernel.writes() {
            // Where floats differ in their last place, halves may in theirs.
            let halves = sample.buffers[write.index()].dtype == DType::BF16;
            let off = distance(&found.get(write), &expected[write.index()], halves);
            assert!(
                off < if halves { 1e-3 } else { bound },
                "{name} on {set:?}: buffer {} is off by {off}",
                write.0
            );
        }
        results.push(found);
    }
    for threads in [1, 3, 8] {
        let set = InstructionSet::detect();
        let other = run_with(&sample.kernel.action, &buffers(sample), threads, set);
        assert_eq!(
            other.expect("it runs"),
            results[0],
            "{name}: {threads} threads"
        );
    }
    expected
}

#[test]
fn attention_is_what_the_kernel_says() {
    for sample in attentions() {
        check(&sample, 2e-6);
    }
}

/// Sizes of an attention, and who sees whom.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    queries: usize,
    keys: usize,
    heads: usize,
    group: usize,
    widths: [usize; 2],
    causal: bool,
    window: Option<usize>,
    mask: Option<DType>,
}

/// Forward, and backward from what that gives.
fn check_sizes(sizes: Sizes) {
    let Sizes {
        queries,
        keys,
        heads,
        group,
        widths: [width, value_width],
        ..
    } = sizes;
    let (batch, key_heads) = (2, heads / group);
    let row = key_heads * (width + value_width);
    let of_queries = |buffer, columns: usize| {
        let strides = [queries * heads * columns, heads * columns, columns];
        access(buffer, &strides, usize::from(columns > 1))
    };
    let of_keys = |offset, columns: usize| Access {
        offset,
        ..access(1, &[keys * row, row, columns], 1)
    };
    let mut mask = floats(queries * keys);
    if sizes.mask == Some(DType::Bool) {
        mask.dtype = DType::Bool;
        let truth = |value: &mut f64| *value = f64::from(*value > -0.5);
        mask.values.iter_mut().for_each(truth);
    }
    let forward = AttentionKernel {
        rounds: false,
        batch: vec![batch],
        queries,
        keys,
        heads,
        group,
        width,
        value_width,
        scale: 0.6,
        causal: sizes.causal,
        window: sizes.window,
        query: of_queries(0, width),
        key: of_keys(0, width),
        value: Some(of_keys(key_heads * width, value_width)),
        mask: sizes.mask.map(|dtype| Access {
            dtype,
            ..access(2, &[0, 0, keys], 1)
        }),
        pass: AttentionPass::Forward {
            output: Some(BufferId(3)),
            normalizer: Some(BufferId(4)),
        },
    };
    let (of_all_queries, of_all_keys) = (batch * queries * heads, batch * keys * key_heads);
    let mut contents = vec![
        floats(of_all_queries * width),
        floats(batch * keys * row),
        mask,
        floats(of_all_queries * value_width),
        floats(of_all_queries),
    ];
    let name = format!("{sizes:?}");
    let attention = |kernel, buffers| sample(&name, Action::Attention(Box::new(kernel)), buffers);
    let found = check(&attention(forward.clone(), contents.clone()), 2e-6);
    // As floats, which is what the kernel has.
    let rounded = |values: &[f64]| {
        values
            .iter()
            .map(|&value| f64::from(value as f32))
            .collect()
    };
    contents[4].values = rounded(&found[4]);
    let mut upstream = floats(of_all_queries * value_width);
    upstream.values.reverse();
    let products = found[3].iter().zip(&upstream.values).map(|(a, b)| a * b);
    let products: Vec<f64> = products.collect();
    let mut sums = floats(of_all_queries);
    let dots: Vec<f64> = products
        .chunks(value_width)
        .map(|row| row.iter().sum())
        .collect();
    sums.values = rounded(&dots);
    contents.extend([
        upstream,
        sums,
        floats(of_all_queries * width),
        floats(of_all_keys * width),
        floats(of_all_keys * value_width),
    ]);
    let pass = AttentionPass::Backward {
        upstream: of_queries(5, value_width),
        normalizer: of_queries(4, 1),
        sums: of_queries(6, 1),
        query: Some(BufferId(7)),
        key: Some(BufferId(8)),
        value: Some(BufferId(9)),
    };
    let backward = AttentionKernel { pass, ..forward };
    check(&attention(backward, contents), 4e-6);
}

#[test]
fn sizes_may_be_any() {
    let masks = [None, Some(DType::Bool), Some(DType::F32)];
    let mut count = 0;
    for (queries, keys) in [(1, 9), (5, 70), (70, 5), (33, 130), (131, 300), (300, 131)] {
        for (causal, window) in [
            (true, None),
            (false, None),
            (true, Some(9)),
            (false, Some(9)),
        ] {
            // Each combination has some of the others.
            count += 1;
            let [heads, group] = [[1, 1], [2, 1], [6, 3]][count % 3];
            check_sizes(Sizes {
                queries,
                keys,
                heads,
                group,
                widths: [[3, 7], [16, 20], [33, 48]][(count / 3) % 3],
                causal,
                window,
                mask: masks[(count / 2) % 3],
            });
        }
    }
}

#[test]
fn scores_may_grow_along_the_keys() {
    // Queries must forget what they have gathered again and again, and nothing overflows.
    let (queries, keys, width) = (20, 500, 4);
    let rows = |of: fn(usize) -> f64, count: usize| {
        let mut contents = floats(count * width);
        for (place, value) in contents.values.iter_mut().enumerate() {
            *value = f64::from((*value + of(place / width)) as f32);
        }
        contents
    };
    let whole = |buffer, count: usize| access(buffer, &[count * width, width, width], 1);
    let kernel = AttentionKernel {
        rounds: false,
        batch: vec![1],
        queries,
        keys,
        heads: 1,
        group: 1,
        width,
        value_width: width,
        scale: 1.0,
        causal: false,
        window: None,
        query: whole(0, queries),
        key: whole(1, keys),
        value: Some(whole(1, keys)),
        mask: None,
        pass: AttentionPass::Forward {
            output: Some(BufferId(2)),
            normalizer: Some(BufferId(3)),
        },
    };
    let contents = vec![
        rows(|_| 2.0, queries),
        rows(|key| key as f64 / 16.0, keys),
        floats(queries * width),
        floats(queries),
    ];
    let action = Action::Attention(Box::new(kernel));
    // Scores near 250 are rounded to 2e-5, and exponentials are off by as much.
    let found = check(&sample("growing scores", action, contents), 2e-4);
    assert!(found[3].iter().all(|normalizer| *normalizer > 100.0));
}
