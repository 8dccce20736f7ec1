//! Packing: copying lines of an operand into a panel that a micro-kernel reads straight
//! through.
//!
//! In a panel of width `w`, step `d` of depth of line `l` stands at `d * w + l`. Lines are
//! the columns of B or the rows of A.

use super::vector::Vector;

/// Some lines of an operand in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub from: *const f32,
    /// From one line to the next.
    pub line_stride: usize,
    /// From one step of depth to the next.
    pub depth_stride: usize,
    /// How many lines there are; the rest of the panel becomes zero.
    pub count: usize,
    pub depth: usize,
}

impl Lines {
    /// The same, counted as if `lines` lines stood before the first.
    pub fn before(&self, lines: usize) -> Self {
        Self {
            from: self.from.wrapping_sub(lines * self.line_stride),
            ..*self
        }
    }
}

/// # Safety
///
/// The CPU must have the packer's instruction set, the lines must be readable, and the
/// panel valid for `depth` times its width.
pub(super) type Packer = unsafe fn(&Lines, *mut f32);

/// The body of every packer, for panels of `REGISTERS` registers' width.
///
/// # Safety
///
/// As [`Packer`]; it must be inlined into a function compiled for the instruction set.
#[inline(always)]
pub(super) unsafe fn panel<V: Vector, const REGISTERS: usize>(lines: &Lines, panel: *mut f32) {
    // SAFETY: passed on to the caller.
    unsafe {
        if lines.line_stride == 1 {
            copy::<V, REGISTERS>(lines, panel);
        } else if lines.depth_stride == 1 {
            transpose::<V>(lines, REGISTERS * V::LANES, panel);
        } else {
            gather(lines, REGISTERS * V::LANES, 0..lines.count, 0, panel);
            clear(lines, REGISTERS * V::LANES, panel);
        }
    }
}

/// Packs lines that are neighbours in memory at each step of depth.
///
/// # Safety
///
/// As [`panel`].
#[inline(always)]
unsafe fn copy<V: Vector, const REGISTERS: usize>(lines: &Lines, panel: *mut f32) {
    let width = REGISTERS * V::LANES;
    for step in 0..lines.depth {
        for register in 0..REGISTERS {
            let lane = register * V::LANES;
            // SAFETY: lines below `count` are readable and the panel is `width` wide; where
            // no line is left, no float is read.
            unsafe {
                let to = panel.add(step * width + lane);
                let from = lines.from.wrapping_add(step * lines.depth_stride + lane);
                if lines.count >= lane + V::LANES {
                    V::load(from).store(to);
                } else {
                    V::load_first(from, lines.count.saturating_sub(lane)).store(to);
                }
            }
        }
    }
}

/// Packs lines whose depth is contiguous, block by block.
///
/// # Safety
///
/// As [`panel`].
#[inline(always)]
unsafe fn transpose<V: Vector>(lines: &Lines, width: usize, panel: *mut f32) {
    let whole_lines = lines.count / V::LANES * V::LANES;
    let whole_depth = lines.depth / V::LANES * V::LANES;
    // SAFETY: the blocks lie inside the lines and inside the panel.
    unsafe {
        for line in (0..whole_lines).step_by(V::LANES) {
            for step in (0..whole_depth).step_by(V::LANES) {
                V::transpose(
                    lines.from.add(line * lines.line_stride + step),
                    lines.line_stride,
                    panel.add(step * width + line),
                    width,
                );
            }
        }
        gather(lines, width, 0..whole_lines, whole_depth, panel);
        gather(lines, width, whole_lines..lines.count, 0, panel);
        clear(lines, width, panel);
    }
}

/// Packs the given lines from a step of depth on, float by float.
///
/// # Safety
///
/// As [`panel`].
#[inline(always)]
unsafe fn gather(
    lines: &Lines,
    width: usize,
    chosen: std::ops::Range<usize>,
    first_step: usize,
    panel: *mut f32,
) {
    for line in chosen {
        for step in first_step..lines.depth {
            // SAFETY: inside the lines and inside the panel.
            unsafe {
                let from = lines
                    .from
                    .add(line * lines.line_stride + step * lines.depth_stride);
                *panel.add(step * width + line) = *from;
            }
        }
    }
}

/// Writes zeros where a panel has no lines.
///
/// # Safety
///
/// As [`panel`].
#[inline(always)]
unsafe fn clear(lines: &Lines, width: usize, panel: *mut f32) {
    for step in 0..lines.depth {
        for line in lines.count..width {
            // SAFETY: inside the panel.
            unsafe { *panel.add(step * width + line) = 0.0 };
        }
    }
}
