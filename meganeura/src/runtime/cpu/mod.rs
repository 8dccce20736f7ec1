//! The CPU executor.

mod pool;

pub use pool::Pool;
