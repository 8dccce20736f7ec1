//! Exchange with other programs' files.

mod atomic;
pub mod safetensors;
pub mod weights;
