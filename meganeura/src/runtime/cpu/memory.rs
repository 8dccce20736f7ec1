use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use memmap2::MmapMut;

use crate::ir::DType;
use crate::runtime::RunError;

/// Zeroed memory on its own cache lines, shared by raw pointers.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    owner: Owner,
    elements: usize,
}

/// Where memory comes from.
#[derive(Debug)]
enum Owner {
    Heap(Layout),
    /// Of the system, in pages as large as it has: a step goes through so many small ones that
    /// the processor forgets where they are.
    Pages(#[expect(dead_code, reason = "it is held")] MmapMut),
}

// SAFETY: it is owned memory; who reads and writes it when is the executor's business.
unsafe impl Send for Memory {}
// SAFETY: as above; the methods only hand out the address.
unsafe impl Sync for Memory {}

/// A cache line, and a whole vector of any instruction set.
const ALIGNMENT: usize = 64;
/// Memory of at least as many bytes is worth large pages.
const MANY_BYTES: usize = 4 << 20;

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
        if let Some((start, pages)) = large_pages(layout.size()) {
            return Ok(Self {
                start,
                owner: Owner::Pages(pages),
                elements,
            });
        }
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| refused(0))?;
        Ok(Self {
            start,
            owner: Owner::Heap(layout),
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

/// Much memory in large pages, where the system has them and there is so much.
fn large_pages(bytes: usize) -> Option<(NonNull<u8>, MmapMut)> {
    if bytes < MANY_BYTES || !cfg!(target_os = "linux") {
        return None;
    }
    let mut pages = MmapMut::map_anon(bytes).ok()?;
    #[cfg(target_os = "linux")]
    pages.advise(memmap2::Advice::HugePage).ok()?;
    Some((NonNull::new(pages.as_mut_ptr())?, pages))
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Owner::Heap(layout) = self.owner {
            // SAFETY: it came from `alloc_zeroed` with this layout.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_on_its_own_lines_from_wherever_it_comes() -> Result<(), RunError> {
        for elements in [0, 1, 1000, MANY_BYTES / 4 - 1, MANY_BYTES / 4, MANY_BYTES] {
            let memory = Memory::new(elements, "a test")?;
            let region = memory.region();
            assert_eq!(region.base as usize % ALIGNMENT, 0);
            assert_eq!(region.elements, elements);
            // SAFETY: there are so many, and nobody else uses them.
            let all = unsafe { std::slice::from_raw_parts(region.base, elements) };
            assert!(all.iter().all(|&element| element == 0.0));
        }
        assert!(Memory::new(usize::MAX / 8, "too much").is_err());
        Ok(())
    }
}
