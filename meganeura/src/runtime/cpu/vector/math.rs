//! Functions of vectors, branch-free but for sine and cosine of huge arguments.
//!
//! The polynomials are weighted least-squares fits on Chebyshev points, reweighted until
//! the error is level. Bounds, held to by the tests below in units in the last place of
//! the result: exp 2, exp2 2 (3 without fused multiply-adds), log 2, tanh 6, sigmoid 3, erf 3,
//! 1/√x 1.5, sine and cosine 2 or 1e-7 absolute.

use super::lanes::Lanes;
use crate::ir::random::of_floats;

/// Horner's rule, the constant term first.
#[inline(always)]
fn polynomial<L: Lanes, const N: usize>(x: L, coefficients: [f32; N]) -> L {
    let mut sum = x.constant(coefficients[N - 1]);
    for &coefficient in coefficients[..N - 1].iter().rev() {
        sum = sum.multiply_add(x, x.constant(coefficient));
    }
    sum
}

/// ln 2 in two parts, the first short enough that whole multiples of it are exact.
const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];

/// eˣ
#[inline(always)]
pub(super) fn exp<L: Lanes>(x: L) -> L {
    // Beyond this the result is infinity. A NaN passes.
    exp_below(x.constant(89.0).smaller(x))
}

/// eˣ for x ≤ 89
#[inline(always)]
fn exp_below<L: Lanes>(x: L) -> L {
    // Before this the result is 0. A NaN passes.
    let x = x.constant(-104.0).larger(x);
    let n = x.multiply(x.constant(std::f32::consts::LOG2_E)).round();
    let r = n.multiply_add(x.constant(-LN_2[0]), x);
    let r = n.multiply_add(x.constant(-LN_2[1]), r);
    let tail = polynomial(
        r,
        [
            0.5,
            0.166_665_12,
            0.041_666_187,
            0.008_369_603,
            0.001_395_166_9,
        ],
    );
    let one = x.constant(1.0);
    let value = tail.multiply_add(r.multiply(r), r).add(one);
    value.scale(n)
}

/// 2ˣ
#[inline(always)]
#[expect(
    clippy::approx_constant,
    reason = "the best polynomial's coefficient, not the constant"
)]
pub(super) fn exp2<L: Lanes>(x: L) -> L {
    let (n, rest) = x.power_parts();
    let value = polynomial(
        rest,
        [
            1.0,
            0.693_147,
            0.240_222_42,
            0.055_507_008,
            0.009_671_497,
            0.001_327_406_8,
        ],
    );
    value.scale(n)
}

/// ln x
#[inline(always)]
pub(super) fn log<L: Lanes>(x: L) -> L {
    let (zero, one) = (x.constant(0.0), x.constant(1.0));
    // Denormal numbers are made normal first.
    let tiny = x.less(x.constant(f32::MIN_POSITIVE));
    let normal = L::select(tiny, x.multiply(x.constant(33_554_432.0)), x);
    let (mantissa, exponent) = normal.split();
    let exponent = L::select(tiny, exponent.subtract(x.constant(25.0)), exponent);
    // From [1, 2) to [√½, √2).
    let large = x.constant(std::f32::consts::SQRT_2).less(mantissa);
    let mantissa = L::select(large, mantissa.multiply(x.constant(0.5)), mantissa);
    let exponent = L::select(large, exponent.add(one), exponent);
    let f = mantissa.subtract(one);
    let square = f.multiply(f);
    let cubic = polynomial(
        f,
        [
            0.333_333_13,
            -0.250_000_1,
            0.200_021_27,
            -0.166_680_29,
            0.142_194_48,
            -0.124_050_41,
            0.118_883_16,
            -0.116_786_01,
            0.067_497_27,
        ],
    )
    .multiply(square)
    .multiply(f);
    let tail = exponent.multiply_add(x.constant(LN_2[1]), cubic);
    let tail = square.multiply_add(x.constant(-0.5), tail);
    let value = exponent.multiply_add(x.constant(LN_2[0]), f.add(tail));
    let value = L::select(x.equal(x.constant(f32::INFINITY)), x, value);
    let value = L::select(x.equal(zero), x.constant(f32::NEG_INFINITY), value);
    let legal = zero.less_equal(x);
    L::select(legal, value, x.constant(f32::NAN))
}

/// Hyperbolic tangent, as a ratio of polynomials.
#[inline(always)]
pub(super) fn tanh<L: Lanes>(x: L) -> L {
    // Where it rounds to ±1. A NaN passes.
    let clamped = x.constant(-9.02).larger(x);
    let clamped = x.constant(9.02).smaller(clamped);
    let square = clamped.multiply(clamped);
    let above = polynomial(
        square,
        [
            1.0,
            0.133_744_33,
            0.003_487_760_4,
            2.048_034_4e-5,
            1.317_633_2e-8,
        ],
    );
    let below = polynomial(
        square,
        [
            1.0,
            0.467_077_46,
            0.025_847_197,
            0.000_327_283_7,
            7.703_563_4e-7,
        ],
    );
    let value = clamped.multiply(above).divide(below);
    let value = x.constant(1.0).smaller(value);
    x.constant(-1.0).larger(value)
}

/// 1/(1 + e⁻ˣ)
#[inline(always)]
pub(super) fn sigmoid<L: Lanes>(x: L) -> L {
    let (zero, one) = (x.constant(0.0), x.constant(1.0));
    let small = exp_below(x.negative());
    let above = L::select(x.less(zero), small, one);
    above.divide(one.add(small))
}

/// The error function: an odd polynomial near 0, `1 − exp(polynomial)` elsewhere.
#[inline(always)]
pub(super) fn erf<L: Lanes>(x: L) -> L {
    let magnitude = x.absolute();
    let square = x.multiply(x);
    let near = polynomial(
        square,
        [
            std::f32::consts::FRAC_2_SQRT_PI,
            -0.376_126_35,
            0.112_837_195,
            -0.026_860_753,
            0.005_204_434_5,
            -0.000_818_191_3,
            8.538_78e-5,
        ],
    )
    .multiply(x);
    let clamped = x.constant(4.0).smaller(magnitude);
    let exponent = polynomial(
        clamped,
        [
            -0.000_169_236_81,
            1.129_488_6,
            0.633_400_5,
            0.108_220_8,
            -0.025_080_904,
            0.004_156_372,
            -0.000_431_419_38,
            2.083_099_6e-5,
        ],
    );
    let one = x.constant(1.0);
    let far = one.subtract(exp(exponent.negate())).copy_sign(x);
    L::select(magnitude.less(x.constant(0.9)), near, far)
}

/// π/2 in four parts; whole multiples of the first three up to 2¹³ are exact.
const HALF_PI: [f32; 4] = [1.570_312_5, 4.837_513e-4, 7.549_533_6e-8, 2.563_344e-12];

/// Up to this magnitude the polynomials serve; beyond, the standard library.
const REDUCIBLE: f32 = 12_000.0;

/// sin(x + quarters · π/2)
#[inline(always)]
fn sine<L: Lanes>(x: L, quarters: f32) -> L {
    let n = x.multiply(x.constant(std::f32::consts::FRAC_2_PI)).round();
    let mut r = x;
    for part in HALF_PI {
        r = n.multiply_add(x.constant(-part), r);
    }
    let square = r.multiply(r);
    let odd = polynomial(
        square,
        [
            -0.166_666_67,
            0.008_333_329,
            -0.000_198_392_56,
            2.717_562_2e-6,
        ],
    );
    let odd = odd.multiply(square).multiply_add(r, r);
    let even = polynomial(
        square,
        [
            0.041_666_668,
            -0.001_388_888_3,
            2.479_943_6e-5,
            -2.720_326_8e-7,
        ],
    );
    let one = x.constant(1.0);
    let even = even
        .multiply(square.multiply(square))
        .add(square.multiply_add(x.constant(-0.5), one));
    // Which quarter of the circle, −2 ..= 2 from the nearest whole turn.
    let quarter = n.add(x.constant(quarters));
    let turns = quarter.multiply(x.constant(0.25)).round();
    let quarter = turns.multiply_add(x.constant(-4.0), quarter);
    let value = L::select(quarter.absolute().equal(one), even, odd);
    // −1 and ±2 are the negative ones: sin(r − π/2) = −cos r, sin(r ± π) = −sin r.
    let negative = quarter.less(x.constant(0.0));
    let value = L::select(negative, value.negate(), value);
    L::select(quarter.equal(x.constant(2.0)), value.negate(), value)
}

/// A function of each lane by itself.
#[inline(always)]
fn lane_by_lane<L: Lanes>(x: L, f: impl Fn(f32) -> f32) -> L {
    let mut lanes = [0.0; 16];
    const { assert!(L::COUNT <= 16) };
    // SAFETY: there is room for all lanes.
    unsafe { x.store(lanes.as_mut_ptr()) };
    let lanes = lanes.map(f);
    // SAFETY: all lanes are there, and `x` exists.
    unsafe { L::load(lanes.as_ptr()) }
}

/// Sine.
#[inline(always)]
pub(super) fn sin<L: Lanes>(x: L) -> L {
    let value = sine(x, 0.0);
    let small = x.absolute().less(x.constant(REDUCIBLE));
    if L::all(small) {
        value
    } else {
        L::select(small, value, lane_by_lane(x, f32::sin))
    }
}

/// Cosine.
#[inline(always)]
pub(super) fn cos<L: Lanes>(x: L) -> L {
    let value = sine(x, 1.0);
    let small = x.absolute().less(x.constant(REDUCIBLE));
    if L::all(small) {
        value
    } else {
        L::select(small, value, lane_by_lane(x, f32::cos))
    }
}

/// The larger; NaN if either is NaN.
#[inline(always)]
pub(super) fn maximum<L: Lanes>(a: L, b: L) -> L {
    // `larger` gives b for a NaN in either: right if it is b's.
    L::select(a.equal(a), a.larger(b), a)
}

/// A uniform number of two; NaN if either is NaN.
#[inline(always)]
pub(super) fn random<L: Lanes>(a: L, b: L) -> L {
    const MOST: usize = 16;
    const { assert!(L::COUNT <= MOST) };
    let (mut left, mut right) = ([0.0; MOST], [0.0; MOST]);
    // SAFETY: both arrays have room for all lanes, and `a` proves the instruction set.
    unsafe {
        a.store(left.as_mut_ptr());
        b.store(right.as_mut_ptr());
    }
    for (a, b) in left.iter_mut().zip(right) {
        *a = match a.is_nan() || b.is_nan() {
            true => f32::NAN,
            false => of_floats(*a, b),
        };
    }
    // SAFETY: as above.
    unsafe { L::load(left.as_ptr()) }
}

/// The smaller; NaN if either is NaN.
#[inline(always)]
pub(super) fn minimum<L: Lanes>(a: L, b: L) -> L {
    L::select(a.equal(a), a.smaller(b), a)
}
