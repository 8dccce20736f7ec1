use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::runtime::RunError;

/// Zeroed memory on its own cache lines, shared by raw pointers.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    elements: usize,
}

// SAFETY: it is owned memory; who reads and writes it when is the executor's business.
unsafe impl Send for Memory {}
// SAFETY: as above; the methods only hand out the address.
unsafe impl Sync for Memory {}

/// A cache line, and a whole vector of any instruction set.
const ALIGNMENT: usize = 64;

impl Memory {
    /// Memory for this many elements of four bytes.
    pub(super) fn new(elements: usize, what: &str) -> Result<Self, RunError> {
        let refused = |limit| RunError::OutOfMemory {
            what: what.to_owned(),
            bytes: elements.saturating_mul(4),
            limit,
        };
        let bytes = elements.max(1).checked_mul(4);
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, ALIGNMENT).ok());
        let layout = layout.ok_or_else(|| refused(isize::MAX as usize))?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| refused(0))?;
        Ok(Self {
            start,
            layout,
            elements,
        })
    }

    /// The whole of it.
    pub(super) fn region(&self) -> Region {
        Region {
            base: self.start.as_ptr().cast(),
            elements: self.elements,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc_zeroed` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    /// Its first element.
    pub(super) base: *mut f32,
    /// The number of elements, four bytes each.
    pub(super) elements: usize,
}

// SAFETY: a plain address; who uses it when is the executor's business.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Whether two buffers share an element.
    pub(super) fn overlaps(self, other: Region) -> bool {
        let range = |region: Region| {
            let start = region.base as usize;
            (start, start + region.elements * 4)
        };
        let ((a, a_end), (b, b_end)) = (range(self), range(other));
        a < b_end && b < a_end
    }
}
