use super::super::{Form, InstructionSet, Kind, lookup};
use super::trace::Value;
use super::{Fused, Recording, traceable, turn};
use crate::ir::{Combine, ScalarOp};

/// All that one or two turns of a loop and a rest can be, and longer ones.
fn counts() -> impl Iterator<Item = usize> {
    (0..=100).chain([128, 777])
}

/// Floats of all kinds.
fn floats(count: usize, seed: usize) -> Vec<f32> {
    const SPECIAL: [f32; 9] = [
        0.0,
        -0.0,
        1.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MIN_POSITIVE,
        1e30,
        -3.5,
    ];
    let float = |i: usize| match (i * 7 + seed * 3) % 23 {
        special @ 0..9 => SPECIAL[special],
        _ => ((i * 193 + seed * 71) % 1009) as f32 / 99.0 - 5.0,
    };
    (0..count).map(float).collect()
}

/// Runs a loop over the streams, the last of which it writes, and one double.
fn run(recording: &Recording, streams: &mut [Vec<f32>], count: usize) -> f64 {
    let fused = Fused::new(recording).expect("registers enough");
    let mut double: f64 = 0.5;
    let mut table: Vec<*mut f32> = streams.iter_mut().map(|s| s.as_mut_ptr()).collect();
    table.push((&raw mut double).cast());
    // SAFETY: every stream has so many floats.
    unsafe { fused.run(&table, count) };
    double
}

fn same(a: &[f32], b: &[f32]) -> bool {
    let equal = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    a.len() == b.len() && a.iter().zip(b).all(equal)
}

#[test]
fn every_operation_is_that_of_its_step() {
    let set = InstructionSet::detect();
    if !set.fuses() {
        return;
    }
    for &op in ScalarOp::ALL.iter().filter(|op| traceable(**op)) {
        let mut recording = Recording::default();
        let operands: [Value; 3] = std::array::from_fn(|slot| recording.load(slot as u16));
        let value = recording.scalar(op, operands);
        recording.store(3, value);
        for count in counts() {
            let mut streams: Vec<_> = (0..3).map(|seed| floats(count, seed)).collect();
            let form = match op.arity() {
                1 => Form::Unary(op, Kind::Stream),
                2 => Form::Binary(op, [Kind::Stream; 2]),
                _ => Form::Select([Kind::Stream; 3]),
            };
            let mut expected = vec![-7.0; count + 1];
            let [a, b, c] = [0, 1, 2].map(|i: usize| streams[i].as_ptr());
            // SAFETY: there are so many floats.
            unsafe { lookup(set, form)(expected.as_mut_ptr(), a, b, c, count) };
            streams.push(vec![-7.0; count + 1]);
            run(&recording, &mut streams, count);
            assert!(same(&streams[3], &expected), "{op:?}, {count} elements");
        }
    }
}

#[test]
fn folds_are_those_of_their_steps() {
    let set = InstructionSet::detect();
    if !set.fuses() {
        return;
    }
    for how in [Combine::Sum, Combine::Maximum] {
        let mut recording = Recording::default();
        let value = recording.load(0);
        recording.fold(how, value, 1);
        for count in counts() {
            for seed in 0..3 {
                let mut from = floats(count, seed);
                if seed > 0 {
                    from.iter_mut().for_each(|x| *x = x.clamp(-9.0, 9.0));
                }
                if seed > 1 {
                    from.retain(|x| !x.is_nan());
                }
                let mut expected: f64 = 0.5;
                let to = (&raw mut expected).cast();
                let null = std::ptr::null();
                let step = lookup(set, Form::Fold(how, Kind::Stream));
                // SAFETY: there are so many floats, and a double.
                unsafe { step(to, from.as_ptr(), null, null, from.len()) };
                let count = from.len();
                let found = run(&recording, &mut [from], count);
                let near = (found - expected).abs() <= 1e-4;
                let equal = found == expected || (found.is_nan() && expected.is_nan());
                assert!(near || equal, "{how:?}: {found} for {expected}");
            }
        }
    }
}

/// Everything at once: more constants than registers, several results, masks.
#[test]
fn long_bodies_have_registers_enough() {
    let set = InstructionSet::detect();
    if !set.fuses() {
        return;
    }
    let chain = [
        ScalarOp::Erf,
        ScalarOp::Exp,
        ScalarOp::Tanh,
        ScalarOp::Sigmoid,
        ScalarOp::Maximum,
        ScalarOp::Log,
        ScalarOp::Less,
    ];
    let mut recording = Recording::default();
    let (mut a, b) = (recording.load(0), recording.load(1));
    for op in chain {
        a = recording.scalar(op, [a, b, b]);
        a = recording.scalar(ScalarOp::Add, [a, b, b]);
    }
    recording.fold(Combine::Sum, b, 3);
    recording.store(2, a);
    let count = 301;
    let clean = |seed| {
        let finite = |x: f32| if x.abs() < 50.0 { x } else { 0.25 };
        floats(count, seed)
            .into_iter()
            .map(finite)
            .collect::<Vec<_>>()
    };
    let (first, second) = (clean(0), clean(1));
    let mut expected = first.clone();
    for op in chain {
        let form = match op.arity() {
            1 => Form::Unary(op, Kind::Stream),
            _ => Form::Binary(op, [Kind::Stream; 2]),
        };
        let add = Form::Binary(ScalarOp::Add, [Kind::Stream; 2]);
        let (to, b) = (expected.as_mut_ptr(), second.as_ptr());
        // SAFETY: there are so many floats.
        unsafe {
            lookup(set, form)(to, to, b, b, count);
            lookup(set, add)(to, to, b, b, count);
        }
    }
    let mut streams = [first, second, vec![0.0; count]];
    run(&recording, &mut streams, count);
    assert!(same(&streams[2], &expected));
}

/// Counting goes on from vector to vector, however many a turn of the loop takes.
#[test]
fn columns_are_counted() {
    if !InstructionSet::detect().fuses() {
        return;
    }
    let first: Vec<f32> = (0..16).map(|lane| (1024 + lane) as f32).collect();
    for long in [false, true] {
        let mut recording = Recording::default();
        let number = recording.count(0);
        let x = recording.load(1);
        let mut value = recording.scalar(ScalarOp::Add, [number, x, x]);
        if long {
            value = recording.scalar(ScalarOp::Tanh, [value; 3]);
            value = recording.scalar(ScalarOp::Multiply, [value, number, number]);
        }
        recording.store(2, value);
        recording.fold(Combine::Sum, number, 3);
        for count in counts() {
            let mut streams = [first.clone(), vec![0.5; count], vec![0.0; count]];
            let sum = run(&recording, &mut streams, count);
            let numbers: Vec<f32> = (1024..1024 + count).map(|number| number as f32).collect();
            // So far from 0 a hyperbolic tangent is 1.
            let offset = if long { 0.0 } else { 0.5 };
            let expected: Vec<f32> = numbers.iter().map(|number| number + offset).collect();
            assert!(same(&streams[2], &expected), "{count} elements");
            let total: f64 = numbers.iter().map(|&number| f64::from(number)).sum();
            assert!(
                (sum - total - 0.5).abs() <= 1e-6 * total,
                "{count} elements"
            );
        }
    }
}

/// Pairs come apart and go together again, however many are left at the end and wherever they lie, also
/// over what was read; nothing behind them is touched.
#[test]
fn pairs_are_two_streams() {
    if !InstructionSet::detect().fuses() {
        return;
    }
    for in_place in [false, true] {
        for long in [false, true] {
            let to = if in_place { 0 } else { 1 };
            let mut recording = Recording::default();
            let [even, odd] = recording.load_pairs(0);
            let factor = recording.load(2);
            let mut first = recording.scalar(ScalarOp::Multiply, [even, factor, factor]);
            let second = recording.scalar(ScalarOp::Subtract, [odd, even, even]);
            if long {
                // Longer than what is repeated.
                for _ in 0..8 {
                    first = recording.scalar(ScalarOp::Add, [first, factor, factor]);
                }
            }
            recording.store_pairs(to, [first, second]);
            recording.store(3, odd);
            recording.fetch_pairs(0, 640, in_place);
            recording.fold(Combine::Sum, even, 4);
            for count in counts() {
                for offset in [0, 1, 7] {
                    pairs_of(&recording, count, offset, usize::from(to), long);
                }
            }
        }
    }
}

/// Runs the loop of the test above over so many pairs, so many floats after the start of a line.
fn pairs_of(recording: &Recording, count: usize, offset: usize, to: usize, long: bool) {
    let fused = Fused::new(recording).expect("registers enough");
    let number = |i: usize| ((i * 37) % 101) as f32 - 50.0;
    let pairs: Vec<f32> = (0..offset + 2 * count + 40).map(number).collect();
    let mut streams = [
        pairs.clone(),
        pairs.clone(),
        (0..count + 40).map(|i| (i % 7 + 1) as f32).collect(),
        vec![0.5; count + 40],
    ];
    let factors = streams[2].clone();
    let mut double: f64 = 0.5;
    let mut table = streams
        .each_mut()
        .map(|stream| stream.as_mut_ptr())
        .to_vec();
    table[..2]
        .iter_mut()
        .for_each(|pointer| *pointer = pointer.wrapping_add(offset));
    table.push((&raw mut double).cast());
    // SAFETY: every stream has so many floats, or pairs of them.
    unsafe { fused.run(&table, count) };
    let (mut expected, mut odds, mut sum) = (pairs.clone(), vec![0.5; count + 40], 0.5);
    for i in 0..count {
        let at = offset + 2 * i;
        let more = if long { 8.0 * factors[i] } else { 0.0 };
        expected[at] = pairs[at] * factors[i] + more;
        expected[at + 1] = pairs[at + 1] - pairs[at];
        odds[i] = pairs[at + 1];
        sum += f64::from(pairs[at]);
    }
    assert!(same(&streams[to], &expected), "{count} pairs at {offset}");
    assert!(to == 0 || same(&streams[0], &pairs), "{count} pairs");
    assert!(same(&streams[3], &odds), "{count} pairs at {offset}");
    assert_eq!(double, sum, "{count} pairs at {offset}");
}

/// Few floats stand for long rows, whatever their number; several cycles take turns of one length.
#[test]
fn cycles_begin_anew() {
    if !InstructionSet::detect().fuses() {
        return;
    }
    for period in 1..=64_u16 {
        let Some(vectors) = turn(usize::from(period)) else {
            assert!(!(1..=4).any(|n| (n * 16) % usize::from(period) == 0));
            continue;
        };
        let mut recording = Recording::default();
        let x = recording.load(0);
        let [a, b] = [1, 2].map(|slot| recording.cycle(slot, period));
        let product = recording.scalar(ScalarOp::Multiply, [x, a, a]);
        let sum = recording.scalar(ScalarOp::Add, [product, b, b]);
        recording.store(3, sum);
        for turns in [0, 1, 2, 5] {
            let (count, period) = (turns * vectors * 16, usize::from(period));
            let table = |factor: usize| (0..period).map(|i| (i * factor) as f32).collect();
            let mut streams: [Vec<f32>; 4] = [
                (0..count).map(|i| (i % 11) as f32).collect(),
                table(2),
                table(5),
                vec![-7.0; count + 1],
            ];
            run(&recording, &mut streams, count);
            let at = |i: usize| (i % 11 * (i % period) * 2 + i % period * 5) as f32;
            let expected: Vec<f32> = (0..count).map(at).chain([-7.0]).collect();
            assert!(same(&streams[3], &expected), "{count} elements, {period}");
        }
    }
}

/// Vectors that take turns do not get in each other's way, however many are left at the end.
#[test]
fn vectors_in_turn_are_as_one_by_one() {
    if !InstructionSet::detect().fuses() {
        return;
    }
    // A gate's gradient: a store between operations, a number for all lanes, several results.
    let mut recording = Recording::default();
    let [x, g, u] = [0, 1, 2].map(|slot| recording.load(slot));
    let sigmoid = recording.scalar(ScalarOp::Sigmoid, [x; 3]);
    let part = recording.scalar(ScalarOp::Multiply, [sigmoid, g, g]);
    recording.store(0, part);
    let slope = recording.scalar(ScalarOp::Subtract, [x, sigmoid, sigmoid]);
    let slope = recording.scalar(ScalarOp::Multiply, [slope, u, u]);
    recording.store(3, slope);
    for count in 0..=100 {
        let finite = |seed| {
            let finite = |x: f32| if x.abs() < 50.0 { x } else { 0.25 };
            floats(count, seed).into_iter().map(finite).collect()
        };
        let [x, g, u]: [Vec<f32>; 3] = [0, 1, 2].map(finite);
        let mut streams = [x.clone(), g.clone(), u.clone(), vec![-7.0; count + 1]];
        run(&recording, &mut streams, count);
        for i in 0..count {
            let [x, g, u] = [&x, &g, &u].map(|stream| f64::from(stream[i]));
            let sigmoid = 1.0 / (1.0 + (-x).exp());
            let near = |found: f32, value: f64| {
                (f64::from(found) - value).abs() <= 2e-6 * (value.abs() + (x * u).abs() + 1e-30)
            };
            assert!(near(streams[0][i], sigmoid * g), "{i} of {count}");
            assert!(near(streams[3][i], (x - sigmoid) * u), "{i} of {count}");
        }
        assert!(streams[3][count].to_bits() == (-7.0_f32).to_bits());
    }
}
