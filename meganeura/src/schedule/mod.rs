//! From a graph to kernels: which nodes share one ([`fuse`](self)), what each does, in which
//! order they run and which buffers they read and write.

mod domain;
mod emit;
mod fuse;
pub mod kernel;
mod order;
mod reference;
mod sink;

pub use order::{Schedule, ScheduledBuffer, Storage, schedule};
