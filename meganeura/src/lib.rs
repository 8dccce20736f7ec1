//! Train neural networks declared as plain structs, on any GPU or none.
//!
//! A model is a struct of layer descriptions. `#[derive(Model)]` gives it a constructor and
//! the code that builds its graph; the compiler walks the shapes:
//!
//! ```
//! use meganeura::prelude::*;
//!
//! /// 64 pixels → 10 class scores.
//! #[derive(Model)]
//! #[model(input(pixels: [batch, 64]), output = [batch, 10])]
//! struct Digits {
//!     #[layer(out = 128)]
//!     hidden: (Linear, Relu),
//!     #[layer(out = 10)]
//!     scores: Linear,
//! }
//!
//! let graph = Graph::new();
//! let scores = Digits::new().build(&graph, &[("batch", 32)]);
//! assert_eq!(scores[0].shape().dims(), [32, 10]);
//! ```
//!
//! From there everything is derived:
//!
//! ```text
//! struct ─macro→ graph ─autodiff→ forward and backward ─e-graph→ cheaper equal graph
//!        ─schedule→ kernels ─plan→ buffers and dispatches ─run→ Blade (GPU) | CPU
//! ```
//!
//! The modules stand in that order, and none knows one that comes after it:
//! [`ir`] and [`ops`] are the vocabulary, [`walk`], [`model`] and [`layers`] the face,
//! [`autodiff`] makes gradients, [`siblings`] lays weights side by side, [`egraph`] makes a cheaper
//! graph, [`schedule`] kernels, [`codegen`] WGSL, [`plan`] gives every buffer its place, [`runtime`]
//! runs it, [`data`] and [`interop`] bring values in and out, and [`train`] is the loop around it all.
//!
//! Start with the [`guide`], or with [`Trainer`](train::Trainer) and
//! [`Session`](runtime::Session).

// Generated code names this crate by its name, inside it too.
extern crate self as meganeura;

pub mod autodiff;
pub mod codegen;
pub mod data;
pub mod egraph;
pub mod guide;
pub mod interop;
pub mod ir;
pub mod layers;
pub mod model;
mod nearest;
pub mod ops;
pub mod plan;
pub mod prelude;
pub mod runtime;
pub mod schedule;
pub mod siblings;
pub mod train;
pub mod walk;

/// The code in README runs, too.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use meganeura_macros::{Model, check, layer};
