//! Train neural networks declared as plain structs, on any GPU or none.

pub mod autodiff;
pub mod codegen;
pub mod data;
pub mod egraph;
pub mod interop;
pub mod ir;
pub mod ops;
pub mod plan;
pub mod runtime;
pub mod schedule;
