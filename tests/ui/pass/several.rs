//! Several inputs and outputs, by name.

use meganeura::prelude::*;

/// Splits a value into itself and its square.
#[derive(Clone, Copy)]
struct Powers;

#[layer]
impl Layer for Powers {
    const BASE: Self = Powers;

    const fn shape(&self, x: &Shapes) -> Shapes {
        Shapes::many(&[x.first(), x.first()])
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> (Tensor<'g>, Tensor<'g>) {
        (x, x * x)
    }
}

#[derive(Model)]
#[model(
    input(source: [batch, src] as u32, target: [batch, tgt] as u32),
    output(logits: [batch, tgt, 50], memory = encoded, square = powers.1),
)]
struct Translate {
    #[layer(from(source), rows = 50, width = 8)]
    source_embed: Embedding,
    #[layer(residual, out = 8)]
    encoded: PreNorm<Linear>,
    #[layer(from(target), rows = 50, width = 8)]
    target_embed: Embedding,
    powers: Powers,
    #[layer(from(powers.0, powers.1))]
    sum: Add,
    #[layer(out = 50)]
    logits: Linear,
}

#[derive(Model)]
#[model(input(a: [batch, s] as u32, b: [batch, t] as u32), output(probe, square = translate.square))]
struct Probed {
    #[layer(from(a, b))]
    translate: Translate,
    #[layer(from(translate.memory), out = 3)]
    probe: Linear,
}

fn main() {
    let graph = Graph::new();
    let out = Probed::new().build(&graph, &[("batch", 2), ("s", 5), ("t", 6)]);
    assert_eq!(graph.errors(), []);
    assert_eq!(out[0].shape().dims(), [2, 5, 3]);
    assert_eq!(out[1].shape().dims(), [2, 6, 8]);
    let names: Vec<&str> = Translate::OUTPUTS.iter().map(|output| output.name).collect();
    assert_eq!(names, ["logits", "memory", "square"]);
    assert_eq!(Translate::INPUTS[0].dims.dtype(), Some(DType::U32));
}
