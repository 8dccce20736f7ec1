use std::arch::x86_64::*;

use super::lanes::{Lanes, ROUND};

/// Eight floats. Needs AVX2 and FMA.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256);

/// The method bodies: one intrinsic each.
macro_rules! intrinsics {
    ($($name:ident($($arg:ident),*) = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self $(, $arg: Self)*) -> Self {
            let x = self.0;
            $(let $arg = $arg.0;)*
            // SAFETY: `self` exists, so the instructions do.
            Avx2(unsafe { ($body)(x $(, $arg)*) })
        }
    )*};
}

macro_rules! comparisons {
    ($($name:ident = $predicate:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> __m256 {
            // SAFETY: `self` exists, so the instructions do.
            unsafe { _mm256_cmp_ps::<$predicate>(self.0, other.0) }
        }
    )*};
}

/// The mask of the first `count` lanes.
///
/// # Safety
/// The instruction set must be there.
#[inline(always)]
unsafe fn first(count: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
    }
}

/// 2ⁿ for whole n in −127 ..= 128 (0 and infinity at the ends).
///
/// # Safety
/// The instruction set must be there.
#[inline(always)]
unsafe fn power(n: __m256) -> __m256 {
    // SAFETY: the caller's promise. The sum's low bits are n + 127: shifted, the exponent.
    unsafe {
        let sum = _mm256_add_ps(n, _mm256_set1_ps(ROUND + 127.0));
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(sum)))
    }
}

impl Lanes for Avx2 {
    type Mask = __m256;
    const COUNT: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's promise.
        Avx2(unsafe { _mm256_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Avx2(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's promise; masked lanes are not read.
        Avx2(unsafe { _mm256_maskload_ps(from, first(count)) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(to, self.0) };
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut f32, count: usize) {
        // SAFETY: the caller's promise; masked lanes are not written.
        unsafe { _mm256_maskstore_ps(to, first(count), self.0) };
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            Avx2(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(words)))
        }
    }

    #[inline(always)]
    unsafe fn store_halves(self, to: *mut u16) {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let upper = _mm256_srli_epi32::<16>(bits);
            let odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
            let sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let nearest = _mm256_srli_epi32::<16>(sum);
            let quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
            let no_number = _mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0);
            let no_number = _mm256_castps_si256(no_number);
            let halves = _mm256_blendv_epi8(nearest, quiet, no_number);
            // Each half of the register packs for itself: the first and third quarter remain.
            let packed = _mm256_packus_epi32(halves, halves);
            let packed = _mm256_permute4x64_epi64::<0b1000>(packed);
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed));
        }
    }

    intrinsics! {
        add(other) = |x, other| _mm256_add_ps(x, other);
        subtract(other) = |x, other| _mm256_sub_ps(x, other);
        multiply(other) = |x, other| _mm256_mul_ps(x, other);
        divide(other) = |x, other| _mm256_div_ps(x, other);
        multiply_add(factor, term) = |x, factor, term| _mm256_fmadd_ps(x, factor, term);
        sqrt() = |x| _mm256_sqrt_ps(x);
        larger(other) = |x, other| _mm256_max_ps(x, other);
        smaller(other) = |x, other| _mm256_min_ps(x, other);
        absolute() = |x| _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
        negate() = |x| _mm256_xor_ps(_mm256_set1_ps(-0.0), x);
        copy_sign(sign) = |x, sign| {
            let bit = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(bit, x), _mm256_and_ps(bit, sign))
        };
        scale(n) = |x, n| {
            let half = _mm256_mul_ps(n, _mm256_set1_ps(0.5));
            let half = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(half);
            let rest = _mm256_sub_ps(n, half);
            _mm256_mul_ps(_mm256_mul_ps(x, power(half)), power(rest))
        };
        round() = |x| _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
    }

    comparisons! {
        less = _CMP_LT_OQ;
        less_equal = _CMP_LE_OQ;
        equal = _CMP_EQ_OQ;
    }

    #[inline(always)]
    fn select(mask: __m256, yes: Self, no: Self) -> Self {
        // SAFETY: `yes` exists, so the instructions do.
        Avx2(unsafe { _mm256_blendv_ps(no.0, yes.0, mask) })
    }

    #[inline(always)]
    fn all(mask: __m256) -> bool {
        // SAFETY: the mask came from a vector, so the instructions exist.
        unsafe { _mm256_movemask_ps(mask) == 0xff }
    }

    #[inline(always)]
    fn split(self) -> (Self, Self) {
        // SAFETY: `self` exists, so the instructions do.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let fraction = _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff));
            let mantissa = _mm256_or_si256(fraction, _mm256_set1_epi32(0x3f80_0000));
            let exponent = _mm256_cvtepi32_ps(_mm256_srli_epi32::<23>(bits));
            (
                Avx2(_mm256_castsi256_ps(mantissa)),
                Avx2(_mm256_sub_ps(exponent, _mm256_set1_ps(127.0))),
            )
        }
    }
}
