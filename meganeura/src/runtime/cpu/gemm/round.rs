//! Rounding operands to bfloat16 while they are packed.
//!
//! Where the processor multiplies pairs of such numbers, an element of a packed operand holds two
//! steps of depth in the 32 bits of a float, so that panels, micro-kernels and strides are those
//! of floats at half the depth. Elsewhere an element is one step, rounded, and the product that of
//! floats. Both add up in 32-bit floats. Steps beyond the depth are zero.

use super::pack::{Lines, WIDEST};
use super::vector::Vector;
use crate::ir::{Precision, bf16};
use std::marker::PhantomData;

/// How floats become the elements of a rounded operand.
///
/// # Safety
///
/// All functions may only be called on a CPU that has the instruction set, and pointers must be
/// valid for the floats that the functions say.
pub(super) trait Round {
    /// A register of elements.
    type Register: Vector;
    /// Steps of depth in an element, 1 or 2.
    const STEPS: usize;

    /// Elements of the first `count` of so many floats as a register has steps; zeros after them.
    unsafe fn along(from: *const f32, count: usize) -> Self::Register;
    /// The first `count` elements whose steps stand in these rows, one below the other; zeros
    /// after them and instead of a row that is null.
    unsafe fn across(rows: [*const f32; 2], count: usize) -> Self::Register;
    /// An element of these steps.
    fn element(steps: [f32; 2]) -> u32;
    /// As [`Round::along`], of numbers that are rounded already.
    unsafe fn along_halves(from: *const u16, count: usize) -> Self::Register;
    /// As [`Round::across`], of numbers that are rounded already.
    unsafe fn across_halves(rows: [*const u16; 2], count: usize) -> Self::Register;
}

/// One step in an element, for any instruction set.
pub(super) struct Single<V>(PhantomData<V>);

// SAFETY (of the bodies): the caller vouches for the instruction set and the pointers.
impl<V: Vector> Round for Single<V> {
    type Register = V;
    const STEPS: usize = 1;

    #[inline(always)]
    unsafe fn along(from: *const f32, count: usize) -> V {
        const { assert!(V::LANES <= WIDEST) };
        let mut lanes = [0.0; WIDEST];
        unsafe {
            if count >= V::LANES {
                V::load(from).store(lanes.as_mut_ptr());
            } else {
                V::load_first(from, count).store(lanes.as_mut_ptr());
            }
            for lane in &mut lanes[..V::LANES] {
                *lane = Precision::BF16.round(*lane);
            }
            V::load(lanes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn across([row, _]: [*const f32; 2], count: usize) -> V {
        unsafe { Self::along(row, count) }
    }

    #[inline(always)]
    fn element([step, _]: [f32; 2]) -> u32 {
        Precision::BF16.round(step).to_bits()
    }

    #[inline(always)]
    unsafe fn along_halves(from: *const u16, count: usize) -> V {
        let mut lanes = [0.0; WIDEST];
        unsafe {
            for (index, lane) in lanes.iter_mut().enumerate().take(count.min(V::LANES)) {
                *lane = bf16::widen(*from.add(index));
            }
            V::load(lanes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn across_halves([row, _]: [*const u16; 2], count: usize) -> V {
        unsafe { Self::along_halves(row, count) }
    }
}

/// Lines of an operand that memory holds as bfloat16.
#[derive(Clone, Copy, Debug)]
pub(super) struct HalfLines {
    pub from: *const u16,
    /// From one line to the next, or from one step of depth to the next; the other are neighbours.
    pub stride: usize,
    /// How many lines there are.
    pub count: usize,
    pub depth: usize,
}

/// As [`Rounder`], of numbers that are rounded already.
///
/// # Safety
///
/// As [`Rounder`].
pub(super) type HalfRounder = unsafe fn(&HalfLines, *mut f32, usize);

/// As [`lines`].
///
/// # Safety
///
/// As [`lines`].
#[inline(always)]
pub(super) unsafe fn half_lines<R: Round>(lines: &HalfLines, to: *mut f32, stride: usize) {
    let lanes = R::Register::LANES;
    for line in 0..lines.count {
        let from = lines.from.wrapping_add(line * lines.stride);
        let to = to.wrapping_add(line * stride);
        for (index, step) in (0..lines.depth).step_by(R::STEPS * lanes).enumerate() {
            // SAFETY: `depth` numbers of this line, and room for its elements.
            unsafe {
                let elements = R::along_halves(from.add(step), lines.depth - step);
                elements.store(to.add(index * lanes));
            }
        }
    }
}

/// As [`across`].
///
/// # Safety
///
/// As [`across`].
#[inline(always)]
pub(super) unsafe fn half_across<R: Round>(lines: &HalfLines, to: *mut f32, stride: usize) {
    let lanes = R::Register::LANES;
    for (index, step) in (0..lines.depth).step_by(R::STEPS).enumerate() {
        for line in (0..lines.count).step_by(lanes) {
            let row = |step: usize| match step < lines.depth {
                true => lines.from.wrapping_add(step * lines.stride + line),
                false => std::ptr::null(),
            };
            // SAFETY: these steps of `count` lines, and room for their elements.
            unsafe {
                let elements = R::across_halves([row(step), row(step + 1)], lines.count - line);
                elements.store(to.add(index * stride + line));
            }
        }
    }
}

/// Makes lines of an operand, `Lines::count` of them, into lines of elements with a stride.
///
/// # Safety
///
/// The CPU must have the rounder's instruction set and the lines be readable. What is written
/// must be valid, whole registers of it: either each line has room for its elements, or each
/// element for all lines. It may be the same memory if no line begins before the one it is made of.
pub(super) type Rounder = unsafe fn(&Lines, *mut f32, usize);

/// Lines whose depth is contiguous, as lines of contiguous elements.
///
/// # Safety
///
/// As [`Rounder`]; it must be inlined into a function compiled for the instruction set.
#[inline(always)]
pub(super) unsafe fn lines<R: Round>(lines: &Lines, to: *mut f32, stride: usize) {
    let lanes = R::Register::LANES;
    for line in 0..lines.count {
        let from = lines.from.wrapping_add(line * lines.line_stride);
        let to = to.wrapping_add(line * stride);
        for (index, step) in (0..lines.depth).step_by(R::STEPS * lanes).enumerate() {
            // SAFETY: `depth` floats of this line, and room for its elements.
            unsafe {
                R::along(from.add(step), lines.depth - step).store(to.add(index * lanes));
            }
        }
    }
}

/// Neighbouring lines, as neighbouring elements at each step.
///
/// # Safety
///
/// As [`Rounder`]; it must be inlined into a function compiled for the instruction set.
#[inline(always)]
pub(super) unsafe fn across<R: Round>(lines: &Lines, to: *mut f32, stride: usize) {
    let lanes = R::Register::LANES;
    for (index, step) in (0..lines.depth).step_by(R::STEPS).enumerate() {
        for line in (0..lines.count).step_by(lanes) {
            // SAFETY: these steps of `count` lines, and room for their elements.
            unsafe {
                neighbours::<R>(lines, step, line).store(to.add(index * stride + line));
            }
        }
    }
}

/// A register of neighbouring lines from `line` on, which need not be there, from a step on.
///
/// # Safety
///
/// As [`across`].
#[inline(always)]
unsafe fn neighbours<R: Round>(lines: &Lines, step: usize, line: usize) -> R::Register {
    let row = |step: usize| match step < lines.depth {
        true => lines.from.wrapping_add(step * lines.depth_stride + line),
        false => std::ptr::null(),
    };
    // SAFETY: passed on to the caller.
    unsafe { R::across([row(step), row(step + 1)], lines.count.saturating_sub(line)) }
}

/// The body of every packer that rounds, for panels of `REGISTERS` registers' width.
///
/// # Safety
///
/// As [`super::pack::Packer`], where the panel is as deep as there are elements; it must be
/// inlined into a function compiled for the instruction set.
#[inline(always)]
pub(super) unsafe fn panel<R: Round, const REGISTERS: usize>(lines: &Lines, panel: *mut f32) {
    let lanes = R::Register::LANES;
    let width = REGISTERS * lanes;
    // SAFETY: passed on to the caller.
    unsafe {
        if lines.line_stride == 1 {
            for (index, step) in (0..lines.depth).step_by(R::STEPS).enumerate() {
                for register in 0..REGISTERS {
                    let line = register * lanes;
                    let to = panel.add(index * width + line);
                    neighbours::<R>(lines, step, line).store(to);
                }
            }
        } else if lines.depth_stride == 1 {
            for line in (0..width).step_by(lanes) {
                for (index, step) in (0..lines.depth).step_by(R::STEPS * lanes).enumerate() {
                    let to = panel.add(index * lanes * width + line);
                    turn::<R>(lines, [line, step], to, width);
                }
            }
        } else {
            for (index, step) in (0..lines.depth).step_by(R::STEPS).enumerate() {
                for line in 0..width {
                    let element = match line < lines.count {
                        true => element::<R>(lines, [line, step]),
                        false => 0,
                    };
                    *panel.add(index * width + line).cast() = element;
                }
            }
        }
    }
}

/// Packs a square block of elements of lines whose depth is contiguous.
///
/// # Safety
///
/// As [`panel`].
#[inline(always)]
unsafe fn turn<R: Round>(lines: &Lines, [line, step]: [usize; 2], to: *mut f32, to_stride: usize) {
    const { assert!(R::Register::LANES <= WIDEST) };
    let lanes = R::Register::LANES;
    let mut block = [0.0; WIDEST * WIDEST];
    let count = lines.count.saturating_sub(line).min(lanes);
    let left = lines.depth - step;
    let from = lines.from.wrapping_add(line * lines.line_stride + step);
    // SAFETY: `count` lines with `left` steps each, and as many elements of the panel.
    unsafe {
        for line in 0..count {
            let elements = R::along(from.add(line * lines.line_stride), left);
            elements.store(block.as_mut_ptr().add(line * lanes));
        }
        if left >= R::STEPS * lanes {
            R::Register::transpose(block.as_ptr(), lanes, to, to_stride);
            return;
        }
        let mut turned = [0.0; WIDEST * WIDEST];
        R::Register::transpose(block.as_ptr(), lanes, turned.as_mut_ptr(), lanes);
        for index in 0..left.div_ceil(R::STEPS) {
            let elements = R::Register::load(turned.as_ptr().add(index * lanes));
            elements.store(to.add(index * to_stride));
        }
    }
}

/// Lines with any strides, as lines of contiguous elements.
///
/// # Safety
///
/// As [`Rounder`].
pub(super) unsafe fn gather<R: Round>(lines: &Lines, to: *mut f32, stride: usize) {
    for line in 0..lines.count {
        for (index, step) in (0..lines.depth).step_by(R::STEPS).enumerate() {
            // SAFETY: a step of a line, and room for its element.
            unsafe { *to.add(line * stride + index).cast() = element::<R>(lines, [line, step]) };
        }
    }
}

/// An element of a line, from a step on.
///
/// # Safety
///
/// The line and step must be readable.
unsafe fn element<R: Round>(lines: &Lines, [line, step]: [usize; 2]) -> u32 {
    let at = |step: usize| match step < lines.depth {
        // SAFETY: the caller's promise.
        true => unsafe {
            *lines
                .from
                .add(line * lines.line_stride + step * lines.depth_stride)
        },
        false => 0.0,
    };
    R::element([at(step), at(step + 1)])
}
