//! Packing: copying lines of an operand into a panel that a micro-kernel reads straight
//! through.
//!
//! In a panel of width `w`, step `d` of depth of line `l` stands at `d * w + l`. Lines are
//! the columns of B or the rows of A.

use super::compound::Runs;
use super::vector::Vector;

/// The most floats in a register.
pub(super) const WIDEST: usize = 16;

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
            transpose::<V>(lines, REGISTERS * V::LANES, panel, REGISTERS * V::LANES);
        } else {
            gather(lines, REGISTERS * V::LANES, panel);
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

/// The transpose of lines whose depth is contiguous, with zeros up to a multiple of a
/// register.
///
/// # Safety
///
/// As [`Packer`], where the panel's rows are this many floats apart.
pub(super) type Transposer = unsafe fn(&Lines, *mut f32, usize);

/// Packs lines whose depth is contiguous, block by block, as rows of a width and a stride.
///
/// # Safety
///
/// As [`panel`].
#[inline(always)]
pub(super) unsafe fn transpose<V: Vector>(
    lines: &Lines,
    width: usize,
    panel: *mut f32,
    stride: usize,
) {
    for line in (0..width).step_by(V::LANES) {
        let count = lines.count.saturating_sub(line).min(V::LANES);
        for step in (0..lines.depth).step_by(V::LANES) {
            let steps = (lines.depth - step).min(V::LANES);
            let from = lines.from.wrapping_add(line * lines.line_stride + step);
            // SAFETY: the block lies inside the panel, and its first `count` lines and
            // `steps` steps inside the lines.
            unsafe {
                let to = panel.add(step * stride + line);
                // The lines after these, too many for the hardware to follow; often another
                // panel's. Behind the last line it is a hint for nothing.
                for index in V::LANES..2 * V::LANES {
                    V::fetch(from.wrapping_add(index * lines.line_stride), false);
                }
                if count == V::LANES && steps == V::LANES {
                    V::transpose(from, lines.line_stride, to, stride);
                } else {
                    transpose_part::<V>(from, lines.line_stride, [count, steps], to, stride);
                }
            }
        }
    }
}

/// Transposes `count` lines of `steps` steps, and zeros for the other lines of a block.
///
/// # Safety
///
/// As [`panel`].
#[inline(always)]
unsafe fn transpose_part<V: Vector>(
    from: *const f32,
    from_stride: usize,
    [count, steps]: [usize; 2],
    to: *mut f32,
    to_stride: usize,
) {
    const { assert!(V::LANES <= WIDEST) };
    let mut block = [0.0; WIDEST * WIDEST];
    let mut transposed = [0.0; WIDEST * WIDEST];
    // SAFETY: `count` and `steps` are at most `LANES`, which fits the blocks.
    unsafe {
        for line in 0..count {
            let row = V::load_first(from.add(line * from_stride), steps);
            row.store(block.as_mut_ptr().add(line * V::LANES));
        }
        V::transpose(block.as_ptr(), V::LANES, transposed.as_mut_ptr(), V::LANES);
        for step in 0..steps {
            let row = V::load(transposed.as_ptr().add(step * V::LANES));
            row.store(to.add(step * to_stride));
        }
    }
}

/// Copies the runs of a row one behind the other, without touching more than `room` floats.
///
/// # Safety
///
/// The CPU must have the copier's instruction set, the runs must be readable from `from` on,
/// and `to` valid for `room` floats, which all runs fit.
pub(super) type Copier = unsafe fn(from: *const f32, &Runs<'_>, to: *mut f32, room: usize);

/// The body of every copier.
///
/// # Safety
///
/// As [`Copier`]; it must be inlined into a function compiled for the instruction set.
#[inline(always)]
pub(super) unsafe fn copy_runs<V: Vector>(
    from: *const f32,
    runs: &Runs<'_>,
    to: *mut f32,
    room: usize,
) {
    if runs.length <= V::LANES {
        let Some((&start, others)) = runs.starts.split_first() else {
            return;
        };
        if runs.skipped == 0 {
            // SAFETY: passed on to the caller.
            return unsafe { copy_short_runs::<V>(from, runs, to, room) };
        }
        let first = (runs.length - runs.skipped).min(runs.count);
        let others = Runs {
            starts: others,
            skipped: 0,
            count: runs.count - first,
            ..*runs
        };
        // SAFETY: the runs are readable, and the room holds what is stored.
        return unsafe {
            copy_run::<V>(from.add(start + runs.skipped), first, to, room);
            copy_short_runs::<V>(from, &others, to.add(first), room - first);
        };
    }
    let (mut done, mut skipped) = (0, runs.skipped);
    for &start in runs.starts {
        let length = (runs.length - skipped).min(runs.count - done);
        // SAFETY: the run is readable, and the room holds what is stored.
        unsafe {
            let from = from.add(start + skipped);
            copy_run::<V>(from, length, to.add(done), room - done);
        }
        done += length;
        skipped = 0;
        if done == runs.count {
            break;
        }
    }
}

/// Copies runs of at most a register, whole but for the last.
///
/// # Safety
///
/// As [`copy_runs`].
#[inline(always)]
unsafe fn copy_short_runs<V: Vector>(from: *const f32, runs: &Runs<'_>, to: *mut f32, room: usize) {
    let length = runs.length;
    // What is stored behind a run is overwritten by the next.
    let roomy = (room + length).saturating_sub(V::LANES) / length;
    let whole = runs.count / length;
    let (first, rest) = runs.starts.split_at(whole.min(roomy));
    // SAFETY: the runs are readable, and the room holds what is stored.
    unsafe {
        for (index, &start) in first.iter().enumerate() {
            V::load_first(from.add(start), length).store(to.add(index * length));
        }
        let mut done = first.len() * length;
        for &start in rest {
            let length = length.min(runs.count - done);
            if length == 0 {
                break;
            }
            copy_run::<V>(from.add(start), length, to.add(done), room - done);
            done += length;
        }
    }
}

/// Copies one run.
///
/// # Safety
///
/// As [`copy_runs`].
#[inline(always)]
unsafe fn copy_run<V: Vector>(from: *const f32, length: usize, to: *mut f32, room: usize) {
    let whole = length / V::LANES * V::LANES;
    let rest = length - whole;
    // SAFETY: the run is readable, and the room holds what is stored.
    unsafe {
        for at in (0..whole).step_by(V::LANES) {
            V::load(from.add(at)).store(to.add(at));
        }
        if rest == 0 {
            return;
        }
        let last = V::load_first(from.add(whole), rest);
        if whole + V::LANES <= room {
            last.store(to.add(whole));
        } else {
            last.store_first(to.add(whole), rest);
        }
    }
}

/// Packs lines float by float.
///
/// # Safety
///
/// As [`panel`].
unsafe fn gather(lines: &Lines, width: usize, panel: *mut f32) {
    for step in 0..lines.depth {
        for line in 0..width {
            // SAFETY: inside the panel, and if there is such a line, inside the lines.
            unsafe {
                let to = panel.add(step * width + line);
                *to = if line < lines.count {
                    *lines
                        .from
                        .add(line * lines.line_stride + step * lines.depth_stride)
                } else {
                    0.0
                };
            }
        }
    }
}
