//! Generated code is silent under strict lints.

#![deny(
    warnings,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    missing_debug_implementations,
    missing_copy_implementations,
    single_use_lifetimes,
    unused_results,
    unused_lifetimes,
    let_underscore_drop,
    rust_2018_idioms,
    clippy::pedantic,
    clippy::nursery,
    clippy::missing_trait_methods
)]

use meganeura::prelude::*;

/// A block.
#[derive(Model, Debug, Clone)]
#[model(config(width: usize = 64), input(x: [batch, width]), output = [batch, 4])]
pub struct Block {
    /// The first layer.
    #[layer(out = width)]
    pub first: Linear,
    #[layer(repeat(2), out = 4)]
    more: Vec<Linear>,
    #[layer(skip)]
    note: String,
}

/// A choice.
#[derive(Model, Debug, Clone, Copy)]
pub enum Choice {
    /// One.
    One(Relu),
    /// Other.
    Other(Tanh),
}

/// A layer.
#[derive(Clone, Copy, Debug)]
pub struct Same;

#[layer]
impl Layer for Same {
    const BASE: Self = Same;

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        x
    }
}

check!(Block { width: 3 });

fn main() {
    let block = Block::new();
    assert!(block.note.is_empty() && block.more.len() == 2);
    assert!(format!("{:?} {:?}", Choice::One(Relu), Choice::Other(Tanh)).contains("Tanh"));
}
