//! Memory that code may be in, on systems that we know how to ask for it.

use std::ffi::c_void;
use std::ptr::NonNull;

// The C library is there wherever the standard library is.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
unsafe extern "C" {
    fn mmap(
        address: *mut c_void,
        length: usize,
        protection: i32,
        flags: i32,
        file: i32,
        offset: i64,
    ) -> *mut c_void;
    fn mprotect(address: *mut c_void, length: usize, protection: i32) -> i32;
    fn munmap(address: *mut c_void, length: usize) -> i32;
}

/// Code in memory of its own, which cannot be written to any more.
#[derive(Debug)]
pub(super) struct Pages {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: nobody writes to it.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// A copy of code, unless the system allows none.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(super) fn new(code: &[u8]) -> Option<Self> {
        const READ: i32 = 1;
        const WRITE: i32 = 2;
        const EXECUTE: i32 = 4;
        const PRIVATE_ANONYMOUS: i32 = 0x22;
        let length = code.len();
        // SAFETY: new memory is asked for, written to while nobody else knows it, and only
        // then handed out.
        unsafe {
            let protection = READ | WRITE;
            let null = std::ptr::null_mut();
            let start = mmap(null, length, protection, PRIVATE_ANONYMOUS, -1, 0);
            if start.addr() == usize::MAX {
                return None;
            }
            let pages = Pages {
                start: NonNull::new(start)?,
                length,
            };
            start
                .cast::<u8>()
                .copy_from_nonoverlapping(code.as_ptr(), length);
            (mprotect(start, length, READ | EXECUTE) == 0).then_some(pages)
        }
    }

    /// No system that we know.
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    pub(super) fn new(_: &[u8]) -> Option<Self> {
        None
    }

    /// Where the code begins.
    pub(super) fn start(&self) -> *const c_void {
        self.start.as_ptr()
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it came from `mmap` with this length.
        unsafe { munmap(self.start.as_ptr(), self.length) };
    }
}
