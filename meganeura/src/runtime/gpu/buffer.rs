//! Device memory.

use super::context::Context;
use super::error::GpuError;
use blade_graphics as blade;
use std::sync::Arc;

/// A buffer on the device, freed when dropped.
#[derive(Debug)]
pub struct Buffer {
    context: Arc<Context>,
    raw: blade::Buffer,
    bytes: u64,
}

impl Buffer {
    /// Memory that only the device touches.
    pub fn device(context: &Arc<Context>, name: &str, bytes: u64) -> Result<Self, GpuError> {
        Self::create(context, name, bytes, blade::Memory::Device)
    }

    /// Memory that both the processor and the device can reach.
    pub fn shared(context: &Arc<Context>, name: &str, bytes: u64) -> Result<Self, GpuError> {
        Self::create(context, name, bytes, blade::Memory::Shared)
    }

    /// Memory through which data goes to the device.
    pub fn upload(context: &Arc<Context>, name: &str, bytes: u64) -> Result<Self, GpuError> {
        Self::create(context, name, bytes, blade::Memory::Upload)
    }

    /// Memory through which data comes back from the device.
    pub fn download(context: &Arc<Context>, name: &str, bytes: u64) -> Result<Self, GpuError> {
        Self::create(context, name, bytes, blade::Memory::Download)
    }

    fn create(
        context: &Arc<Context>,
        name: &str,
        bytes: u64,
        memory: blade::Memory,
    ) -> Result<Self, GpuError> {
        // A tensor may be empty, a buffer may not; and shaders read in units of 16 bytes.
        let bytes = bytes.max(1).next_multiple_of(16);
        let free = context.free_bytes().unwrap_or(u64::MAX);
        let allowed = context.limits().buffer_bytes.min(free);
        if bytes > allowed {
            return Err(GpuError::TooLarge {
                what: format!("buffer `{name}`"),
                needed: bytes,
                allowed,
                unit: "bytes",
            });
        }
        let desc = blade::BufferDesc {
            name,
            size: bytes,
            memory,
        };
        let raw = context.guarded("allocating a buffer", || context.raw().create_buffer(desc))?;
        Ok(Self {
            context: context.clone(),
            raw,
            bytes,
        })
    }

    /// The buffer's size, which is the requested one rounded up to 16 bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn at(&self, offset: u64) -> blade::BufferPiece {
        self.raw.at(offset)
    }

    /// True when the processor can reach the memory directly.
    pub fn is_mapped(&self) -> bool {
        !self.raw.data().is_null()
    }

    /// Copies bytes into mapped memory. The device must not be using that range.
    pub fn write_mapped(&self, offset: u64, data: &[u8]) -> Result<(), GpuError> {
        let target = self.mapped_range(offset, data.len())?;
        // SAFETY: `mapped_range` checked that the whole range lies within the mapping,
        // and a slice of ours cannot overlap memory that the driver mapped.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), target, data.len()) };
        Ok(())
    }

    /// Copies bytes out of mapped memory. The device must have finished writing them.
    pub fn read_mapped(&self, offset: u64, data: &mut [u8]) -> Result<(), GpuError> {
        let source = self.mapped_range(offset, data.len())?;
        // SAFETY: as for `write_mapped`.
        unsafe { std::ptr::copy_nonoverlapping(source, data.as_mut_ptr(), data.len()) };
        Ok(())
    }

    /// Fills mapped memory with zeros. The device must not be using it.
    pub fn clear_mapped(&self) -> Result<(), GpuError> {
        let bytes = usize::try_from(self.bytes)
            .map_err(|_| GpuError::Invalid("a buffer beyond the address space".to_owned()))?;
        let target = self.mapped_range(0, bytes)?;
        // SAFETY: as for `write_mapped`.
        unsafe { std::ptr::write_bytes(target, 0, bytes) };
        Ok(())
    }

    fn mapped_range(&self, offset: u64, bytes: usize) -> Result<*mut u8, GpuError> {
        let end = offset.checked_add(bytes as u64);
        if !self.is_mapped() || end.is_none_or(|end| end > self.bytes) {
            return Err(GpuError::Invalid(format!(
                "bytes {offset}+{bytes} are outside of a mapped buffer of {} bytes",
                self.bytes
            )));
        }
        // SAFETY: the offset was just found to lie within the mapping.
        Ok(unsafe { self.raw.data().add(offset as usize) })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // The device may still be using the buffer; a failed device frees nothing.
        if self.context.wait().is_ok() && !self.context.has_failed() {
            self.context.raw().destroy_buffer(self.raw);
        }
    }
}
