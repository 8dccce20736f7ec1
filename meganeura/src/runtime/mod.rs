//! Plans on devices.

pub mod cpu;
mod executor;
#[cfg(feature = "gpu")]
pub mod gpu;

pub use executor::{Binding, Executor, MemoryId, ProgramId, RunError};
