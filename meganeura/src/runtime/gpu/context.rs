//! An opened GPU.

use super::adapter::{self, Adapter, Limits};
use super::error::{GpuError, guarded};
use super::pipeline::Pipeline;
use blade_graphics as blade;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An opened GPU: the driver's context, its limits, and the pipelines compiled so far.
pub struct Context {
    raw: blade::Context,
    adapter: Adapter,
    limits: Limits,
    /// Set after the driver failed within the graphics library; nothing is freed from
    /// then on, because its locks may be left poisoned.
    failed: AtomicBool,
    /// The last submission. Everything submitted before it is complete when it is.
    last: Mutex<Option<blade::SyncPoint>>,
    /// Compiled pipelines by their source text.
    pub(super) pipelines: Mutex<HashMap<String, Arc<Pipeline>>>,
}

impl Context {
    /// Opens the best GPU: discrete, then integrated, then a software driver.
    pub fn best() -> Result<Arc<Self>, GpuError> {
        let adapters = adapter::adapters()?;
        Self::open(adapter::choose(&adapters)?)
    }

    /// Opens the GPU with the given id, as [`adapters`](super::adapters) lists them.
    pub fn with_device_id(device_id: u32) -> Result<Arc<Self>, GpuError> {
        let adapters = adapter::adapters()?;
        let found = adapters
            .iter()
            .find(|adapter| adapter.device_id == device_id)
            .ok_or_else(|| GpuError::Unavailable(format!("no device has the id {device_id:#x}")))?;
        match &found.rejected {
            Some(reason) => Err(GpuError::Unavailable(format!("{found}: {reason}"))),
            None => Self::open(found),
        }
    }

    /// A device is opened once for all that use it at the same time, so that they share
    /// its pipelines.
    fn open(adapter: &Adapter) -> Result<Arc<Self>, GpuError> {
        static OPEN: Mutex<Vec<Weak<Context>>> = Mutex::new(Vec::new());
        let mut open = lock(&OPEN);
        open.retain(|context| context.strong_count() > 0);
        let mut alive = open.iter().filter_map(Weak::upgrade);
        let same = |context: &Arc<Context>| {
            context.adapter.device_id == adapter.device_id && !context.has_failed()
        };
        if let Some(context) = alive.find(same) {
            return Ok(context);
        }
        let context = Self::open_anew(adapter)?;
        open.push(Arc::downgrade(&context));
        Ok(context)
    }

    fn open_anew(adapter: &Adapter) -> Result<Arc<Self>, GpuError> {
        let desc = blade::ContextDesc {
            device_id: Some(adapter.device_id),
            ..Default::default()
        };
        // SAFETY: the library asks that no other code loads or unloads the driver
        // meanwhile; nothing here does.
        let raw = guarded("opening the device", || unsafe {
            blade::Context::init(desc)
        })?
        .map_err(|error| GpuError::Unavailable(error.to_string()))?;
        // The opened device may differ from the listed one when two share an id.
        let mut adapter = Adapter::from_information(adapter.device_id, raw.device_information());
        adapter.set_capabilities(&raw.capabilities());
        Ok(Arc::new(Self {
            raw,
            limits: Limits::of(&adapter),
            adapter,
            failed: AtomicBool::new(false),
            last: Mutex::new(None),
            pipelines: Mutex::new(HashMap::new()),
        }))
    }

    /// What the driver says about the device.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// What the device allows.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Bytes of device memory that are still free, where the driver tells.
    pub fn free_bytes(&self) -> Option<u64> {
        let stats = self.raw.memory_stats();
        (stats.budget > 0).then(|| stats.budget.saturating_sub(stats.usage))
    }

    /// Waits until everything submitted so far is complete.
    pub fn wait(&self) -> Result<(), GpuError> {
        let last = lock(&self.last).clone();
        match last {
            Some(point) => self.wait_for(&point),
            None => Ok(()),
        }
    }

    pub(super) fn raw(&self) -> &blade::Context {
        &self.raw
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Calls into the library, and remembers a failure of the driver.
    pub(super) fn guarded<R>(&self, what: &str, call: impl FnOnce() -> R) -> Result<R, GpuError> {
        if self.has_failed() {
            return Err(GpuError::Driver(format!(
                "{what}: the device failed before"
            )));
        }
        guarded(what, call).inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
    }

    pub(super) fn submit(
        &self,
        encoder: &mut blade::CommandEncoder,
    ) -> Result<blade::SyncPoint, GpuError> {
        let point = self.guarded("submitting", || self.raw.submit(encoder))?;
        *lock(&self.last) = Some(point.clone());
        Ok(point)
    }

    pub(super) fn wait_for(&self, point: &blade::SyncPoint) -> Result<(), GpuError> {
        loop {
            match self.guarded("waiting", || self.raw.wait_for(point, !0))? {
                Ok(true) => return Ok(()),
                Ok(false) => continue,
                Err(error) => {
                    self.failed.store(true, Ordering::Relaxed);
                    return Err(GpuError::Driver(error.to_string()));
                }
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.has_failed() {
            return;
        }
        let _ = self.wait();
        for (_, pipeline) in std::mem::take(&mut *lock(&self.pipelines)) {
            // Whoever holds a pipeline holds the context, so none is left by now.
            if let Some(mut pipeline) = Arc::into_inner(pipeline) {
                self.raw.destroy_compute_pipeline(&mut pipeline.raw);
            }
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context({})", self.adapter)
    }
}

/// Locks a mutex whose data stays valid when a holder panicked.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
