//! Train neural networks declared as plain structs.
pub mod runtime;
