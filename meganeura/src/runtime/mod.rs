//! The devices that execute a plan.

#[cfg(feature = "gpu")]
pub mod gpu;
