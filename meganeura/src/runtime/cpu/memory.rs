use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::ir::DType;
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
            dtype: DType::F32,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it came from `alloc_zeroed` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// How an element lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// A float: as kernels compute with it.
    Float,
    /// An integer.
    Word,
    /// The upper half of a float.
    Half,
}

impl Element {
    /// How elements of a type lie.
    pub(super) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 | DType::Bool => Element::Float,
            DType::U32 => Element::Word,
            DType::BF16 => Element::Half,
        }
    }

    /// The address of an element, so many after one.
    pub(super) fn step(self, from: *mut f32, elements: usize) -> *mut f32 {
        match self {
            Element::Float | Element::Word => from.wrapping_add(elements),
            Element::Half => from.cast::<u16>().wrapping_add(elements).cast(),
        }
    }
}

/// Where a buffer lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    /// Its first element.
    pub(super) base: *mut f32,
    /// The number of elements.
    pub(super) elements: usize,
    /// Their type.
    pub(super) dtype: DType,
}

// SAFETY: a plain address; who uses it when is the executor's business.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// The address of an element.
    pub(super) fn at(self, element: usize) -> *mut f32 {
        Element::of(self.dtype).step(self.base, element)
    }

    /// Whether two buffers share an element.
    pub(super) fn overlaps(self, other: Region) -> bool {
        let range = |region: Region| {
            let start = region.base as usize;
            (start, start + region.elements * region.dtype.size())
        };
        let ((a, a_end), (b, b_end)) = (range(self), range(other));
        a < b_end && b < a_end
    }
}
