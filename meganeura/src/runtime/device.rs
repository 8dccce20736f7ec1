use std::fmt;
use std::num::NonZeroUsize;

use super::cpu::{Cache, CpuExecutor};
use super::{Executor, RunError};

/// Where a session runs, and why there.
///
/// ```
/// use meganeura::runtime::Device;
///
/// let device = Device::best();
/// println!("{device}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    kind: Kind,
    reason: String,
    cache: Cache,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cpu { threads: Option<NonZeroUsize> },
    Gpu,
}

impl Device {
    /// The processor, with one thread for each core.
    pub fn cpu() -> Device {
        Device {
            kind: Kind::Cpu { threads: None },
            reason: "asked for".to_owned(),
            cache: Cache::Standard,
        }
    }

    /// The processor, with this many threads (the caller's among them).
    pub fn cpu_with_threads(threads: NonZeroUsize) -> Device {
        Device {
            kind: Kind::Cpu {
                threads: Some(threads),
            },
            reason: "asked for".to_owned(),
            cache: Cache::Standard,
        }
    }

    /// The best GPU that Vulkan or Metal offers, a software driver if there is nothing else.
    /// Whether there is one shows when a session is made on it.
    pub fn gpu() -> Device {
        Device {
            kind: Kind::Gpu,
            reason: "asked for".to_owned(),
            cache: Cache::Standard,
        }
    }

    /// A real GPU if there is one, else the processor.
    pub fn best() -> Device {
        let (kind, reason) = match real_gpu() {
            Ok(name) => (Kind::Gpu, format!("found {name}")),
            Err(why) => (Kind::Cpu { threads: None }, format!("no GPU: {why}")),
        };
        Device {
            kind,
            reason,
            cache: Cache::Standard,
        }
    }

    /// A device by name: `cpu`, `gpu` or `best`.
    ///
    /// # Errors
    /// When the name is another.
    pub fn named(name: &str) -> Result<Device, RunError> {
        match name {
            "cpu" => Ok(Device::cpu()),
            "gpu" => Ok(Device::gpu()),
            "best" => Ok(Device::best()),
            _ => Err(RunError::Unavailable(format!(
                "there is no device called `{name}`: choose `cpu`, `gpu` or `best`"
            ))),
        }
    }

    /// The device that the environment variable `MEGANEURA_DEVICE` names, else the best.
    ///
    /// # Errors
    /// When it names none.
    pub fn from_env() -> Result<Device, RunError> {
        match std::env::var("MEGANEURA_DEVICE") {
            Ok(name) => Device::named(&name),
            Err(_) => Ok(Device::best()),
        }
    }

    /// The same with another place for what tuning finds ([`Session::tune`](super::Session::tune)).
    /// It is read when graphs are compiled, and changes how fast they run and nothing else.
    pub fn with_cache(self, cache: Cache) -> Device {
        Device { cache, ..self }
    }

    /// Why this device was chosen.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Start it.
    ///
    /// # Errors
    /// When it is not there.
    pub fn executor(&self) -> Result<Box<dyn Executor>, RunError> {
        match self.kind {
            Kind::Cpu { threads } => {
                let executor = CpuExecutor::new(threads).with_cache(self.cache.clone());
                Ok(Box::new(executor))
            }
            Kind::Gpu => gpu_executor(),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            Kind::Cpu { .. } => "CPU",
            Kind::Gpu => "GPU",
        };
        write!(f, "{name} ({})", self.reason)
    }
}

/// The name of a GPU that is not software, or why there is none.
#[cfg(feature = "gpu")]
fn real_gpu() -> Result<String, String> {
    let adapters = super::gpu::adapters().map_err(|why| why.to_string())?;
    match adapters.iter().find(|adapter| !adapter.is_software()) {
        Some(adapter) => Ok(adapter.name.clone()),
        None => Err("only a software driver".to_owned()),
    }
}

#[cfg(not(feature = "gpu"))]
fn real_gpu() -> Result<String, String> {
    Err("built without the feature `gpu`".to_owned())
}

#[cfg(feature = "gpu")]
fn gpu_executor() -> Result<Box<dyn Executor>, RunError> {
    match super::gpu::GpuExecutor::best() {
        Ok(executor) => Ok(Box::new(executor)),
        Err(RunError::Unavailable(why)) => Err(RunError::Unavailable(format!(
            "there is no GPU to use ({why}): install a Vulkan driver, or choose the CPU"
        ))),
        Err(other) => Err(other),
    }
}

#[cfg(not(feature = "gpu"))]
fn gpu_executor() -> Result<Box<dyn Executor>, RunError> {
    Err(RunError::Unavailable(
        "this program was built without the feature `gpu`".to_owned(),
    ))
}
