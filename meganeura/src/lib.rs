//! Train neural networks declared as plain structs.

pub mod data;
pub mod interop;
/// The vocabulary of the passes.
pub mod ir {
    pub mod random;
}
