//! What a session takes of the process's memory: what its plan says, and nothing more in a step.
//!
//! Other tests allocate too, so that a process of its own is started for the one that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::num::NonZeroUsize;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use meganeura::ir::{DType, Graph};
use meganeura::ops::expand;
use meganeura::prelude::*;
use meganeura::runtime::Session;
use meganeura::train::{Optimizer, add_updates};

/// The system's allocator, counted.
struct Counted;

/// Bytes that are allocated now.
static HELD: AtomicU64 = AtomicU64::new(0);
/// Allocations since the start.
static MADE: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: everything is left to the system's allocator; counting touches nothing else.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MADE.fetch_add(1, Ordering::Relaxed);
        HELD.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[derive(Model)]
#[model(config(width: usize = 128), input(x: [batch, time, width]))]
struct Block {
    #[layer(residual, heads = 4, causal = true)]
    attention: PreNorm<SelfAttention>,
    #[layer(residual, hidden = 384)]
    mlp: PreNorm<SwiGlu>,
}

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32), output = [batch, time, 512])]
struct LanguageModel {
    #[layer(rows = 512, width = 128)]
    embed: Embedding,
    #[layer(repeat(2))]
    blocks: Vec<Block>,
    norm: LayerNorm,
    #[layer(out = 512, bias = false)]
    scores: Linear,
}

/// The process that counts is told so by this variable.
const ALONE: &str = "MEGANEURA_COUNTS_ALLOCATIONS";

#[test]
fn a_session_takes_what_its_plan_says() {
    if std::env::var_os(ALONE).is_some() {
        let [floats, halves] = [Precision::F32, Precision::BF16].map(count);
        // But for what is summed up, statistics and what is small.
        assert!(
            halves < 0.55 * floats,
            "an arena of {halves} instead of {floats} words"
        );
        return;
    }
    let program = std::env::current_exe().expect("this program's path");
    let done = Command::new(program)
        .args(["--exact", "memory::a_session_takes_what_its_plan_says"])
        .args(["--nocapture", "--test-threads", "1"])
        .env(ALONE, "yes")
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}\n{errors}");
    assert!(said.contains("1 passed"), "{said}\n{errors}");
}

/// Bytes that the process holds: of the allocator, and in the pages that are asked of the system as
/// large ones.
fn held() -> u64 {
    HELD.load(Ordering::Relaxed) + large_pages()
}

/// Bytes in memory of the mappings for which large pages were asked. Only Linux lists them, and only
/// there are they asked for.
fn large_pages() -> u64 {
    let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut bytes = 0;
    let mut resident = 0;
    for line in mappings.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Rss:") => {
                let kilobytes = words.next().and_then(|number| number.parse::<u64>().ok());
                resident = kilobytes.expect("a number of kB") << 10;
            }
            Some("VmFlags:") if words.any(|flag| flag == "hg") => bytes += resident,
            _ => (),
        }
    }
    bytes
}

/// Checks a session of a precision; the words of its arena.
fn count(precision: Precision) -> f64 {
    const BATCH: usize = 24;
    const TIME: usize = 128;
    const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
    let graph = Graph::new();
    let scores = LanguageModel::new().build(&graph, &[("batch", BATCH), ("time", TIME)])[0];
    let labels = graph.input("label", [BATCH, TIME], DType::U32);
    graph.output("loss", scores.cross_entropy(labels));
    let (graph, _) = expand(&graph);
    let optimizer = AdamW::new(1e-3);
    add_updates(&graph, &optimizer);

    let before = held();
    let mut session = Session::new(&Device::cpu_with_threads(TWO), 0).expect("a session");
    session.precision(precision);
    let step = session.compile(&graph).expect("a step");
    let tokens: Vec<u32> = (0..BATCH * TIME).map(|i| (i * 7 % 512) as u32).collect();
    for name in ["tokens", "label"] {
        session.input(step, name, &tokens).expect("an input");
    }
    let mut run = |count| {
        for (name, value) in optimizer.inputs(count) {
            session.input(step, name, &[value]).expect("an input");
        }
        let made = MADE.load(Ordering::Relaxed);
        session.run(step).expect("a step");
        MADE.load(Ordering::Relaxed) - made
    };
    // The first step makes what the threads keep.
    run(1);
    let held = held() - before;
    let in_a_step = run(2);
    let plan = session.plan(step);
    let peak = plan.peak_bytes();
    let ratio = held as f64 / peak as f64;
    println!("{held} bytes held, {peak} planned: {ratio:.3}; {in_a_step} allocations in a step");
    // Besides, threads keep what they pack operands into: as much however small the plan is.
    assert!(
        ratio > 0.95
            && held < peak + peak / 50 + (2 << 20)
            && (ratio < 1.05 || precision == Precision::BF16),
        "{ratio} of the plan's bytes"
    );
    assert_eq!(in_a_step, 0, "allocations in a step");
    plan.arena_words as f64
}
