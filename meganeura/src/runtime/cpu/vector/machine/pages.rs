//! Memory that code may be in, where the system allows it.

use memmap2::{Mmap, MmapMut};

/// Code in memory of its own, which cannot be written to any more.
#[derive(Debug)]
pub(super) struct Pages(Mmap);

impl Pages {
    /// A copy of code, unless the system allows none.
    pub(super) fn new(code: &[u8]) -> Option<Self> {
        let mut memory = MmapMut::map_anon(code.len()).ok()?;
        memory.copy_from_slice(code);
        memory.make_exec().ok().map(Pages)
    }

    /// Where the code begins.
    pub(super) fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }
}
