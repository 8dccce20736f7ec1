//! Layers that are computed again for the backward pass: less memory, the same numbers.

use super::{Dims, compile, losses, training_graph};
use meganeura::prelude::*;

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
struct Kept {
    #[layer(repeat(6))]
    blocks: Vec<Block>,
    #[layer(out = 3)]
    scores: Linear,
}

#[derive(Model, Clone, Debug)]
#[model(input(x: [batch, time, 16]))]
struct Again {
    #[layer(repeat(6), recompute)]
    blocks: Vec<Block>,
    #[layer(out = 3)]
    scores: Linear,
}

const DIMS: Dims<'static> = &[("batch", 8), ("time", 32)];

#[test]
fn it_takes_less_memory_and_gives_the_same() {
    let train = |graph: Graph| {
        let (mut session, step) = compile(&graph, &Device::cpu());
        let losses = losses(&mut session, step, 3);
        let weight = session.variable("blocks.0.attention.inner.query.weight");
        let plan = session.plan(step);
        (plan.arena_words, plan.flops(), losses, weight.unwrap())
    };
    let kept = train(training_graph(&Kept::new(), DIMS));
    let again = train(training_graph(&Again::new(), DIMS));
    let close = |a: &[f32], b: &[f32]| {
        let off = a
            .iter()
            .zip(b)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(off < 1e-6, "{off} off");
    };
    close(&kept.2, &again.2);
    close(&kept.3, &again.3);
    // The work is done once more, and what it leaves is there for one block at a time.
    assert!(again.1 > kept.1, "{} and {} operations", again.1, kept.1);
    assert!(2 * again.0 < kept.0, "{} of {} numbers", again.0, kept.0);
}

#[test]
fn nothing_is_copied_where_nothing_is_marked() {
    let graph = training_graph(&Kept::new(), DIMS);
    let count = graph.nodes().len();
    assert_eq!(
        meganeura::autodiff::recompute(graph, 1).nodes().len(),
        count
    );
}
