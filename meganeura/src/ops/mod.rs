//! Every op, one block each: shape, value in double precision, lowering, gradient, algebra
//! and the cases the conformance suite tries.
//!
//! A new op is a new block and a line in [`all`]; no pass and no test needs to hear of it.
//! The methods of [`Tensor`](crate::ir::Tensor) stand beside the blocks they apply.

mod activation;
mod apart;
mod arithmetic;
mod attention;
mod compare;
mod contraction;
mod convolution;
mod evaluate;
mod expand;
mod index;
mod leaf;
mod loss;
mod movement;
mod normalization;
mod pool;
mod random;
mod reduce;
mod region;
mod rotary;
mod rules;
mod unary;

pub use apart::apart;
pub use evaluate::{evaluate, evaluate_nodes};
pub use expand::{Images, expand};

use crate::ir::OpDef;

/// The op table.
pub fn all() -> Vec<&'static OpDef> {
    [
        leaf::OPS,
        unary::OPS,
        arithmetic::OPS,
        compare::OPS,
        movement::OPS,
        region::OPS,
        reduce::OPS,
        contraction::OPS,
        convolution::OPS,
        pool::OPS,
        random::OPS,
        index::OPS,
        activation::OPS,
        normalization::OPS,
        attention::OPS,
        rotary::OPS,
        loss::OPS,
    ]
    .concat()
}
