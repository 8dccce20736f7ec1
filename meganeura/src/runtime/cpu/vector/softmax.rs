//! What attention does with rows of scores.

use super::lanes::{Lanes, Portable};
use super::{InstructionSet, math};

/// The loops of one instruction set. All need their instruction set and memory to be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loops {
    /// The largest of `count` floats, −∞ of none; NaN if one is.
    pub largest: unsafe fn(*const f32, count: usize) -> f32,
    /// `x = e^(x − shift)`, and the sum.
    pub exponentials: unsafe fn(*mut f32, count: usize, shift: f32) -> f32,
    /// `x = p · (x − shift)`: the gradient of scores from that of probabilities.
    pub centered: unsafe fn(*mut f32, p: *const f32, count: usize, shift: f32),
    /// `to = from · factor`.
    pub scaled: unsafe fn(*mut f32, from: *const f32, count: usize, factor: f32),
    /// The same from halves.
    pub widened: unsafe fn(*mut f32, from: *const u16, count: usize, factor: f32),
    /// Floats as the nearest halves.
    pub rounded: unsafe fn(*mut u16, from: *const f32, count: usize),
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

/// All lanes in one.
#[inline(always)]
fn folded<L: Lanes>(x: L, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; 16];
    const { assert!(L::COUNT <= 16) };
    // SAFETY: there is room for all lanes.
    unsafe { x.store(lanes.as_mut_ptr()) };
    lanes[1..L::COUNT].iter().fold(lanes[0], |a, &b| f(a, b))
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn largest<L: Lanes>(x: *const f32, count: usize) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let mut most = L::splat(f32::NEG_INFINITY);
        let whole = count - count % L::COUNT;
        for i in (0..whole).step_by(L::COUNT) {
            most = math::maximum(L::load(x.add(i)), most);
        }
        let mut most = folded(most, larger);
        for i in whole..count {
            most = larger(most, *x.add(i));
        }
        most
    }
}

fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn exponentials<L: Lanes>(x: *mut f32, count: usize, shift: f32) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut sum, shift) = (L::splat(0.0), L::splat(shift));
        let whole = count - count % L::COUNT;
        for i in (0..whole).step_by(L::COUNT) {
            let e = math::exp(L::load(x.add(i)).subtract(shift));
            e.store(x.add(i));
            sum = sum.add(e);
        }
        let mut sum = folded(sum, |a, b| a + b);
        let rest = count - whole;
        if rest > 0 {
            let mut tail = [0.0; 16];
            let e = math::exp(L::load_partial(x.add(whole), rest).subtract(shift));
            e.store(tail.as_mut_ptr());
            e.store_partial(x.add(whole), rest);
            sum += tail[..rest].iter().sum::<f32>();
        }
        sum
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn centered<L: Lanes>(x: *mut f32, p: *const f32, count: usize, shift: f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let shifts = L::splat(shift);
        let whole = count - count % L::COUNT;
        for i in (0..whole).step_by(L::COUNT) {
            let value = L::load(x.add(i)).subtract(shifts);
            L::load(p.add(i)).multiply(value).store(x.add(i));
        }
        for i in whole..count {
            *x.add(i) = *p.add(i) * (*x.add(i) - shift);
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn scaled<L: Lanes>(to: *mut f32, from: *const f32, count: usize, factor: f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let factors = L::splat(factor);
        let whole = count - count % L::COUNT;
        for i in (0..whole).step_by(L::COUNT) {
            L::load(from.add(i)).multiply(factors).store(to.add(i));
        }
        for i in whole..count {
            *to.add(i) = *from.add(i) * factor;
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn widened<L: Lanes>(to: *mut f32, from: *const u16, count: usize, factor: f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let factors = L::splat(factor);
        let whole = count - count % L::COUNT;
        for i in (0..whole).step_by(L::COUNT) {
            let value = L::load_halves(from.add(i));
            value.multiply(factors).store(to.add(i));
        }
        if whole < count {
            let rest = count - whole;
            let value = L::load_halves_partial(from.add(whole), rest);
            value.multiply(factors).store_partial(to.add(whole), rest);
        }
    }
}

/// # Safety
/// As [`Loops`]; inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn rounded<L: Lanes>(to: *mut u16, from: *const f32, count: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let whole = count - count % L::COUNT;
        for i in (0..whole).step_by(L::COUNT) {
            L::load(from.add(i)).store_halves(to.add(i));
        }
        if whole < count {
            let rest = count - whole;
            L::load_partial(from.add(whole), rest).store_halves_partial(to.add(whole), rest);
        }
    }
}

macro_rules! instantiate {
    ($name:ident, $lanes:ty $(, #[$feature:meta])?) => {
        mod $name {
            use super::Loops;

            type L = $lanes;

            $(#[$feature])?
            unsafe fn largest(x: *const f32, count: usize) -> f32 {
                // SAFETY: passed on to the caller.
                unsafe { super::largest::<L>(x, count) }
            }
            $(#[$feature])?
            unsafe fn exponentials(x: *mut f32, count: usize, shift: f32) -> f32 {
                // SAFETY: passed on to the caller.
                unsafe { super::exponentials::<L>(x, count, shift) }
            }
            $(#[$feature])?
            unsafe fn centered(x: *mut f32, p: *const f32, count: usize, shift: f32) {
                // SAFETY: passed on to the caller.
                unsafe { super::centered::<L>(x, p, count, shift) }
            }
            $(#[$feature])?
            unsafe fn scaled(to: *mut f32, from: *const f32, count: usize, factor: f32) {
                // SAFETY: passed on to the caller.
                unsafe { super::scaled::<L>(to, from, count, factor) }
            }
            $(#[$feature])?
            unsafe fn widened(to: *mut f32, from: *const u16, count: usize, factor: f32) {
                // SAFETY: passed on to the caller.
                unsafe { super::widened::<L>(to, from, count, factor) }
            }
            $(#[$feature])?
            unsafe fn rounded(to: *mut u16, from: *const f32, count: usize) {
                // SAFETY: passed on to the caller.
                unsafe { super::rounded::<L>(to, from, count) }
            }

            pub(super) const LOOPS: Loops = Loops {
                largest,
                exponentials,
                centered,
                scaled,
                widened,
                rounded,
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
