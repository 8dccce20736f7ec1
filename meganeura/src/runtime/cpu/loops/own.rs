//! Memory that only one worker writes.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A pair of cache lines: they are fetched in pairs.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Lines(#[expect(dead_code, reason = "it is room for values")] [u8; 128]);

/// Values on cache lines of their own. What workers write in every row must not share lines
/// with what others write: the lines would wander from core to core all the time.
pub(super) struct Own<T> {
    lines: Vec<Lines>,
    length: usize,
    of: PhantomData<T>,
}

impl<T: Copy> Own<T> {
    /// So many copies of a value.
    pub(super) fn filled(value: T, length: usize) -> Self {
        Self::from_fn(length, |_| value)
    }

    /// A value for each index.
    pub(super) fn from_fn(length: usize, value: impl Fn(usize) -> T) -> Self {
        const { assert!(align_of::<T>() <= align_of::<Lines>()) };
        let lines = (length * size_of::<T>()).div_ceil(size_of::<Lines>());
        let mut lines = vec![Lines([0; 128]); lines];
        let start = lines.as_mut_ptr().cast::<T>();
        for index in 0..length {
            // SAFETY: the lines have room for `length` values and are aligned for them.
            unsafe { start.add(index).write(value(index)) };
        }
        Self {
            lines,
            length,
            of: PhantomData,
        }
    }
}

impl<T> Deref for Own<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `from_fn` has written so many values there.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.length) }
    }
}

impl<T> DerefMut for Own<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_on_lines_of_their_own() {
        let mut counts = Own::from_fn(40, |index| index);
        counts[39] += 1;
        assert_eq!((counts.len(), counts[0], counts[39]), (40, 0, 40));
        assert_eq!(counts.as_ptr() as usize % 128, 0);
        assert!(Own::filled(1.0f64, 0).is_empty());
    }
}
