use crate::ir::bf16;

/// A vector of floats.
///
/// A value of an implementing type is the proof that its instruction set is there: the
/// constructors are unsafe, the methods are not. Every method is inlined, so that it is
/// compiled with the features of the loop it stands in.
pub(crate) trait Lanes: Copy {
    /// One truth value for each lane.
    type Mask: Copy;
    /// The number of lanes.
    const COUNT: usize;

    /// All lanes the same.
    ///
    /// # Safety
    /// The instruction set must be there.
    unsafe fn splat(value: f32) -> Self;

    /// `COUNT` floats from memory.
    ///
    /// # Safety
    /// The instruction set and the floats must be there.
    unsafe fn load(from: *const f32) -> Self;

    /// `count` floats from memory, fewer than `COUNT`; the other lanes are 0.
    ///
    /// # Safety
    /// The instruction set and the floats must be there.
    unsafe fn load_partial(from: *const f32, count: usize) -> Self;

    /// All lanes to memory.
    ///
    /// # Safety
    /// The memory must be there.
    unsafe fn store(self, to: *mut f32);

    /// The first `count` lanes to memory, fewer than `COUNT`.
    ///
    /// # Safety
    /// The memory must be there.
    unsafe fn store_partial(self, to: *mut f32, count: usize);

    /// `COUNT` halves from memory, widened.
    ///
    /// # Safety
    /// The instruction set and the halves must be there.
    unsafe fn load_halves(from: *const u16) -> Self;

    /// All lanes to memory, each rounded to the nearest half.
    ///
    /// # Safety
    /// The memory must be there.
    unsafe fn store_halves(self, to: *mut u16);

    /// `count` halves from memory, fewer than `COUNT`; the other lanes are 0.
    ///
    /// # Safety
    /// The instruction set and the halves must be there.
    #[inline(always)]
    unsafe fn load_halves_partial(from: *const u16, count: usize) -> Self {
        let mut halves = [0; 16];
        for (i, half) in halves.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's promise.
            *half = unsafe { from.add(i).read() };
        }
        // SAFETY: no vector has more lanes.
        unsafe { Self::load_halves(halves.as_ptr()) }
    }

    /// The first `count` lanes to memory, fewer than `COUNT`, each rounded to the nearest half.
    ///
    /// # Safety
    /// The memory must be there.
    #[inline(always)]
    unsafe fn store_halves_partial(self, to: *mut u16, count: usize) {
        let mut halves = [0; 16];
        // SAFETY: no vector has more lanes; the caller's promise.
        unsafe {
            self.store_halves(halves.as_mut_ptr());
            to.copy_from_nonoverlapping(halves.as_ptr(), count);
        }
    }

    /// `count` floats from every second place in memory, up to `COUNT`; other lanes may be
    /// anything.
    ///
    /// # Safety
    /// The instruction set and these floats must be there, and those between them.
    #[inline(always)]
    unsafe fn load_even(from: *const f32, count: usize) -> Self {
        let mut lanes = [0.0; 16];
        for (i, lane) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's promise.
            *lane = unsafe { from.add(2 * i).read() };
        }
        // SAFETY: no vector has more lanes.
        unsafe { Self::load(lanes.as_ptr()) }
    }

    /// The first `count` lanes, up to `COUNT`, to every second place in memory; those between
    /// stay as they are.
    ///
    /// # Safety
    /// These places must be there.
    #[inline(always)]
    unsafe fn store_even(self, to: *mut f32, count: usize) {
        let mut lanes = [0.0; 16];
        // SAFETY: no vector has more lanes; the caller's promise.
        unsafe {
            self.store(lanes.as_mut_ptr());
            for (i, &lane) in lanes.iter().enumerate().take(count) {
                to.add(2 * i).write(lane);
            }
        }
    }

    /// `count` pairs of floats, up to `COUNT`, the first of each and the second of each apart;
    /// other lanes may be anything.
    ///
    /// # Safety
    /// The instruction set and the floats must be there.
    #[inline(always)]
    unsafe fn load_pairs(from: *const f32, count: usize) -> (Self, Self) {
        // SAFETY: the caller's promise.
        unsafe {
            let second = if count == 0 { from } else { from.add(1) };
            (Self::load_even(from, count), Self::load_even(second, count))
        }
    }

    /// The first `count` lanes of both, up to `COUNT`, in turn.
    ///
    /// # Safety
    /// The memory must be there.
    #[inline(always)]
    unsafe fn store_pairs(self, other: Self, to: *mut f32, count: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.store_even(to, count);
            other.store_even(to.wrapping_add(1), count);
        }
    }

    /// All lanes the same.
    #[inline(always)]
    fn constant(self, value: f32) -> Self {
        // SAFETY: `self` exists.
        unsafe { Self::splat(value) }
    }

    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn divide(self, other: Self) -> Self;
    /// `self · factor + term`, rounded once where the instruction set can.
    fn multiply_add(self, factor: Self, term: Self) -> Self;
    fn sqrt(self) -> Self;
    /// `if self > other { self } else { other }`: a NaN in either gives `other`.
    fn larger(self, other: Self) -> Self;
    /// `if self < other { self } else { other }`: a NaN in either gives `other`.
    fn smaller(self, other: Self) -> Self;
    fn absolute(self) -> Self;
    fn negate(self) -> Self;
    /// `-|self|`
    #[inline(always)]
    fn negative(self) -> Self {
        self.absolute().negate()
    }
    /// The magnitude of `self` with the sign of `sign`.
    fn copy_sign(self, sign: Self) -> Self;
    fn less(self, other: Self) -> Self::Mask;
    fn less_equal(self, other: Self) -> Self::Mask;
    fn equal(self, other: Self) -> Self::Mask;
    /// `yes` where the mask holds, else `no`.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Whether the mask holds in all lanes.
    fn all(mask: Self::Mask) -> bool;
    /// A whole number n and a rest of at most ½ whose powers of 2 multiply to that of `self`; where
    /// that is 0 or infinite, what [`Lanes::scale`] by n makes of 1.
    #[inline(always)]
    fn power_parts(self) -> (Self, Self) {
        // Beyond these the power is infinity or 0. A NaN passes both.
        let x = self.constant(-151.0).larger(self);
        let x = x.constant(129.0).smaller(x);
        let n = x.round();
        (n, x.subtract(n))
    }
    /// `self · 2ⁿ` for whole n, |n| < 252, rounded once at most.
    fn scale(self, n: Self) -> Self;
    /// A positive normal number as `m · 2ᵉ` with 1 ≤ m < 2.
    fn split(self) -> (Self, Self);

    /// The nearest whole number, ties to even, for |x| < 2²².
    #[inline(always)]
    fn round(self) -> Self {
        let shift = self.constant(ROUND);
        self.add(shift).subtract(shift)
    }
}

/// Added to a number under 2²² it pushes the fraction out.
pub(super) const ROUND: f32 = 12_582_912.0;

/// Vectors for compilers that know their target: arrays that they turn into registers.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Portable([f32; 8]);

/// Whether `f32::mul_add` is an instruction and not a call.
const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

impl Portable {
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Self {
        Portable(self.0.map(f))
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Portable(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }

    #[inline(always)]
    fn compare(self, other: Self, f: impl Fn(f32, f32) -> bool) -> [bool; 8] {
        std::array::from_fn(|i| f(self.0[i], other.0[i]))
    }
}

impl Lanes for Portable {
    type Mask = [bool; 8];
    const COUNT: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Portable([value; 8])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Portable(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_partial(from: *const f32, count: usize) -> Self {
        let mut lanes = [0.0; 8];
        for (i, lane) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's promise.
            *lane = unsafe { from.add(i).read() };
        }
        Portable(lanes)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    unsafe fn store_partial(self, to: *mut f32, count: usize) {
        for (i, &lane) in self.0.iter().enumerate().take(count) {
            // SAFETY: the caller's promise.
            unsafe { to.add(i).write(lane) };
        }
    }

    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> Self {
        // SAFETY: the caller's promise.
        Portable(unsafe { from.cast::<[u16; 8]>().read_unaligned() }.map(bf16::widen))
    }

    #[inline(always)]
    unsafe fn store_halves(self, to: *mut u16) {
        // Both results are there for every lane, so that compilers find vectors.
        let halves = self.0.map(|value| {
            let bits = value.to_bits();
            let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
            let half = if value.is_nan() {
                bits | 0x40_0000
            } else {
                rounded
            };
            (half >> 16) as u16
        });
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u16; 8]>().write_unaligned(halves) };
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    fn subtract(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    fn multiply(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    fn divide(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    fn multiply_add(self, factor: Self, term: Self) -> Self {
        Portable(std::array::from_fn(|i| {
            if FUSED {
                self.0[i].mul_add(factor.0[i], term.0[i])
            } else {
                self.0[i] * factor.0[i] + term.0[i]
            }
        }))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        self.map(f32::sqrt)
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn absolute(self) -> Self {
        self.map(f32::abs)
    }

    #[inline(always)]
    fn negate(self) -> Self {
        self.map(|x| -x)
    }

    #[inline(always)]
    fn copy_sign(self, sign: Self) -> Self {
        self.zip(sign, f32::copysign)
    }

    #[inline(always)]
    fn less(self, other: Self) -> [bool; 8] {
        self.compare(other, |a, b| a < b)
    }

    #[inline(always)]
    fn less_equal(self, other: Self) -> [bool; 8] {
        self.compare(other, |a, b| a <= b)
    }

    #[inline(always)]
    fn equal(self, other: Self) -> [bool; 8] {
        self.compare(other, |a, b| a == b)
    }

    #[inline(always)]
    fn select(mask: [bool; 8], yes: Self, no: Self) -> Self {
        Portable(std::array::from_fn(|i| {
            if mask[i] { yes.0[i] } else { no.0[i] }
        }))
    }

    #[inline(always)]
    fn all(mask: [bool; 8]) -> bool {
        mask.iter().all(|&holds| holds)
    }

    #[inline(always)]
    fn scale(self, n: Self) -> Self {
        let half = n.multiply(n.constant(0.5)).round();
        let power = |n: Self| {
            // The sum's low bits are n + 127: shifted, the exponent field of 2ⁿ.
            n.map(|n| f32::from_bits((n + (ROUND + 127.0)).to_bits() << 23))
        };
        self.multiply(power(half)).multiply(power(n.subtract(half)))
    }

    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let mantissa = self.map(|x| f32::from_bits(x.to_bits() & 0x007f_ffff | 0x3f80_0000));
        let exponent = self.map(|x| (x.to_bits() >> 23) as i32 as f32 - 127.0);
        (mantissa, exponent)
    }
}
