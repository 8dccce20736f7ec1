//! From a graph to kernels: which nodes share one (`fuse`), which values are kept and which
//! are made again where they are read (`keep`), what each kernel does (`emit`), in which order they run and which buffers they
//! read and write (`order`).

pub mod attention;
mod axes;
mod centre;
mod domain;
mod emit;
mod fuse;
mod keep;
pub mod kernel;
mod order;
mod parts;
mod pieces;
mod reference;
mod simplify;

pub use order::{Schedule, ScheduledBuffer, Storage, schedule};
