//! Plans on devices: the executors, and the session that binds plans to one of them.

pub mod cpu;
mod device;
mod executor;
#[cfg(feature = "gpu")]
pub mod gpu;
mod session;
mod tuning;
mod variables;

pub use cpu::Cache;
pub use device::Device;
pub use executor::{Binding, Executor, MemoryId, ProgramId, RunError};
pub(crate) use session::Draft;
pub use session::{Elements, Session, SessionError, StepId};
pub use tuning::{Tuned, Tuning};
