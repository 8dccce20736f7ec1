//! The CPU executor.

pub mod gemm;
mod pool;

pub use pool::Pool;
