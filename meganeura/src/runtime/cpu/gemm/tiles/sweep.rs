//! Micro-kernels for products that are done before a call of the contraction engine's would have begun.
//!
//! A tile of attention's scores has 48 or 64 steps of depth, so that what is done between tiles counts.
//! Results of a tile wait in the processor's store queue until its sums are complete, and whatever else
//! is stored meanwhile (saved registers, operands of calls) waits behind them: when the queue is full,
//! nothing is multiplied. So a kernel goes over all tiles of a product, and these are no taller than the
//! latency of sums asks for.

use super::super::kernel::{store_part_of_row, store_row};
use super::super::vector::{Portable, Vector};
use super::queue::{Queue, Soon};
use std::sync::OnceLock;

/// The steps of depth of a tile.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::runtime::cpu) struct Span {
    pub first: usize,
    pub count: usize,
    /// Add to what is in C instead of overwriting it.
    pub accumulate: bool,
}

/// `c[i, j] (+)= Σ_d a[i, d] · b[d, j]` for tiles of a kernel's height, one below the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub tiles: usize,
    /// Of the first tile, and from one tile's to the next: 1, or 0 where all have the same.
    pub spans: *const Span,
    pub span_step: usize,
    pub a: *const f32,
    /// From one row of A to the next, or, where those are contiguous, from one step of depth to the
    /// next.
    pub a_stride: usize,
    pub b: *const f32,
    /// From one step of depth to the next; the columns of B are contiguous.
    pub b_stride: usize,
    pub c: *mut f32,
    /// From one row to the next; the columns of C are contiguous.
    pub c_stride: usize,
    pub columns: usize,
}

/// # Safety
/// The CPU must have the kernel's instruction set; spans, A, B and C must be there, B up to whole
/// registers, and nobody else may use C.
pub(super) type Sweep = unsafe fn(&Call, &mut Queue);

/// The kernels of an instruction set, by rows - 1.
#[derive(Debug)]
pub(super) struct Sweeps {
    /// Rows of A are contiguous.
    along_depth: &'static [Sweep],
    /// Columns of A are.
    along_rows: &'static [Sweep],
}

/// Multiply-adds of a register for each line that is fetched: with fewer the lines queue up, with more
/// products wait for those that were not fetched in time.
const PACE: usize = 32;

impl Sweeps {
    /// Those that this CPU can run, the fastest first, as the contraction engine's kernels.
    pub fn available() -> Vec<&'static Sweeps> {
        let mut sweeps = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                sweeps.push(&AVX512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sweeps.push(&AVX2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            sweeps.push(&NEON);
        }
        sweeps.push(&PORTABLE);
        sweeps
    }

    /// The fastest.
    pub fn best() -> &'static Sweeps {
        static BEST: OnceLock<&'static Sweeps> = OnceLock::new();
        BEST.get_or_init(|| Sweeps::available()[0])
    }

    /// Rows of the tallest tile.
    pub fn tallest(&self) -> usize {
        self.along_depth.len()
    }

    /// The kernel for tiles of so many rows, if there is one.
    pub fn get(&self, along_rows: bool, rows: usize) -> Option<Sweep> {
        let kernels = match along_rows {
            true => self.along_rows,
            false => self.along_depth,
        };
        kernels.get(rows.checked_sub(1)?).copied()
    }
}

/// The body of every kernel.
///
/// # Safety
/// As [`Sweep`]; it must be inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn sweep<V: Vector, const ROWS: usize, const ALONG_ROWS: bool>(
    call: &Call,
    queue: &mut Queue,
) {
    let (row_step, depth_step) = match ALONG_ROWS {
        true => (1, call.a_stride),
        false => (call.a_stride, 1),
    };
    let mut soon = queue.pop();
    for index in 0..call.tiles {
        if soon.is_done() {
            soon = queue.pop();
        }
        // SAFETY: the caller vouches for spans, A, B and C.
        unsafe {
            let span = &*call.spans.add(index * call.span_step);
            if span.count == 0 && span.accumulate {
                continue;
            }
            let row = index * ROWS;
            let mut tile = Tile {
                depth: span.count,
                a: call
                    .a
                    .wrapping_add(row * row_step + span.first * depth_step),
                a_steps: [row_step, depth_step],
                b: call.b.wrapping_add(span.first * call.b_stride),
                b_stride: call.b_stride,
                c: call.c.wrapping_add(row * call.c_stride),
                c_stride: call.c_stride,
                accumulate: span.accumulate,
            };
            let mut left = call.columns;
            while left > V::LANES {
                let columns = left.min(2 * V::LANES);
                product::<V, ROWS, 2>(&tile, columns, &mut soon);
                tile.b = tile.b.wrapping_add(columns);
                tile.c = tile.c.wrapping_add(columns);
                left -= columns;
            }
            if left > 0 {
                product::<V, ROWS, 1>(&tile, left, &mut soon);
            }
        }
    }
    queue.push(soon);
}

/// A tile, from some column on.
#[derive(Clone, Copy)]
struct Tile {
    depth: usize,
    a: *const f32,
    /// From one row to the next, and from one step of depth to the next.
    a_steps: [usize; 2],
    b: *const f32,
    b_stride: usize,
    c: *mut f32,
    c_stride: usize,
    accumulate: bool,
}

/// The first columns of a tile.
///
/// # Safety
/// As [`Sweep`].
#[inline(always)]
unsafe fn product<V: Vector, const ROWS: usize, const REGISTERS: usize>(
    tile: &Tile,
    columns: usize,
    soon: &mut Soon,
) {
    let steps = const { PACE / (ROWS * REGISTERS) };
    let steps = if steps == 0 { 1 } else { steps };
    let (mut a, mut b) = (tile.a, tile.b);
    let [row_step, depth_step] = tile.a_steps;
    // SAFETY: the caller vouches for A, B and C over the tile and the depth.
    unsafe {
        let mut sums = [[V::splat(0.0); REGISTERS]; ROWS];
        let mut left = tile.depth;
        while left > 0 {
            soon.fetch::<V>();
            let steps = left.min(steps);
            left -= steps;
            for _ in 0..steps {
                let mut row = [V::splat(0.0); REGISTERS];
                for (index, register) in row.iter_mut().enumerate() {
                    *register = V::load(b.add(index * V::LANES));
                }
                for (index, sums) in sums.iter_mut().enumerate() {
                    let factor = V::splat(*a.add(index * row_step));
                    for (sum, register) in sums.iter_mut().zip(row) {
                        *sum = sum.multiply_add(factor, register);
                    }
                }
                a = a.add(depth_step);
                b = b.add(tile.b_stride);
            }
        }
        let whole = columns == REGISTERS * V::LANES;
        for (row, sums) in sums.into_iter().enumerate() {
            let to = tile.c.add(row * tile.c_stride);
            match whole {
                true => store_row(sums, to, tile.accumulate),
                false => store_part_of_row(sums, to, columns, tile.accumulate),
            }
        }
    }
}

/// The kernels of an instruction set.
macro_rules! instantiate {
    ($name:ident, $vector:ty, $(#[$feature:meta])? [$($rows:literal)*]) => {
        static $name: Sweeps = {
            $(#[$feature])?
            unsafe fn compiled<const ROWS: usize, const ALONG_ROWS: bool>(
                call: &Call,
                queue: &mut Queue,
            ) {
                // SAFETY: passed on to the caller.
                unsafe { sweep::<$vector, ROWS, ALONG_ROWS>(call, queue) }
            }
            Sweeps {
                along_depth: &[$(compiled::<$rows, false>),*],
                along_rows: &[$(compiled::<$rows, true>),*],
            }
        };
    };
}

#[cfg(target_arch = "x86_64")]
instantiate!(
    AVX512, super::super::vector::x86::Avx512, #[target_feature(enable = "avx512f")]
    [1 2 3 4 5 6 7 8]
);
#[cfg(target_arch = "x86_64")]
instantiate!(
    AVX2, super::super::vector::x86::Avx2, #[target_feature(enable = "avx2,fma")]
    [1 2 3 4]
);
#[cfg(target_arch = "aarch64")]
instantiate!(
    NEON, super::super::vector::arm::Neon, #[target_feature(enable = "neon")]
    [1 2 3 4 5 6 7 8]
);
instantiate!(PORTABLE, Portable, [1 2 3 4]);
