//! The few vector operations the micro-kernels need, per instruction set.
//!
//! Each operation is `#[inline(always)]`, so that it ends up inside a kernel that is
//! compiled for its instruction set; called from anywhere else it would be slow at best.

/// A register of floats.
///
/// # Safety
///
/// All functions may only be called on a CPU that has the instruction set, and pointers
/// must be valid for as many floats as the function's name says ([`Self::LANES`] or `count`).
/// No alignment is asked for.
pub(super) trait Vector: Copy {
    /// Floats in a register.
    const LANES: usize;

    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// The first `count <= LANES` floats; the others are zero.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Stores the first `count <= LANES` floats.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    unsafe fn add(self, other: Self) -> Self;
    /// `self + a * b`, fused where the hardware does that.
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self;
    /// The sum of all lanes, in a fixed order.
    unsafe fn sum(self) -> f32;
    /// Writes the transpose of a square block of `LANES` rows: element (i, j) goes from
    /// `from[i * from_stride + j]` to `to[j * to_stride + i]`.
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize);

    /// Asks for the cache line of an address, which need not be there, in the second-level
    /// cache, or for the right to write it, which other cores then lose.
    #[inline(always)]
    fn fetch(from: *const f32, written: bool) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: hints; they read nothing that the program could notice. Where there is no
        // `prefetchw`, it does nothing.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            if written {
                std::arch::asm!(
                    "prefetchw [{}]",
                    in(reg) from,
                    options(nostack, preserves_flags, readonly)
                );
            } else {
                _mm_prefetch::<_MM_HINT_T1>(from.cast());
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (from, written);
    }
}

/// Plain arrays, for any CPU; the compiler makes of them what it can.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; 4]);

// SAFETY (of the bodies): the caller vouches for the pointers, as the trait demands.
impl Vector for Portable {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut lanes = [0.0; 4];
        unsafe { from.copy_to_nonoverlapping(lanes.as_mut_ptr(), count) };
        Self(lanes)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        unsafe { to.copy_from_nonoverlapping(self.0.as_ptr(), count) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane] + other.0[lane]))
    }

    #[inline(always)]
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
        // Not `f32::mul_add`: without the instruction that is a library call.
        Self(std::array::from_fn(|lane| {
            self.0[lane] + a.0[lane] * b.0[lane]
        }))
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        (self.0[0] + self.0[2]) + (self.0[1] + self.0[3])
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for i in 0..Self::LANES {
            for j in 0..Self::LANES {
                unsafe { *to.add(j * to_stride + i) = *from.add(i * from_stride + j) };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    /// AVX-512: 16 floats.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx512(pub(in super::super) __m512);

    /// The lanes below `count`.
    #[inline(always)]
    fn first(count: usize) -> __mmask16 {
        debug_assert!(count <= 16);
        ((1_u32 << count) - 1) as __mmask16
    }

    // SAFETY (of the bodies): the caller vouches for the instruction set and the
    // pointers, as the trait demands.
    impl Vector for Avx512 {
        const LANES: usize = 16;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            Self(unsafe { _mm512_set1_ps(value) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Self(unsafe { _mm512_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            Self(unsafe { _mm512_maskz_loadu_ps(first(count), from) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            unsafe { _mm512_mask_storeu_ps(to, first(count), self.0) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            Self(unsafe { _mm512_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
            Self(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
        }

        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe { _mm512_reduce_add_ps(self.0) }
        }

        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe {
                let rows: [__m512; 16] =
                    std::array::from_fn(|i| _mm512_loadu_ps(from.add(i * from_stride)));
                // Within the four quarters: 4x4 transposes, of four rows at a time.
                let mut quads = rows;
                for i in (0..16).step_by(4) {
                    let low = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
                    let high = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
                    let low2 = _mm512_unpacklo_ps(rows[i + 2], rows[i + 3]);
                    let high2 = _mm512_unpackhi_ps(rows[i + 2], rows[i + 3]);
                    quads[i] = unpack_low(low, low2);
                    quads[i + 1] = unpack_high(low, low2);
                    quads[i + 2] = unpack_low(high, high2);
                    quads[i + 3] = unpack_high(high, high2);
                }
                // Then the quarters themselves.
                for j in 0..4 {
                    let low = _mm512_shuffle_f32x4::<0x44>(quads[j], quads[j + 4]);
                    let high = _mm512_shuffle_f32x4::<0xee>(quads[j], quads[j + 4]);
                    let low2 = _mm512_shuffle_f32x4::<0x44>(quads[j + 8], quads[j + 12]);
                    let high2 = _mm512_shuffle_f32x4::<0xee>(quads[j + 8], quads[j + 12]);
                    let columns = [
                        _mm512_shuffle_f32x4::<0x88>(low, low2),
                        _mm512_shuffle_f32x4::<0xdd>(low, low2),
                        _mm512_shuffle_f32x4::<0x88>(high, high2),
                        _mm512_shuffle_f32x4::<0xdd>(high, high2),
                    ];
                    for (quarter, column) in columns.into_iter().enumerate() {
                        _mm512_storeu_ps(to.add((4 * quarter + j) * to_stride), column);
                    }
                }
            }
        }
    }

    /// AVX2 and FMA: 8 floats.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(__m256);

    #[inline(always)]
    unsafe fn unpack_low(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller's, who has AVX-512.
        unsafe { _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))) }
    }

    #[inline(always)]
    unsafe fn unpack_high(a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller's, who has AVX-512.
        unsafe { _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))) }
    }

    /// Eight ones before eight zeros: a window into it masks the first lanes.
    static WINDOW: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    /// The lanes below `count <= 8`.
    #[inline(always)]
    unsafe fn mask(count: usize) -> __m256i {
        debug_assert!(count <= 8);
        // SAFETY: the eight numbers from `8 - count` on lie inside the window.
        unsafe { _mm256_loadu_si256(WINDOW.as_ptr().add(8 - count).cast()) }
    }

    // SAFETY (of the bodies): the caller vouches for the instruction set and the
    // pointers, as the trait demands.
    impl Vector for Avx2 {
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            Self(unsafe { _mm256_set1_ps(value) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Self(unsafe { _mm256_loadu_ps(from) })
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            Self(unsafe { _mm256_maskload_ps(from, mask(count)) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self.0) }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            unsafe { _mm256_maskstore_ps(to, mask(count), self.0) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            Self(unsafe { _mm256_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
            Self(unsafe { _mm256_fmadd_ps(a.0, b.0, self.0) })
        }

        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let four = _mm_add_ps(
                    _mm256_castps256_ps128(self.0),
                    _mm256_extractf128_ps::<1>(self.0),
                );
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
            }
        }

        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe {
                // Rows i and i + 4 share a register, so that whole rows come out at the end.
                let halves = |i: usize, half: usize| {
                    let low = _mm_loadu_ps(from.add(i * from_stride + 4 * half));
                    let high = _mm_loadu_ps(from.add((i + 4) * from_stride + 4 * half));
                    _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
                };
                for half in 0..2 {
                    let [a, b, c, d] = [0, 1, 2, 3].map(|i| halves(i, half));
                    let (low, low2) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
                    let (high, high2) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
                    let columns = [
                        _mm256_shuffle_ps::<0x44>(low, low2),
                        _mm256_shuffle_ps::<0xee>(low, low2),
                        _mm256_shuffle_ps::<0x44>(high, high2),
                        _mm256_shuffle_ps::<0xee>(high, high2),
                    ];
                    for (index, column) in columns.into_iter().enumerate() {
                        _mm256_storeu_ps(to.add((4 * half + index) * to_stride), column);
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm {
    use super::Vector;
    use std::arch::aarch64::*;

    /// NEON: 4 floats.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Neon(float32x4_t);

    // SAFETY (of the bodies): the caller vouches for the instruction set and the
    // pointers, as the trait demands.
    impl Vector for Neon {
        const LANES: usize = 4;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            Self(unsafe { vdupq_n_f32(value) })
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Self(unsafe { vld1q_f32(from) })
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            let mut lanes = [0.0; 4];
            unsafe {
                from.copy_to_nonoverlapping(lanes.as_mut_ptr(), count);
                Self(vld1q_f32(lanes.as_ptr()))
            }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { vst1q_f32(to, self.0) }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            let mut lanes = [0.0; 4];
            unsafe {
                vst1q_f32(lanes.as_mut_ptr(), self.0);
                to.copy_from_nonoverlapping(lanes.as_ptr(), count);
            }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            Self(unsafe { vaddq_f32(self.0, other.0) })
        }

        #[inline(always)]
        unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
            Self(unsafe { vfmaq_f32(self.0, a.0, b.0) })
        }

        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe { vaddvq_f32(self.0) }
        }

        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe {
                let [a, b, c, d] = [0, 1, 2, 3].map(|i| vld1q_f32(from.add(i * from_stride)));
                let (low, high) = (vzip1q_f32(a, c), vzip2q_f32(a, c));
                let (low2, high2) = (vzip1q_f32(b, d), vzip2q_f32(b, d));
                vst1q_f32(to, vzip1q_f32(low, low2));
                vst1q_f32(to.add(to_stride), vzip2q_f32(low, low2));
                vst1q_f32(to.add(2 * to_stride), vzip1q_f32(high, high2));
                vst1q_f32(to.add(3 * to_stride), vzip2q_f32(high, high2));
            }
        }
    }
}
