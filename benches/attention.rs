//! Attention alone, forward and backward.
//!
//! `cargo bench -p meganeura-benches --bench attention -- [--threads N] [NAME…]` prints, for each size
//! whose name contains one of the words (all without one), the median time of both kernels and per
//! cent of the peak of fused multiply-adds measured in the same run. Only pairs of a query and a key
//! that it sees count, and scores that the backward pass computes again.

use meganeura::autodiff::gradients;
use meganeura::ir::{Attention, DType, Graph};
use meganeura::ops::expand;
use meganeura::prelude::*;
use meganeura::runtime::Session;
use meganeura::runtime::cpu::Pool;
use meganeura::schedule::attention::AttentionPass;
use meganeura::schedule::kernel::Action;
use meganeura_benches::peak;
use std::error::Error;
use std::num::NonZeroUsize;

/// How often a step is run to find the median time of its kernels.
const RUNS: usize = 15;

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    batch: usize,
    time: usize,
    heads: usize,
    key_heads: usize,
    width: usize,
    how: Attention,
    mask: Option<DType>,
}

const CAUSAL: Case = Case {
    name: "gpt",
    batch: 4,
    time: 256,
    heads: 6,
    key_heads: 6,
    width: 48,
    how: Attention::causal(),
    mask: None,
};

fn cases() -> Vec<Case> {
    let everything = Attention::default();
    let window = Attention {
        window: Some(128),
        ..Attention::causal()
    };
    vec![
        CAUSAL,
        Case {
            name: "everything 256x48",
            how: everything,
            ..CAUSAL
        },
        Case {
            name: "causal 1024x48",
            batch: 1,
            time: 1024,
            ..CAUSAL
        },
        Case {
            name: "causal 4096x48",
            batch: 1,
            heads: 2,
            key_heads: 2,
            time: 4096,
            ..CAUSAL
        },
        Case {
            name: "causal 256x32",
            width: 32,
            ..CAUSAL
        },
        Case {
            name: "causal 256x64",
            width: 64,
            ..CAUSAL
        },
        Case {
            name: "causal 256x128",
            width: 128,
            ..CAUSAL
        },
        Case {
            name: "causal 1024x64",
            batch: 1,
            width: 64,
            time: 1024,
            ..CAUSAL
        },
        Case {
            name: "causal 1024x128",
            batch: 1,
            width: 128,
            time: 1024,
            ..CAUSAL
        },
        Case {
            name: "window 1024x64",
            batch: 1,
            width: 64,
            time: 1024,
            how: window,
            ..CAUSAL
        },
        Case {
            name: "groups 1024x64",
            batch: 1,
            width: 64,
            time: 1024,
            key_heads: 2,
            ..CAUSAL
        },
        Case {
            name: "truth mask 256x64",
            width: 64,
            how: everything,
            mask: Some(DType::Bool),
            ..CAUSAL
        },
        Case {
            name: "float mask 256x64",
            width: 64,
            how: everything,
            mask: Some(DType::F32),
            ..CAUSAL
        },
        Case {
            name: "short 32x64",
            batch: 16,
            width: 64,
            time: 32,
            ..CAUSAL
        },
        Case {
            name: "odd 100x20",
            batch: 16,
            width: 20,
            time: 100,
            ..CAUSAL
        },
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let (threads, words) = meganeura_benches::arguments()?;
    let peak = peak(&Pool::new(threads.get()));
    println!("{threads} threads, peak {peak:.0} GFLOP/s; us and per cent of it:");
    println!(
        "{:20} {:>9} {:>5} {:>9} {:>5}",
        "", "forward", "", "backward", ""
    );
    for case in cases() {
        if words.is_empty() || words.iter().any(|word| case.name.contains(word.as_str())) {
            let times = time(&case, threads)?;
            let [forward, backward] = times.map(|(seconds, flops)| {
                format!(
                    "{:9.1} {:5.1}",
                    1e6 * seconds,
                    100.0 * flops / 1e9 / seconds / peak
                )
            });
            println!("{:20} {forward} {backward}", case.name);
        }
    }
    Ok(())
}

/// Seconds and operations, forward and backward.
fn time(case: &Case, threads: NonZeroUsize) -> Result<[(f64, f64); 2], Box<dyn Error>> {
    let &Case {
        batch,
        time,
        heads,
        key_heads,
        width,
        ..
    } = case;
    let graph = Graph::new();
    let row = (heads + 2 * key_heads) * width;
    let normal = Init::Normal {
        mean: 0.0,
        std: 1.0,
    };
    let packed = graph.state("packed", [batch, time, row], normal);
    let part = |first: usize, heads: usize| {
        packed
            .slice(2, first * width, heads * width)
            .reshape([batch, time, heads, width])
    };
    let operands = [
        part(0, heads),
        part(heads, key_heads),
        part(heads + key_heads, key_heads),
    ];
    let mask = case.mask.map(|dtype| match dtype {
        DType::Bool => graph
            .input("mask", [time, time], DType::F32)
            .less(graph.constant(0.0)),
        dtype => graph.input("mask", [time, time], dtype),
    });
    let [query, key, value] = operands;
    let mixed = query.attention_in_time(key, value, &case.how, mask);
    let upstream = graph.input("upstream", [batch, time, heads, width], DType::F32);
    graph.output("mixed", mixed);
    graph.output("upstream", upstream);
    let (graph, _) = expand(&graph);
    let [mixed, upstream] = [0, 1].map(|index| graph.tensor(graph.outputs()[index].1));
    let packed = graph.tensor(graph.variables()[0].1);
    graph.output("gradient", gradients(&[(mixed, upstream)], &[packed])[0]);
    let mut session = Session::new(&Device::cpu_with_threads(threads), 0)?;
    let step = session.compile(&graph)?;
    let numbers = |count: usize| -> Vec<f32> {
        (0..count)
            .map(|i| ((i * 7919 % 1024) as f32 - 512.0) / 256.0)
            .collect()
    };
    session.input(step, "upstream", &numbers(batch * time * heads * width))?;
    if case.mask.is_some() {
        session.input(step, "mask", &numbers(time * time))?;
    }
    let times = session.profile(step, RUNS)?;
    let mut found = [(f64::NAN, 0.0); 2];
    for (kernel, (_, time)) in session.plan(step).kernels.iter().zip(times) {
        if let Action::Attention(attention) = &kernel.action {
            let backward = matches!(attention.pass, AttentionPass::Backward { .. });
            found[usize::from(backward)] = (time.as_secs_f64(), attention.flops() as f64);
        }
    }
    Ok(found)
}
