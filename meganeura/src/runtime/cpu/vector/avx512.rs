use std::arch::x86_64::*;

use super::lanes::Lanes;

/// Sixteen floats. Needs AVX-512 F and DQ.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

/// The method bodies: one intrinsic each.
macro_rules! intrinsics {
    ($($name:ident($($arg:ident),*) = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self $(, $arg: Self)*) -> Self {
            let x = self.0;
            $(let $arg = $arg.0;)*
            // SAFETY: `self` exists, so the instructions do.
            Avx512(unsafe { ($body)(x $(, $arg)*) })
        }
    )*};
}

macro_rules! comparisons {
    ($($name:ident = $predicate:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> __mmask16 {
            // SAFETY: `self` exists, so the instructions do.
            unsafe { _mm512_cmp_ps_mask::<$predicate>(self.0, other.0) }
        }
    )*};
}

/// The mask of the first `count` lanes.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

/// Halves as floats.
///
/// # Safety
/// The instruction set must be there.
#[inline(always)]
unsafe fn widened(halves: __m256i) -> Avx512 {
    // SAFETY: the caller's promise.
    unsafe {
        let words = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves));
        Avx512(_mm512_castsi512_ps(words))
    }
}

/// Floats as the nearest halves. The instruction for it would take the smallest floats for 0.
///
/// # Safety
/// The instruction set must be there.
#[inline(always)]
unsafe fn rounded(floats: __m512) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let bits = _mm512_castps_si512(floats);
        let upper = _mm512_srli_epi32::<16>(bits);
        let odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
        let sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        let nearest = _mm512_srli_epi32::<16>(sum);
        let no_number = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(floats, floats);
        let quiet = _mm512_set1_epi32(0x40);
        let halves = _mm512_mask_or_epi32(nearest, no_number, upper, quiet);
        _mm512_cvtepi32_epi16(halves)
    }
}

impl Lanes for Avx512 {
    type Mask = __mmask16;
    const COUNT: usize = 16;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's promise.
        Avx512(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Avx512(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's promise; masked lanes are not read.
        Avx512(unsafe { _mm512_maskz_loadu_ps(first(count), from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(to, self.0) };
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut f32, count: usize) {
        // SAFETY: the caller's promise; masked lanes are not written.
        unsafe { _mm512_mask_storeu_ps(to, first(count), self.0) };
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> Self {
        // SAFETY: the caller's promise.
        unsafe { widened(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_halves_partial(from: *const u16, count: usize) -> Self {
        // SAFETY: the caller's promise; masked lanes are not read.
        unsafe { widened(_mm256_maskz_loadu_epi16(first(count), from.cast())) }
    }

    #[inline(always)]
    unsafe fn store_halves(self, to: *mut u16) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(to.cast(), rounded(self.0)) };
    }

    #[inline(always)]
    unsafe fn store_halves_partial(self, to: *mut u16, count: usize) {
        // SAFETY: the caller's promise; masked lanes are not written.
        unsafe { _mm256_mask_storeu_epi16(to.cast(), first(count), rounded(self.0)) };
    }

    #[inline(always)]
    unsafe fn load_even(from: *const f32, count: usize) -> Self {
        // One float less than two for each: behind the last may be nothing.
        let floats = (2 * count).saturating_sub(1);
        // SAFETY: the caller's promise; masked lanes are not read.
        unsafe {
            let low = _mm512_maskz_loadu_ps(first(floats.min(16)), from);
            let rest = first(floats.saturating_sub(16));
            let high = _mm512_maskz_loadu_ps(rest, from.wrapping_add(16));
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            Avx512(_mm512_permutex2var_ps(low, even, high))
        }
    }

    #[inline(always)]
    unsafe fn store_even(self, to: *mut f32, count: usize) {
        const EVEN: __mmask16 = 0x5555;
        // SAFETY: the caller's promise; masked lanes are not written.
        unsafe {
            let low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
            let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
            let (here, rest) = (2 * count.min(8), 2 * count.saturating_sub(8));
            let value = _mm512_permutexvar_ps(low, self.0);
            _mm512_mask_storeu_ps(to, EVEN & first(here), value);
            if rest > 0 {
                let value = _mm512_permutexvar_ps(high, self.0);
                _mm512_mask_storeu_ps(to.wrapping_add(16), EVEN & first(rest), value);
            }
        }
    }

    #[inline(always)]
    unsafe fn load_pairs(from: *const f32, count: usize) -> (Self, Self) {
        let floats = 2 * count;
        // SAFETY: the caller's promise; masked lanes are not read.
        unsafe {
            let low = _mm512_maskz_loadu_ps(first(floats.min(16)), from);
            let rest = first(floats.saturating_sub(16));
            let high = _mm512_maskz_loadu_ps(rest, from.wrapping_add(16));
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            let pick = |index| Avx512(_mm512_permutex2var_ps(low, index, high));
            (pick(even), pick(odd))
        }
    }

    #[inline(always)]
    unsafe fn store_pairs(self, other: Self, to: *mut f32, count: usize) {
        let floats = 2 * count;
        // SAFETY: the caller's promise; masked lanes are not written.
        unsafe {
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
            let value = _mm512_permutex2var_ps(self.0, low, other.0);
            if floats < 16 {
                return _mm512_mask_storeu_ps(to, first(floats), value);
            }
            _mm512_storeu_ps(to, value);
            if floats > 16 {
                let value = _mm512_permutex2var_ps(self.0, high, other.0);
                _mm512_mask_storeu_ps(to.add(16), first(floats - 16), value);
            }
        }
    }

    intrinsics! {
        add(other) = |x, other| _mm512_add_ps(x, other);
        subtract(other) = |x, other| _mm512_sub_ps(x, other);
        multiply(other) = |x, other| _mm512_mul_ps(x, other);
        divide(other) = |x, other| _mm512_div_ps(x, other);
        multiply_add(factor, term) = |x, factor, term| _mm512_fmadd_ps(x, factor, term);
        sqrt() = |x| _mm512_sqrt_ps(x);
        larger(other) = |x, other| _mm512_max_ps(x, other);
        smaller(other) = |x, other| _mm512_min_ps(x, other);
        absolute() = |x| _mm512_andnot_ps(_mm512_set1_ps(-0.0), x);
        negate() = |x| _mm512_xor_ps(_mm512_set1_ps(-0.0), x);
        copy_sign(sign) = |x, sign| {
            let bit = _mm512_set1_ps(-0.0);
            _mm512_or_ps(_mm512_andnot_ps(bit, x), _mm512_and_ps(bit, sign))
        };
        scale(n) = |x, n| _mm512_scalef_ps(x, n);
        round() = |x| _mm512_roundscale_ps::<0>(x);
    }

    #[inline(always)]
    fn power_parts(self) -> (Self, Self) {
        // An infinity has a rest of 0, and scaling by any number is exact or ends at 0 and infinity.
        // SAFETY: `self` exists, so the instructions do.
        let rest = unsafe { _mm512_reduce_ps::<0>(self.0) };
        (self.round(), Avx512(rest))
    }

    comparisons! {
        less = _CMP_LT_OQ;
        less_equal = _CMP_LE_OQ;
        equal = _CMP_EQ_OQ;
    }

    #[inline(always)]
    fn select(mask: __mmask16, yes: Self, no: Self) -> Self {
        // SAFETY: `yes` exists, so the instructions do.
        Avx512(unsafe { _mm512_mask_blend_ps(mask, no.0, yes.0) })
    }

    #[inline(always)]
    fn all(mask: __mmask16) -> bool {
        mask == __mmask16::MAX
    }

    #[inline(always)]
    fn split(self) -> (Self, Self) {
        // SAFETY: `self` exists, so the instructions do.
        unsafe {
            let mantissa = _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_ZERO>(self.0);
            (Avx512(mantissa), Avx512(_mm512_getexp_ps(self.0)))
        }
    }
}
