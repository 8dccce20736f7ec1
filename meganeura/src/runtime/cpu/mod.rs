//! The executor for machines without a GPU.

pub mod gemm;
mod pool;

pub use pool::Pool;
