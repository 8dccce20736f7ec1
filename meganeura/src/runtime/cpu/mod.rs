//! The CPU executor.

mod attention;
mod bounds;
mod contract;
mod depth;
mod executor;
pub mod gemm;
mod halves;
mod index;
mod loops;
mod memory;
mod pool;
#[cfg(test)]
mod tests;
mod tune;
mod vector;

pub use executor::CpuExecutor;
pub use pool::Pool;
pub use tune::Cache;
