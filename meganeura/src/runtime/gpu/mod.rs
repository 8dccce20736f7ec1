//! The GPU executor: Vulkan and Metal through `blade-graphics`.
//!
//! Three facts about that library shape this module. It does not check sizes or
//! dispatch counts against the device's limits, and panics when an allocation
//! fails, so [`Limits`] are enforced here, before asking. Shaders run without
//! bounds checks, so generated code guards every index. Dispatches of one pass
//! are not ordered unless a barrier stands between them, so barriers follow from
//! the memory each dispatch declares to read and write ([`hazard`]), never from
//! what happens to work on one driver.

pub mod adapter;
pub mod buffer;
pub mod context;
pub mod error;
mod executor;
pub mod hazard;
pub mod pipeline;
pub mod queue;

#[cfg(test)]
mod tests;

pub use adapter::{Adapter, AdapterKind, Limits, adapters};
pub use buffer::Buffer;
pub use context::Context;
pub use error::GpuError;
pub use executor::GpuExecutor;
pub use hazard::{Access, Region};
pub use pipeline::{Binding, Pipeline, binding_name};
pub use queue::{Dispatch, Queue};
