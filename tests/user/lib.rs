//! A crate as a user writes it, with every word of the model language in it.

#![warn(missing_docs)]

use meganeura::prelude::*;

const SMALL: Init = Init::Constant(0.01);

/// Multiplies by a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The number.
    pub by: f32,
}

#[layer]
impl Layer for Scale {
    const BASE: Self = Scale { by: 1.0 };
    const REQUIRED: &'static [&'static str] = &["by"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        x.same()
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        x * f64::from(self.by)
    }
}

/// A choice at run time.
#[derive(Model, Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// Stops at zero.
    Relu(Relu),
    /// Does not.
    Gelu(Gelu),
}

/// A block that is told how wide it is.
#[derive(Model, Clone, Debug, PartialEq)]
#[model(config(width: usize, heads: usize = 2), input(x: [batch, time, width]))]
pub struct Block {
    /// Looks around.
    #[layer(residual, heads = heads, causal = true)]
    pub attention: PreNorm<SelfAttention>,
    /// Thinks.
    #[layer(residual, hidden = 2 * width, recompute)]
    pub mlp: PreNorm<SwiGlu>,
}

/// A wrapper that hands its settings on.
#[derive(Model, Clone, Debug)]
#[model(config = L::Config, input(x))]
pub struct Twice<L: Layer> {
    /// Once.
    #[layer(..config)]
    pub first: L,
    /// And again.
    #[layer(..config)]
    pub second: L,
}

/// Two things put out.
#[derive(Model, Clone, Debug)]
#[model(input(x: [batch, time, WIDTH]), output(left, right = narrow: [batch, time, 2]))]
pub struct Halves<const WIDTH: usize> {
    /// The whole.
    #[layer(out = WIDTH)]
    pub left: Linear,
    #[layer(from(x), out = 2)]
    narrow: Linear,
}

/// Everything at once.
#[derive(Model, Clone, Debug)]
#[model(
    config(vocab: usize = 32, width: usize = 8, depth: usize = 2, dropped: bool = false),
    input(tokens: [batch, time] as u32, bias: [batch, time, width]),
    output = [batch, time, vocab],
)]
pub struct Everything {
    /// The table.
    #[layer(from(tokens), rows = vocab, width = width, init(SMALL), add(bias))]
    pub embed: Embedding,
    /// The blocks.
    #[layer(repeat(depth), width = width, heads = 2, rename("h"))]
    pub blocks: Vec<Block>,
    /// There or not.
    #[layer(when(!dropped), by = 0.5)]
    pub scale: Option<Scale>,
    #[layer(..Activation::gelu(Gelu::tanh()))]
    activation: Activation,
    #[layer(out = width, init(Kaiming), freeze)]
    frozen: Twice<Linear>,
    halves: Halves<8>,
    #[layer(from(halves.left, frozen))]
    sum: Add,
    norm: (RmsNorm, RmsNorm),
    /// The same table.
    #[layer(tie(embed))]
    pub logits: Unembedding,
    #[layer(skip)]
    note: String,
}

check!(Block { width: 6, heads: 3 });

/// How many numbers there are.
///
/// # Errors
/// When the model does not fit together.
pub fn parameters() -> Result<usize, Vec<meganeura::ir::GraphError>> {
    let model = Everything::with(|config| config.depth = 1);
    let described = model.note.is_empty() && model.blocks.len() == 1;
    let summary = model.summary(&[("batch", 1), ("time", 4)])?;
    Ok(usize::from(described) * summary.parameters())
}
