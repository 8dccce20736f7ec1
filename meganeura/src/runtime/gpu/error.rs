//! What can go wrong on a GPU.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error of the GPU executor.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no driver, no adapter, or the requested one cannot be used.
    #[error("no usable GPU: {0}")]
    Unavailable(String),
    /// Something is larger than the device allows.
    #[error("{what} needs {needed} {unit}, but the device allows {allowed}")]
    TooLarge {
        /// What was asked for.
        what: String,
        /// How much was asked for.
        needed: u64,
        /// How much the device can give.
        allowed: u64,
        /// The unit of both figures.
        unit: &'static str,
    },
    /// A generated shader was refused. This is a defect of the code generator.
    #[error("the shader of kernel `{kernel}` was refused: {reason}")]
    Shader {
        /// The kernel's name.
        kernel: String,
        /// What the shader compiler said.
        reason: String,
    },
    /// A command was put together wrongly, or data of a wrong size was given.
    #[error("{0}")]
    Invalid(String),
    /// The driver failed while allocating or executing.
    #[error("the GPU driver failed: {0}")]
    Driver(String),
}

/// Runs a call into the graphics library, which reports driver failures (out of
/// memory, a lost device) by panicking, and hands such a failure back as an error.
pub(super) fn guarded<R>(what: &str, call: impl FnOnce() -> R) -> Result<R, GpuError> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("unknown reason");
        GpuError::Driver(format!("{what}: {message}"))
    })
}
