//! AVX-512 with products of bfloat16: a float's 32 bits hold two steps of depth, and one
//! instruction multiplies sixteen such pairs and adds both products to a float each.

use super::round::Round;
use super::vector::Vector;
use super::vector::x86::Avx512;
use crate::ir::Precision;
use std::arch::x86_64::*;

/// Sixteen pairs, or as sums sixteen floats.
#[derive(Clone, Copy)]
pub(super) struct Pairs(Avx512);

// SAFETY (of the bodies): the caller vouches for the instruction set and the pointers, as the
// trait demands.
impl Vector for Pairs {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self(unsafe { Avx512::splat(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(unsafe { Avx512::load(from) })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        Self(unsafe { Avx512::load_first(from, count) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        unsafe { self.0.store_first(to, count) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(unsafe { self.0.add(other.0) })
    }

    /// The sum of floats and of the products of pairs.
    #[inline(always)]
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
        let pairs = |register: Self| {
            // SAFETY: both are 512 bits of any value.
            unsafe { std::mem::transmute::<__m512, __m512bh>(register.0.0) }
        };
        Self(Avx512(unsafe {
            _mm512_dpbf16_ps(self.0.0, pairs(a), pairs(b))
        }))
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        unsafe { self.0.sum() }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        unsafe { Avx512::transpose(from, from_stride, to, to_stride) }
    }
}

impl Pairs {
    /// The numbers of two registers, rounded, those of the second after those of the first.
    #[inline(always)]
    unsafe fn rounded(first: Avx512, second: Avx512) -> __m512i {
        // SAFETY: the caller's, who has the instructions; both types are 512 bits of any value.
        unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second.0, first.0)) }
    }
}

/// Up to sixteen floats.
#[inline(always)]
unsafe fn load(from: *const f32, count: usize) -> Avx512 {
    // SAFETY: the caller's.
    unsafe {
        if count >= 16 {
            Avx512::load(from)
        } else {
            Avx512::load_first(from, count)
        }
    }
}

/// The order that puts each number of a register's first half before that of its second.
const ALTERNATE: [u16; 32] = {
    let mut order = [0; 32];
    let mut lane = 0;
    while lane < 16 {
        order[2 * lane] = lane as u16;
        order[2 * lane + 1] = lane as u16 + 16;
        lane += 1;
    }
    order
};

// SAFETY (of the bodies): as above.
impl Round for Pairs {
    type Register = Pairs;
    const STEPS: usize = 2;

    #[inline(always)]
    unsafe fn along(from: *const f32, count: usize) -> Pairs {
        unsafe {
            let first = load(from, count);
            let second = load(from.wrapping_add(16), count.saturating_sub(16));
            Pairs(Avx512(_mm512_castsi512_ps(Pairs::rounded(first, second))))
        }
    }

    #[inline(always)]
    unsafe fn across([first, second]: [*const f32; 2], count: usize) -> Pairs {
        unsafe {
            let first = load(first, count);
            let second = if second.is_null() {
                Avx512::splat(0.0)
            } else {
                load(second, count)
            };
            let order = _mm512_loadu_si512(ALTERNATE.as_ptr().cast());
            let pairs = _mm512_permutexvar_epi16(order, Pairs::rounded(first, second));
            Pairs(Avx512(_mm512_castsi512_ps(pairs)))
        }
    }

    #[inline(always)]
    unsafe fn along_halves(from: *const u16, count: usize) -> Pairs {
        unsafe {
            let halves = if count >= 32 {
                _mm512_loadu_si512(from.cast())
            } else {
                _mm512_maskz_loadu_epi16((1u32 << count) - 1, from.cast())
            };
            Pairs(Avx512(_mm512_castsi512_ps(halves)))
        }
    }

    #[inline(always)]
    unsafe fn across_halves([first, second]: [*const u16; 2], count: usize) -> Pairs {
        let words = |row: *const u16| unsafe {
            if row.is_null() {
                return _mm512_setzero_si512();
            }
            // In a register of twice as many, so that no other instructions are needed.
            let mask = if count >= 16 {
                0xffff
            } else {
                (1u32 << count) - 1
            };
            let halves = _mm512_maskz_loadu_epi16(mask, row.cast());
            _mm512_cvtepu16_epi32(_mm512_castsi512_si256(halves))
        };
        unsafe {
            let second = _mm512_slli_epi32::<16>(words(second));
            let pairs = _mm512_or_si512(words(first), second);
            Pairs(Avx512(_mm512_castsi512_ps(pairs)))
        }
    }

    #[inline(always)]
    fn element(steps: [f32; 2]) -> u32 {
        let [first, second] = steps.map(|step| Precision::BF16.round(step).to_bits());
        first >> 16 | second
    }
}
