//! Train neural networks declared as plain structs, on any GPU or none.

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
pub mod train;
pub mod walk;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use meganeura_macros::{Model, check, layer};
