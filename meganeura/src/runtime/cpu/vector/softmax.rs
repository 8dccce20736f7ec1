//! What attention does with tiles of scores.
//!
//! The rows of a tile are keys and its columns are queries, so that what belongs to a query stays
//! in its lane: maxima and sums are taken without a step across lanes. Scores are logarithms to
//! the base 2.

use std::f32::consts::{LN_2, LOG2_E};

use super::lanes::{Lanes, Portable};
use super::{InstructionSet, math};

/// Queries of a tile.
pub(crate) const QUERIES: usize = 16;

/// How far scores may rise above what they are held against before that is raised, too: what a
/// query has gathered then need not be scaled at every block of keys.
const SLACK: f32 = 8.0;

/// A number for each query of a tile.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Numbers(pub [f32; QUERIES]);

/// Scores of some keys, one row for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub start: *mut f32,
    /// From one key to the next.
    pub stride: usize,
    pub keys: usize,
}

impl Tile {
    /// The rows of some of its keys.
    pub(crate) fn part(self, keys: std::ops::Range<usize>) -> Tile {
        Tile {
            start: self.start.wrapping_add(keys.start * self.stride),
            keys: keys.len(),
            ..self
        }
    }
}

/// Rows to be copied, perhaps to where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub from: *const f32,
    /// From one row to the next.
    pub from_stride: usize,
    pub to: *mut f32,
    pub to_stride: usize,
    pub count: usize,
    pub width: usize,
}

/// What the queries of a tile have seen so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// What scores are held against.
    pub reference: Numbers,
    /// The sums of powers of what scores exceed that by.
    pub sums: Numbers,
    /// What is subtracted from scores: the reference, or 0 where it is −∞ still.
    pub shift: Numbers,
    /// What has been gathered must be multiplied with this.
    pub factors: Numbers,
}

impl Seen {
    /// Nothing yet.
    pub(crate) const NOTHING: Seen = Seen {
        reference: Numbers([f32::NEG_INFINITY; QUERIES]),
        sums: Numbers([0.0; QUERIES]),
        shift: Numbers([0.0; QUERIES]),
        factors: Numbers([1.0; QUERIES]),
    };
}

/// The loops of one instruction set. All need their instruction set and memory to be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loops {
    /// Hides from each query the rows before its first and from its end on. Both are given for the
    /// first query, and how they move from query to query.
    pub hide: unsafe fn(Tile, first: [f32; 2], end: [f32; 2]),
    /// Adds a mask of as many rows of [`QUERIES`].
    pub add: unsafe fn(Tile, mask: *const f32),
    /// Hides where such a mask is 0.
    pub show: unsafe fn(Tile, mask: *const f32),
    /// Raises references to the largest score where that is higher by more than a little; whether
    /// one was raised.
    pub raise: unsafe fn(Tile, &mut Seen) -> bool,
    /// `x = 2^(x − shift)`, added to the sums.
    pub powers: unsafe fn(Tile, &mut Seen),
    /// Natural logarithms of the sums of exponentials, and 1 / sums; ∞ and 0 of nothing.
    pub finish: unsafe fn(&Seen, normalizers: &mut Numbers, factors: &mut Numbers),
    /// `p = 2^(p − shift)`, and `x = p · (x − mean)` in a tile that lies like it: the gradient of
    /// scores from that of probabilities.
    pub gradients: unsafe fn(Tile, x: *mut f32, shift: &Numbers, mean: &Numbers),
    /// Copies rows, each times its factor.
    pub copy: unsafe fn(&Rows, factors: *const f32, step: usize),
    /// The same from rows of halves.
    pub widen: unsafe fn(&Rows, factors: *const f32, step: usize),
    /// The same to rows of halves.
    pub round: unsafe fn(&Rows, factors: *const f32, step: usize),
}

impl Loops {
    /// Those of an instruction set.
    pub(crate) fn of(set: InstructionSet) -> Loops {
        match set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => avx512::LOOPS,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => avx2::LOOPS,
            InstructionSet::Portable => portable::LOOPS,
        }
    }
}

/// Changes each row of a tile, some lanes after the other: a function of the lanes, their first
/// and the row.
///
/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn rows<L: Lanes>(tile: Tile, lane: usize, mut work: impl FnMut(L, usize) -> L) {
    for key in 0..tile.keys {
        // SAFETY: the caller's promise.
        unsafe {
            let at = tile.start.add(key * tile.stride + lane);
            work(L::load(at), key).store(at);
        }
    }
}

/// The first lanes of each vector of a row.
fn lanes<L: Lanes>() -> impl Iterator<Item = usize> {
    const { assert!(QUERIES.is_multiple_of(L::COUNT)) };
    (0..QUERIES).step_by(L::COUNT)
}

impl Numbers {
    /// # Safety
    /// The instruction set must be there, and the lanes.
    #[inline(always)]
    unsafe fn load<L: Lanes>(&self, lane: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load(self.0.as_ptr().add(lane)) }
    }

    /// # Safety
    /// As [`Numbers::load`].
    #[inline(always)]
    unsafe fn store<L: Lanes>(&mut self, lane: usize, value: L) {
        // SAFETY: the caller's promise.
        unsafe { value.store(self.0.as_mut_ptr().add(lane)) };
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn hide<L: Lanes>(tile: Tile, first: [f32; 2], end: [f32; 2]) {
    let numbers = Numbers(std::array::from_fn(|lane| lane as f32));
    // SAFETY: the caller's promise.
    unsafe {
        let hidden = L::splat(f32::NEG_INFINITY);
        for lane in lanes::<L>() {
            let number = numbers.load::<L>(lane);
            let [first, end] = [first, end]
                .map(|[place, step]| number.multiply_add(L::splat(step), L::splat(place)));
            rows::<L>(tile, lane, |x, key| {
                let key = x.constant(key as f32);
                let x = L::select(key.less(first), hidden, x);
                L::select(key.less(end), x, hidden)
            });
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn add<L: Lanes>(tile: Tile, mask: *const f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let base = L::splat(LOG2_E);
        for lane in lanes::<L>() {
            rows::<L>(tile, lane, |x, key| {
                L::load(mask.add(key * QUERIES + lane)).multiply_add(base, x)
            });
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn show<L: Lanes>(tile: Tile, mask: *const f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let (hidden, zero) = (L::splat(f32::NEG_INFINITY), L::splat(0.0));
        for lane in lanes::<L>() {
            rows::<L>(tile, lane, |x, key| {
                let mask = L::load(mask.add(key * QUERIES + lane));
                L::select(mask.equal(zero), hidden, x)
            });
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn raise<L: Lanes>(tile: Tile, seen: &mut Seen) -> bool {
    let mut raised = false;
    // SAFETY: the caller's promise.
    unsafe {
        for lane in lanes::<L>() {
            let low = L::splat(f32::NEG_INFINITY);
            // A NaN is no larger than anything, and found again in the sum.
            let (mut most, mut other) = (low, low);
            let row = |key: usize| L::load(tile.start.add(key * tile.stride + lane));
            for key in (1..tile.keys).step_by(2) {
                most = row(key - 1).larger(most);
                other = row(key).larger(other);
            }
            if tile.keys % 2 == 1 {
                most = row(tile.keys - 1).larger(most);
            }
            let most = most.larger(other);
            let before = seen.reference.load::<L>(lane);
            let kept = most.less_equal(before.add(L::splat(SLACK)));
            if L::all(kept) {
                continue;
            }
            raised = true;
            let reference = L::select(kept, before, most);
            let one = L::splat(1.0);
            let factor = L::select(kept, one, math::exp2(before.subtract(reference)));
            let sums = seen.sums.load::<L>(lane).multiply(factor);
            seen.reference.store(lane, reference);
            seen.sums.store(lane, sums);
            seen.factors.store(lane, factor);
            let shift = L::select(reference.equal(low), L::splat(0.0), reference);
            seen.shift.store(lane, shift);
        }
    }
    raised
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn powers<L: Lanes>(tile: Tile, seen: &mut Seen) {
    // SAFETY: the caller's promise.
    unsafe {
        for lane in lanes::<L>() {
            let (mut sum, shift) = (L::splat(0.0), seen.shift.load::<L>(lane));
            rows::<L>(tile, lane, |x, _| {
                let power = math::exp2(x.subtract(shift));
                sum = sum.add(power);
                power
            });
            let sums = seen.sums.load::<L>(lane).add(sum);
            seen.sums.store(lane, sums);
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn finish<L: Lanes>(seen: &Seen, normalizers: &mut Numbers, factors: &mut Numbers) {
    // SAFETY: the caller's promise.
    unsafe {
        let (zero, infinity) = (L::splat(0.0), L::splat(f32::INFINITY));
        for lane in lanes::<L>() {
            let sum = seen.sums.load::<L>(lane);
            let reference = seen.reference.load::<L>(lane);
            let normalizer = reference.multiply_add(L::splat(LN_2), math::log(sum));
            let nothing = sum.equal(zero);
            normalizers.store(lane, L::select(nothing, infinity, normalizer));
            let factor = L::splat(1.0).divide(sum);
            factors.store(lane, L::select(nothing, zero, factor));
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn gradients<L: Lanes>(tile: Tile, x: *mut f32, shift: &Numbers, mean: &Numbers) {
    // SAFETY: the caller's promise.
    unsafe {
        for lane in lanes::<L>() {
            let (shift, mean) = (shift.load::<L>(lane), mean.load::<L>(lane));
            rows::<L>(tile, lane, |p, key| {
                let power = math::exp2(p.subtract(shift));
                let x = x.add(key * tile.stride + lane);
                power.multiply(L::load(x).subtract(mean)).store(x);
                power
            });
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn copy<L: Lanes>(rows: &Rows, factors: *const f32, step: usize) {
    let (whole, rest) = (rows.width / L::COUNT * L::COUNT, rows.width % L::COUNT);
    for row in 0..rows.count {
        // SAFETY: the caller's promise.
        unsafe {
            let from = rows.from.add(row * rows.from_stride);
            let to = rows.to.add(row * rows.to_stride);
            let factor = L::splat(*factors.add(row * step));
            for i in (0..whole).step_by(L::COUNT) {
                L::load(from.add(i)).multiply(factor).store(to.add(i));
            }
            if rest > 0 {
                let last = L::load_partial(from.add(whole), rest).multiply(factor);
                last.store_partial(to.add(whole), rest);
            }
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn widen<L: Lanes>(rows: &Rows, factors: *const f32, step: usize) {
    let (whole, rest) = (rows.width / L::COUNT * L::COUNT, rows.width % L::COUNT);
    for row in 0..rows.count {
        // SAFETY: the caller's promise.
        unsafe {
            let from = rows.from.cast::<u16>().add(row * rows.from_stride);
            let to = rows.to.add(row * rows.to_stride);
            let factor = L::splat(*factors.add(row * step));
            for i in (0..whole).step_by(L::COUNT) {
                let value = L::load_halves(from.add(i));
                value.multiply(factor).store(to.add(i));
            }
            if rest > 0 {
                let last = L::load_halves_partial(from.add(whole), rest);
                last.multiply(factor).store_partial(to.add(whole), rest);
            }
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn round<L: Lanes>(rows: &Rows, factors: *const f32, step: usize) {
    let (whole, rest) = (rows.width / L::COUNT * L::COUNT, rows.width % L::COUNT);
    for row in 0..rows.count {
        // SAFETY: the caller's promise.
        unsafe {
            let from = rows.from.add(row * rows.from_stride);
            let to = rows.to.cast::<u16>().add(row * rows.to_stride);
            let factor = L::splat(*factors.add(row * step));
            for i in (0..whole).step_by(L::COUNT) {
                L::load(from.add(i))
                    .multiply(factor)
                    .store_halves(to.add(i));
            }
            if rest > 0 {
                let last = L::load_partial(from.add(whole), rest).multiply(factor);
                last.store_halves_partial(to.add(whole), rest);
            }
        }
    }
}

macro_rules! instantiate {
    ($name:ident, $lanes:ty $(, #[$feature:meta])?) => {
        mod $name {
            use super::{Loops, Numbers, Rows, Seen, Tile};

            type L = $lanes;

            $(#[$feature])?
            unsafe fn hide(tile: Tile, first: [f32; 2], end: [f32; 2]) {
                // SAFETY: passed on to the caller.
                unsafe { super::hide::<L>(tile, first, end) }
            }
            $(#[$feature])?
            unsafe fn add(tile: Tile, mask: *const f32) {
                // SAFETY: passed on to the caller.
                unsafe { super::add::<L>(tile, mask) }
            }
            $(#[$feature])?
            unsafe fn show(tile: Tile, mask: *const f32) {
                // SAFETY: passed on to the caller.
                unsafe { super::show::<L>(tile, mask) }
            }
            $(#[$feature])?
            unsafe fn raise(tile: Tile, seen: &mut Seen) -> bool {
                // SAFETY: passed on to the caller.
                unsafe { super::raise::<L>(tile, seen) }
            }
            $(#[$feature])?
            unsafe fn powers(tile: Tile, seen: &mut Seen) {
                // SAFETY: passed on to the caller.
                unsafe { super::powers::<L>(tile, seen) }
            }
            $(#[$feature])?
            unsafe fn finish(seen: &Seen, normalizers: &mut Numbers, factors: &mut Numbers) {
                // SAFETY: passed on to the caller.
                unsafe { super::finish::<L>(seen, normalizers, factors) }
            }
            $(#[$feature])?
            unsafe fn gradients(tile: Tile, x: *mut f32, shift: &Numbers, mean: &Numbers) {
                // SAFETY: passed on to the caller.
                unsafe { super::gradients::<L>(tile, x, shift, mean) }
            }
            $(#[$feature])?
            unsafe fn copy(rows: &Rows, factors: *const f32, step: usize) {
                // SAFETY: passed on to the caller.
                unsafe { super::copy::<L>(rows, factors, step) }
            }
            $(#[$feature])?
            unsafe fn widen(rows: &Rows, factors: *const f32, step: usize) {
                // SAFETY: passed on to the caller.
                unsafe { super::widen::<L>(rows, factors, step) }
            }
            $(#[$feature])?
            unsafe fn round(rows: &Rows, factors: *const f32, step: usize) {
                // SAFETY: passed on to the caller.
                unsafe { super::round::<L>(rows, factors, step) }
            }

            pub(super) const LOOPS: Loops = Loops {
                hide,
                add,
                show,
                raise,
                powers,
                finish,
                gradients,
                copy,
                widen,
                round,
            };
        }
    };
}

instantiate!(portable, super::Portable);
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx2,
    crate::runtime::cpu::vector::avx2::Avx2,
    #[target_feature(enable = "avx2,fma")]
);
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx512,
    crate::runtime::cpu::vector::avx512::Avx512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
);
