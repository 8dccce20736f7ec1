//! The micro-kernels: one source, compiled for every instruction set and tile shape.
//!
//! A micro-kernel computes a tile of C of a few rows by a few registers that stays in
//! registers over the whole depth. Per step of depth it loads one row of B and multiplies
//! it with one float of each row of A.

use super::ahead::{Ahead, Shares};
use super::compound::Runs;
use super::pack::{self, Copier, Lines, Packer, Transposer};
#[cfg(target_arch = "x86_64")]
use super::pairs::Pairs;
use super::prepare::Panel;
use super::problem::Soon;
use super::round::{self, HalfLines, HalfRounder, Round, Rounder, Single};
use super::vector::{Portable, Vector};
use crate::ir::Precision;
use std::sync::atomic::{Ordering, compiler_fence};

/// What a micro-kernel is asked to do: `c[i, j] (+)= sum_d a[i, d] * b[d, j]` for tiles side by side
/// whose size is the kernel's, except that only a panel's columns are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub depth: usize,
    pub a: *const f32,
    /// From one row of A to the next when its depth is contiguous; else, when its rows
    /// are, from one step of depth to the next.
    pub a_stride: usize,
    /// For each tile one panel of B as wide as the kernel.
    pub panels: &'a [Panel],
    /// Where the columns begin that those of panels count from.
    pub c: *mut f32,
    /// From one row to the next; the columns of C are contiguous.
    pub c_stride: usize,
    /// Add to what is in C instead of overwriting it.
    pub accumulate: bool,
    /// Rows to fetch meanwhile, of each as much as a tile is wide from a panel's first column on; at
    /// most as many rows as there is depth.
    pub soon: &'a [Soon],
}

/// # Safety
///
/// The CPU must have the kernel's instruction set; A, B and C must be valid for what
/// [`Call`] says, where B must be readable over the kernel's full width; nobody else may
/// access the tiles of C. More memory is fetched meanwhile, a share with each tile.
pub(super) type MicroKernel = unsafe fn(&Call<'_>, &mut [Shares; 2]);

/// How the elements of A lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// Elements of a row are contiguous.
    Depth,
    /// Elements of a column (a step of depth) are contiguous.
    Rows,
}

/// The micro-kernels of an instruction set.
#[derive(Debug)]
pub(super) struct Kernels {
    pub name: &'static str,
    /// Floats in a register.
    pub lanes: usize,
    /// Rows of the tallest tile.
    pub rows: usize,
    /// By the logarithm of the registers in a row (1, 2, 4, 8), then by rows - 1.
    along_depth: [&'static [MicroKernel]; 4],
    along_rows: [&'static [MicroKernel]; 4],
    /// By rows - 1, then by columns - 1.
    pub dots: &'static [[DotKernel; DOT_COLUMNS]],
    /// Fills a panel of one register's width.
    pub pack_narrow: Packer,
    /// Fills a panel of [`PANEL`] registers' width.
    pub pack_panel: Packer,
    /// For as many rows of A as a tile has.
    pub pack_rows: Packer,
    /// Gathers runs of elements.
    pub copy_runs: Copier,
    /// Transposes lines.
    pub transpose: Transposer,
    /// How operands are rounded, if they are; then packers round, too.
    pub rounding: Option<Rounding>,
}

/// Makes lines of an operand into lines of rounded elements.
#[derive(Debug)]
pub(super) struct Rounding {
    /// Steps of depth in an element.
    pub steps: usize,
    /// Where the depth of a line is contiguous: lines of contiguous elements.
    pub lines: Rounder,
    /// Where neighbouring lines are contiguous: so are elements.
    pub across: Rounder,
    /// For any strides: lines of contiguous elements.
    pub gather: Rounder,
    /// As `lines`, of lines that are rounded already.
    pub half_lines: HalfRounder,
    /// As `across`, of lines that are rounded already.
    pub half_across: HalfRounder,
}

/// Floats of a cache line.
const LINE: usize = 16;

/// Steps of depth between two places where memory is fetched: each costs what half a step does.
const LOOP: usize = 12;

/// Registers in a row of a packed panel of B.
pub(super) const PANEL: usize = 2;

impl Kernels {
    /// The width of a packed panel of B.
    pub fn panel(&self) -> usize {
        PANEL * self.lanes
    }

    /// Steps of depth in an element of a prepared operand.
    pub fn steps(&self) -> usize {
        self.rounding.as_ref().map_or(1, |rounding| rounding.steps)
    }

    /// The kernel for tiles of `rows` rows by `registers` (a power of two up to 8)
    /// registers, if there is one.
    pub fn get(&self, along: Along, rows: usize, registers: usize) -> Option<MicroKernel> {
        let shapes = match along {
            Along::Depth => &self.along_depth,
            Along::Rows => &self.along_rows,
        };
        let by_rows = shapes.get(registers.trailing_zeros() as usize)?;
        by_rows.get(rows.checked_sub(1)?).copied()
    }

    /// The widest power of two of registers for which there is a kernel of `rows` rows.
    pub fn widest(&self, rows: usize) -> usize {
        let fits = |&registers: &usize| self.get(Along::Depth, rows, registers).is_some();
        [8, 4, 2, 1].into_iter().find(fits).unwrap_or(1)
    }
}

/// The body of every micro-kernel. It goes over many tiles, since what a call stores (saved registers
/// and the like) waits in the processor's store queue behind the results of the tile before, and
/// nothing is multiplied when that is full.
///
/// # Safety
///
/// As [`MicroKernel`]; it must be inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn tiles<V: Vector, const ROWS: usize, const REGISTERS: usize, const ALONG_ROWS: bool>(
    call: &Call<'_>,
    shares: &mut [Shares; 2],
) {
    let mut panels = call.panels.iter();
    let mut next = panels.next();
    let mut fetching = next.map(|_| Fetching::new(call, shares));
    while let (Some(panel), Some(meanwhile)) = (next, fetching) {
        // SAFETY: passed on to the caller.
        unsafe {
            let sums = product::<V, ROWS, REGISTERS, ALONG_ROWS>(call, panel, meanwhile);
            next = panels.next();
            fetching = next.map(|_| Fetching::new(call, shares));
            // What the next tile needs is stored before these results, which wait for their sums.
            compiler_fence(Ordering::SeqCst);
            let c = call.c.add(panel.first);
            let full = panel.columns == REGISTERS * V::LANES;
            for (index, sums) in sums.into_iter().enumerate() {
                let to = c.add(index * call.c_stride);
                if full {
                    store_row(sums, to, call.accumulate);
                } else {
                    store_part_of_row(sums, to, panel.columns, call.accumulate);
                }
            }
        }
    }
}

/// What is fetched during a tile.
struct Fetching<'a> {
    ahead: [Ahead; 2],
    soon: std::slice::Iter<'a, Soon>,
    /// How many of each at a time, and the steps between.
    together: usize,
    steps: usize,
}

impl<'a> Fetching<'a> {
    #[inline(always)]
    fn new(call: &Call<'a>, shares: &mut [Shares; 2]) -> Self {
        // A few lines of memory at a time, so that they do not queue up.
        let ahead = [shares[0].next(), shares[1].next()];
        let most = ahead
            .iter()
            .fold(call.soon.len(), |most, ahead| most.max(ahead.count));
        // Where there is much to fetch, several at a time, so that the loop between stays long.
        let together = (LOOP * most).div_ceil(call.depth.max(1)).max(1);
        Fetching {
            ahead,
            soon: call.soon.iter(),
            together,
            steps: (call.depth * together / most.max(1)).max(1),
        }
    }
}

/// The sums of a tile.
///
/// # Safety
///
/// As [`tiles`].
#[inline(always)]
unsafe fn product<V: Vector, const ROWS: usize, const REGISTERS: usize, const ALONG_ROWS: bool>(
    call: &Call<'_>,
    panel: &Panel,
    meanwhile: Fetching<'_>,
) -> [[V; REGISTERS]; ROWS] {
    let Fetching {
        mut ahead,
        mut soon,
        together,
        steps: between,
    } = meanwhile;
    let (row_step, depth_step) = if ALONG_ROWS {
        (1, call.a_stride)
    } else {
        (call.a_stride, 1)
    };
    // SAFETY: the caller vouches for A and B over the tile and the depth.
    unsafe {
        let mut sums = [[V::splat(0.0); REGISTERS]; ROWS];
        let (mut a, mut b) = (call.a, panel.from);
        let mut left = call.depth;
        while left > 0 {
            let fetch = |from: *const f32, written: bool| {
                for column in (0..REGISTERS * V::LANES).step_by(LINE) {
                    V::fetch(from.wrapping_add(column), written);
                }
            };
            let mut steps = left;
            for &Soon { from, written } in soon.by_ref().take(together) {
                fetch(from.wrapping_add(panel.first), written);
                steps = between;
            }
            for ahead in &mut ahead {
                for _ in 0..together.min(ahead.count) {
                    fetch(ahead.next(), false);
                    steps = between;
                }
            }
            let steps = steps.min(left);
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
                b = b.add(panel.stride);
            }
        }
        sums
    }
}

/// Stores a row of a tile, or adds it to what is there.
///
/// # Safety
///
/// As [`Vector`]'s store, for all registers one after the other.
#[inline(always)]
pub(super) unsafe fn store_row<V: Vector, const REGISTERS: usize>(
    sums: [V; REGISTERS],
    to: *mut f32,
    accumulate: bool,
) {
    for (index, mut sum) in sums.into_iter().enumerate() {
        // SAFETY: inside the row, by contract.
        unsafe {
            let to = to.add(index * V::LANES);
            if accumulate {
                sum = V::load(to).add(sum);
            }
            sum.store(to);
        }
    }
}

/// The same for the first columns of a row.
///
/// # Safety
///
/// As [`Vector`]'s store, for the first `columns` floats.
#[inline(always)]
pub(super) unsafe fn store_part_of_row<V: Vector, const REGISTERS: usize>(
    sums: [V; REGISTERS],
    to: *mut f32,
    columns: usize,
    accumulate: bool,
) {
    for (index, mut sum) in sums.into_iter().enumerate() {
        let count = columns.saturating_sub(index * V::LANES).min(V::LANES);
        if count == 0 {
            break;
        }
        // SAFETY: the `count` floats lie inside the `columns` floats, by contract.
        unsafe {
            let to = to.add(index * V::LANES);
            if accumulate {
                sum = V::load_first(to, count).add(sum);
            }
            sum.store_first(to, count);
        }
    }
}

/// What a dot-product kernel is asked to do: `c[i, j] (+)= sum_d a[i, d] * b[j, d]` for a
/// few rows of A and columns of B whose depth is contiguous.
#[derive(Clone, Copy, Debug)]
pub(super) struct DotCall {
    pub depth: usize,
    pub a: *const f32,
    pub a_stride: usize,
    pub b: *const f32,
    pub b_stride: usize,
    pub c: *mut f32,
    pub c_stride: usize,
    pub accumulate: bool,
}

/// # Safety
///
/// The CPU must have the kernel's instruction set; A, B and C must be valid for what
/// [`DotCall`] says; nobody else may access the tile of C.
pub(super) type DotKernel = unsafe fn(&DotCall);

/// Columns of the widest dot-product kernel.
pub(super) const DOT_COLUMNS: usize = 4;

/// The body of every dot-product kernel: the lanes are steps of depth.
///
/// # Safety
///
/// As [`DotKernel`]; it must be inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn dots<V: Vector, const ROWS: usize, const COLUMNS: usize>(call: &DotCall) {
    // SAFETY: the caller vouches for A, B and C over the tile and the depth.
    unsafe {
        let mut sums = [[V::splat(0.0); COLUMNS]; ROWS];
        let whole = call.depth / V::LANES * V::LANES;
        for step in (0..whole).step_by(V::LANES) {
            let b: [V; COLUMNS] =
                std::array::from_fn(|j| V::load(call.b.add(j * call.b_stride + step)));
            for (i, sums) in sums.iter_mut().enumerate() {
                let a = V::load(call.a.add(i * call.a_stride + step));
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = sum.multiply_add(a, b);
                }
            }
        }
        let rest = call.depth - whole;
        if rest > 0 {
            let b: [V; COLUMNS] =
                std::array::from_fn(|j| V::load_first(call.b.add(j * call.b_stride + whole), rest));
            for (i, sums) in sums.iter_mut().enumerate() {
                let a = V::load_first(call.a.add(i * call.a_stride + whole), rest);
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = sum.multiply_add(a, b);
                }
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (j, sum) in sums.into_iter().enumerate() {
                let to = call.c.add(i * call.c_stride + j);
                let sum = sum.sum();
                *to = if call.accumulate { *to + sum } else { sum };
            }
        }
    }
}

/// Instantiates the kernels of one instruction set: `registers: rows…` for each width.
macro_rules! instantiate {
    (
        $name:ident, $display:literal, $vector:ty, $(#[$feature:meta])?
        1: [$($one:literal)*], 2: [$($two:literal)*], 4: [$($four:literal)*], 8: [$($eight:literal)*],
        dots: [$($dots:literal)*]
    ) => {
        pub(super) static $name: Kernels = {
            $(#[$feature])?
            unsafe fn compiled<const ROWS: usize, const REGISTERS: usize, const ALONG_ROWS: bool>(
                call: &Call<'_>,
                shares: &mut [Shares; 2],
            ) {
                // SAFETY: passed on to the caller.
                unsafe { tiles::<$vector, ROWS, REGISTERS, ALONG_ROWS>(call, shares) }
            }
            $(#[$feature])?
            unsafe fn dot<const ROWS: usize, const COLUMNS: usize>(call: &DotCall) {
                // SAFETY: passed on to the caller.
                unsafe { dots::<$vector, ROWS, COLUMNS>(call) }
            }
            $(#[$feature])?
            unsafe fn pack<const REGISTERS: usize>(lines: &Lines, panel: *mut f32) {
                // SAFETY: passed on to the caller.
                unsafe { pack::panel::<$vector, REGISTERS>(lines, panel) }
            }
            $(#[$feature])?
            unsafe fn copy(from: *const f32, runs: &Runs<'_>, to: *mut f32, room: usize) {
                // SAFETY: passed on to the caller.
                unsafe { pack::copy_runs::<$vector>(from, runs, to, room) }
            }
            $(#[$feature])?
            unsafe fn transpose(lines: &Lines, to: *mut f32, stride: usize) {
                let width = lines.count.next_multiple_of(<$vector as Vector>::LANES);
                // SAFETY: passed on to the caller.
                unsafe { pack::transpose::<$vector>(lines, width, to, stride) }
            }
            const fn tallest(rows: &[usize]) -> usize {
                rows[rows.len() - 1]
            }
            Kernels {
                name: $display,
                lanes: <$vector as Vector>::LANES,
                rows: tallest(&[$($two),*]),
                along_depth: [
                    &[$(compiled::<$one, 1, false>),*],
                    &[$(compiled::<$two, 2, false>),*],
                    &[$(compiled::<$four, 4, false>),*],
                    &[$(compiled::<$eight, 8, false>),*],
                ],
                along_rows: [
                    &[$(compiled::<$one, 1, true>),*],
                    &[$(compiled::<$two, 2, true>),*],
                    &[$(compiled::<$four, 4, true>),*],
                    &[$(compiled::<$eight, 8, true>),*],
                ],
                dots: &[$([dot::<$dots, 1>, dot::<$dots, 2>, dot::<$dots, 3>, dot::<$dots, 4>]),*],
                pack_narrow: pack::<1>,
                pack_panel: pack::<PANEL>,
                pack_rows: pack::<{ tallest(&[$($two),*]).div_ceil(<$vector as Vector>::LANES) }>,
                copy_runs: copy,
                transpose,
                rounding: None,
            }
        };
    };
}

/// Kernels for operands that are rounded: tiles of some kernels, the rest of others.
macro_rules! rounded {
    ($name:ident, $display:literal, $tiles:ident, $rest:ident, $round:ty $(, #[$feature:meta])?) => {
        pub(super) static $name: Kernels = {
            $(#[$feature])?
            unsafe fn pack<const REGISTERS: usize>(lines: &Lines, panel: *mut f32) {
                // SAFETY: passed on to the caller.
                unsafe { round::panel::<$round, REGISTERS>(lines, panel) }
            }
            $(#[$feature])?
            unsafe fn lines(lines: &Lines, to: *mut f32, stride: usize) {
                // SAFETY: passed on to the caller.
                unsafe { round::lines::<$round>(lines, to, stride) }
            }
            $(#[$feature])?
            unsafe fn across(lines: &Lines, to: *mut f32, stride: usize) {
                // SAFETY: passed on to the caller.
                unsafe { round::across::<$round>(lines, to, stride) }
            }
            $(#[$feature])?
            unsafe fn half_lines(lines: &HalfLines, to: *mut f32, stride: usize) {
                // SAFETY: passed on to the caller.
                unsafe { round::half_lines::<$round>(lines, to, stride) }
            }
            $(#[$feature])?
            unsafe fn half_across(lines: &HalfLines, to: *mut f32, stride: usize) {
                // SAFETY: passed on to the caller.
                unsafe { round::half_across::<$round>(lines, to, stride) }
            }
            Kernels {
                name: $display,
                along_depth: $tiles.along_depth,
                along_rows: $tiles.along_rows,
                pack_narrow: pack::<1>,
                pack_panel: pack::<PANEL>,
                rounding: Some(Rounding {
                    steps: <$round as Round>::STEPS,
                    lines,
                    across,
                    gather: round::gather::<$round>,
                    half_lines,
                    half_across,
                }),
                ..$rest
            }
        };
    };
}

#[cfg(target_arch = "x86_64")]
instantiate!(
    AVX512, "AVX-512", super::vector::x86::Avx512, #[target_feature(enable = "avx512f")]
    1: [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    2: [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    4: [1 2 3 4 5 6],
    8: [1 2 3],
    dots: [1 2 3 4]
);
#[cfg(target_arch = "x86_64")]
instantiate!(
    AVX2, "AVX2", super::vector::x86::Avx2, #[target_feature(enable = "avx2,fma")]
    1: [1 2 3 4 5 6], 2: [1 2 3 4 5 6], 4: [1 2], 8: [1],
    dots: [1 2]
);
#[cfg(target_arch = "aarch64")]
instantiate!(
    NEON, "NEON", super::vector::arm::Neon, #[target_feature(enable = "neon")]
    1: [1 2 3 4 5 6 7 8 9 10 11 12],
    2: [1 2 3 4 5 6 7 8 9 10 11 12],
    4: [1 2 3 4 5 6],
    8: [1 2],
    dots: [1 2 3 4]
);
instantiate!(
    PORTABLE, "portable", Portable,
    1: [1 2 3 4 5], 2: [1 2 3 4 5], 4: [1 2 3], 8: [1],
    dots: [1 2]
);

#[cfg(target_arch = "x86_64")]
instantiate!(
    PAIRS, "AVX-512 BF16", Pairs, #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    1: [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    2: [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    4: [1 2 3 4 5 6],
    8: [1 2 3],
    dots: [1]
);
#[cfg(target_arch = "x86_64")]
rounded!(
    AVX512_PAIRS, "AVX-512 BF16", PAIRS, AVX512, Pairs,
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
);
#[cfg(target_arch = "x86_64")]
rounded!(
    AVX512_ROUNDED, "AVX-512", AVX512, AVX512, Single<super::vector::x86::Avx512>,
    #[target_feature(enable = "avx512f")]
);
#[cfg(target_arch = "x86_64")]
rounded!(
    AVX2_ROUNDED, "AVX2", AVX2, AVX2, Single<super::vector::x86::Avx2>,
    #[target_feature(enable = "avx2,fma")]
);
#[cfg(target_arch = "aarch64")]
rounded!(
    NEON_ROUNDED, "NEON", NEON, NEON, Single<super::vector::arm::Neon>,
    #[target_feature(enable = "neon")]
);
rounded!(
    PORTABLE_ROUNDED,
    "portable",
    PORTABLE,
    PORTABLE,
    Single<Portable>
);

/// The kernels that this CPU can run, the fastest first.
pub(super) fn available(precision: Precision) -> Vec<&'static Kernels> {
    let rounds = precision == Precision::BF16;
    let either = |exact, rounded| if rounds { rounded } else { exact };
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            let pairs =
                is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512bf16");
            if rounds && pairs {
                kernels.push(&AVX512_PAIRS);
            }
            kernels.push(either(&AVX512, &AVX512_ROUNDED));
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            kernels.push(either(&AVX2, &AVX2_ROUNDED));
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        kernels.push(either(&NEON, &NEON_ROUNDED));
    }
    kernels.push(either(&PORTABLE, &PORTABLE_ROUNDED));
    kernels
}
