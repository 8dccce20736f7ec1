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
