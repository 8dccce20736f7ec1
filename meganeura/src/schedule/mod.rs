//! From a graph to kernels: which nodes share one and what they keep for others (`fuse`), what
//! each kernel does (`emit`), in which order they run and which buffers they read and write
//! (`order`).

pub mod attention;
mod axes;
mod centre;
mod domain;
mod emit;
mod fuse;
pub mod kernel;
pub(crate) mod narrow;
mod order;
mod parts;
mod reference;
mod simplify;

pub use order::{Schedule, ScheduledBuffer, Storage, schedule};
