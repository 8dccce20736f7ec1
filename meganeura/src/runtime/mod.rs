//! Plans on devices.

pub mod cpu;
mod executor;

pub use executor::{Binding, Executor, MemoryId, ProgramId, RunError};
