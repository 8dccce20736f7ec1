//! Small loops over memory, and addresses.

use super::super::memory::Element;
use super::super::vector::VectorFn;
use crate::ir::{Combine, bf16};

/// Rows shorter than this are folded side by side.
pub(super) const ROW: usize = 32;
/// How many at a time.
pub(super) const ROWS: usize = 16;

pub(super) fn address(strides: &[usize], index: &[usize]) -> usize {
    strides
        .iter()
        .zip(index)
        .map(|(stride, i)| stride * i)
        .sum()
}

/// The address part of a row.
pub(super) fn row_address(dims: &[usize], strides: &[usize], mut row: usize) -> usize {
    let mut address = 0;
    for (&dim, &stride) in dims.iter().zip(strides).rev() {
        address += row % dim.max(1) * stride;
        row /= dim.max(1);
    }
    address
}

/// The index along each axis of a row.
pub(super) fn unflatten(dims: &[usize], mut row: usize, index: &mut [usize]) {
    for (i, &dim) in index.iter_mut().zip(dims).rev() {
        *i = row % dim.max(1);
        row /= dim.max(1);
    }
}

pub(super) unsafe fn fill(to: *mut f32, count: usize, value: f32) {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(to, count) }.fill(value);
}

/// Asks for memory that is needed soon.
pub(super) fn fetch(from: *const f32, to: *const f32) {
    /// Bytes of a cache line.
    const LINE: usize = 64;
    let bytes = (to as usize).saturating_sub(from as usize);
    for line in (0..bytes).step_by(LINE) {
        let from = from.wrapping_byte_add(line);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint; it reads nothing that the program could notice.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(from.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = from;
    }
}

/// Whole numbers in a row.
pub(super) fn count_from(first: usize, to: &mut [f32]) {
    match i32::try_from(first + to.len()) {
        // Converting these is a vector instruction everywhere.
        Ok(end) => {
            let numbers = first as i32..end;
            to.iter_mut()
                .zip(numbers)
                .for_each(|(to, number)| *to = number as f32);
        }
        Err(_) => {
            let numbers = first..;
            to.iter_mut()
                .zip(numbers)
                .for_each(|(to, number)| *to = number as f32);
        }
    }
}

/// [`ROWS`] short rows, each in one number.
pub(super) unsafe fn fold_rows(how: Combine, from: *const f32, columns: usize, to: *mut f32) {
    let mut totals = [how.identity(); ROWS];
    for column in 0..columns {
        for (row, total) in totals.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let value = unsafe { from.add(row * columns + column).read() };
            *total = match how {
                Combine::Sum => *total + value,
                Combine::Maximum if *total > value || total.is_nan() => *total,
                Combine::Maximum => value,
            };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[f32; ROWS]>().write_unaligned(totals) };
}

pub(super) unsafe fn fold_one(how: Combine, fold: VectorFn, from: *const f32, count: usize) -> f32 {
    let mut cell = f64::from(how.identity());
    // SAFETY: the caller's promise.
    unsafe {
        fold(
            (&raw mut cell).cast(),
            from,
            std::ptr::null(),
            std::ptr::null(),
            count,
        );
    }
    cell as f32
}

/// Elements some apart, as floats side by side.
pub(super) unsafe fn gather(
    to: *mut f32,
    from: *const f32,
    count: usize,
    stride: usize,
    element: Element,
) {
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let value = match element {
                Element::Float => from.add(i * stride).read(),
                Element::Word => from.cast::<u32>().add(i * stride).read() as f32,
                Element::Half => bf16::widen(from.cast::<u16>().add(i * stride).read()),
            };
            to.add(i).write(value);
        }
    }
}

/// The opposite; a splat is repeated.
pub(super) unsafe fn scatter(
    to: *mut f32,
    from: *const f32,
    count: usize,
    stride: usize,
    element: Element,
    splat: bool,
) {
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let value = from.add(if splat { 0 } else { i }).read();
            match element {
                Element::Float => to.add(i * stride).write(value),
                Element::Word => to.cast::<u32>().add(i * stride).write(value as u32),
                Element::Half => to.cast::<u16>().add(i * stride).write(bf16::round(value)),
            }
        }
    }
}

/// Counts through the rows.
pub(super) struct Odometer<'a> {
    pub(super) dims: &'a [usize],
    pub(super) index: &'a mut [usize],
}

impl<'a> Odometer<'a> {
    pub(super) fn new(dims: &'a [usize], index: &'a mut [usize]) -> Self {
        Self { dims, index }
    }

    /// So many rows further, at most to the end of the last axis.
    pub(super) fn skip(&mut self, rows: usize) {
        if let Some(last) = self.index.last_mut() {
            *last += rows.saturating_sub(1);
        }
        self.advance();
    }

    pub(super) fn advance(&mut self) {
        for (i, &dim) in self.index.iter_mut().zip(self.dims).rev() {
            *i += 1;
            if *i < dim {
                return;
            }
            *i = 0;
        }
    }
}
