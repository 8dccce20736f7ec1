use super::softmax::{Loops, QUERIES, Seen, Tile};
use super::{Form, InstructionSet, Kind, lookup};
use crate::ir::{ScalarOp, bf16};

/// An operation on many floats.
fn apply(set: InstructionSet, op: ScalarOp, from: &[f32]) -> Vec<f32> {
    let mut to = vec![0.0; from.len()];
    let work = lookup(set, Form::Unary(op, Kind::Stream));
    let null = std::ptr::null();
    // SAFETY: there are as many floats on both sides.
    unsafe { work(to.as_mut_ptr(), from.as_ptr(), null, null, from.len()) };
    to
}

/// The size of the last place of a float near a number.
fn last_place(value: f64) -> f64 {
    let exponent = value.abs().log2().floor().max(-126.0);
    (exponent - 23.0).exp2()
}

/// The worst error of an operation over some floats, in units in the last place; below
/// `absolute` an error does not count.
fn worst(op: ScalarOp, from: &[f32], absolute: f64) -> f64 {
    let mut worst: f64 = 0.0;
    for set in InstructionSet::available() {
        for (x, value) in from.iter().zip(apply(set, op, from)) {
            let exact = op.evaluate(&[f64::from(*x)]);
            if f64::from(exact as f32) == f64::from(value) || (exact.is_nan() && value.is_nan()) {
                continue;
            }
            let error = (f64::from(value) - exact).abs();
            let places = if error <= absolute {
                0.0
            } else {
                error / last_place(exact)
            };
            assert!(
                !places.is_nan() && places < 1e6,
                "{set:?} {op:?}({x}) = {value} for {exact}"
            );
            worst = worst.max(places);
        }
    }
    worst
}

/// Evenly spaced floats.
fn sweep(low: f32, high: f32, count: usize) -> Vec<f32> {
    let step = (f64::from(high) - f64::from(low)) / count as f64;
    (0..=count)
        .map(|i| (f64::from(low) + step * i as f64) as f32)
        .collect()
}

/// Floats of every magnitude and both signs.
fn magnitudes() -> Vec<f32> {
    let positive = (0..0x7f80_0000u32).step_by(10_007).map(f32::from_bits);
    positive.flat_map(|x| [x, -x]).collect()
}

const SPECIAL: [f32; 12] = [
    0.0,
    -0.0,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    f32::MAX,
    f32::MIN,
    1.0,
    -1.0,
];

#[test]
fn functions_keep_their_bounds() {
    // The operation, its sweep, the bound in units in the last place, and the absolute one.
    let cases = [
        (ScalarOp::Exp, (-105.0, 90.0), 2.0, 0.0),
        (ScalarOp::Log, (1e-3, 10.0), 2.0, 0.0),
        (ScalarOp::Tanh, (-12.0, 12.0), 6.0, 0.0),
        (ScalarOp::Sigmoid, (-110.0, 110.0), 3.0, 0.0),
        (ScalarOp::Erf, (-6.0, 6.0), 3.0, 0.0),
        (ScalarOp::Sin, (-12_100.0, 12_100.0), 2.0, 1e-7),
        (ScalarOp::Cos, (-12_100.0, 12_100.0), 2.0, 1e-7),
        (ScalarOp::Sin, (-10.0, 10.0), 2.0, 1e-7),
        (ScalarOp::Cos, (-10.0, 10.0), 2.0, 1e-7),
        (ScalarOp::Sqrt, (0.0, 100.0), 0.51, 0.0),
        (ScalarOp::Reciprocal, (-10.0, 10.0), 0.51, 0.0),
        (ScalarOp::ReciprocalSqrt, (0.0, 10.0), 1.5, 0.0),
    ];
    for (op, (low, high), bound, absolute) in cases {
        let mut from = sweep(low, high, 300_000);
        from.extend(magnitudes());
        from.extend(SPECIAL);
        let worst = worst(op, &from, absolute);
        println!("{op:?}: {worst:.2}");
        assert!(worst <= bound, "{op:?}: {worst} units in the last place");
    }
}

#[test]
fn halves_are_rounded_alike_everywhere() {
    let from: Vec<f32> = magnitudes()
        .into_iter()
        .chain(SPECIAL)
        .chain(
            (0..=0xffff)
                .flat_map(|low| [0x3f80_0000, 0xbf81_0000, 0x7f80_0000].map(|high| high | low))
                .map(f32::from_bits),
        )
        .collect();
    let null = std::ptr::null();
    for set in InstructionSet::available() {
        for count in [from.len(), 1, 7, 19, 33] {
            let from = &from[from.len() - count..];
            let (mut halves, mut back) = (vec![7u16; count + 1], vec![7.0f32; count + 1]);
            let [round, widen] =
                [Form::Round(Kind::Stream), Form::Widen].map(|form| lookup(set, form));
            // SAFETY: there are as many floats and halves.
            unsafe {
                round(halves.as_mut_ptr().cast(), from.as_ptr(), null, null, count);
                widen(back.as_mut_ptr(), halves.as_ptr().cast(), null, null, count);
            }
            assert_eq!((halves.pop(), back.pop()), (Some(7), Some(7.0)));
            for ((value, half), back) in from.iter().zip(halves).zip(back) {
                assert_eq!(half, bf16::round(*value), "{set:?}: {value}");
                assert_eq!(
                    back.to_bits(),
                    bf16::widen(half).to_bits(),
                    "{set:?}: {half}"
                );
            }
        }
    }
}

#[test]
fn a_position_in_the_vector_does_not_matter() {
    let from: Vec<f32> = sweep(-3.0, 3.0, 40)
        .into_iter()
        .chain([1e5, -2e7])
        .collect();
    for set in InstructionSet::available() {
        for &op in ScalarOp::ALL.iter().filter(|op| op.arity() == 1) {
            let together = apply(set, op, &from);
            for (x, together) in from.iter().zip(together) {
                let alone = apply(set, op, &[*x])[0];
                let same = alone == together || (alone.is_nan() && together.is_nan());
                assert!(
                    same,
                    "{set:?} {op:?}({x}) = {alone} alone, {together} together"
                );
            }
        }
    }
}

#[test]
fn powers_of_two_keep_their_bound() {
    let mut numbers = sweep(-160.0, 135.0, 200_000);
    numbers.extend(magnitudes());
    numbers.extend(SPECIAL);
    numbers.resize(numbers.len().next_multiple_of(QUERIES), 0.0);
    for set in InstructionSet::available() {
        let mut powers = numbers.clone();
        let tile = Tile {
            start: powers.as_mut_ptr(),
            stride: QUERIES,
            keys: powers.len() / QUERIES,
        };
        // SAFETY: the tile is the numbers, and the set is there.
        unsafe { (Loops::of(set).powers)(tile, &mut { Seen::NOTHING }) };
        let bound = match set {
            InstructionSet::Portable => 3.0,
            #[cfg(target_arch = "x86_64")]
            _ => 2.0,
        };
        for (&x, &power) in numbers.iter().zip(&powers) {
            let exact = f64::from(x).exp2();
            if f64::from(exact as f32) == f64::from(power) || (x.is_nan() && power.is_nan()) {
                continue;
            }
            let places = (f64::from(power) - exact).abs() / last_place(exact);
            assert!(places <= bound, "{set:?}: 2^{x} = {power}, not {exact}");
        }
    }
}
