//! The loops: one function for each operation, shape of operands and instruction set.
//!
//! A destination may be one of the operands: every block is read before it is written.

use std::marker::PhantomData;

use super::lanes::{Lanes, Portable};
use super::{InstructionSet, math};
use crate::ir::{Combine, ScalarOp};

/// A loop over `count` elements: `to[i] = f(a[i], b[i], c[i])`. Operands that the form does
/// not have may be null; one that is a splat is read at its first element only. A fold
/// combines with the `f64` at `to` instead.
pub(crate) type VectorFn =
    unsafe fn(to: *mut f32, a: *const f32, b: *const f32, c: *const f32, count: usize);

/// What an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// One float for each element.
    Stream,
    /// One float for all.
    Splat,
}

/// An operation that two of make one loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PairOp {
    /// `x + y`
    Add,
    /// `x − y`
    Subtract,
    /// `y − x`
    SubtractFrom,
    /// `x · y`
    Multiply,
}

/// What a loop computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// An operation of one operand.
    Unary(ScalarOp, Kind),
    /// An operation of two operands.
    Binary(ScalarOp, [Kind; 2]),
    /// `a ≠ 0 ? b : c`
    Select([Kind; 3]),
    /// `second(first(a, b), c)`, rounded after each.
    Pair(PairOp, PairOp, [Kind; 3]),
    /// All elements of `a` combined.
    Fold(Combine, Kind),
    /// The sum of all products `a · b`.
    Dot([Kind; 2]),
    /// Halves (`a` points to them) as floats.
    Widen,
    /// Floats as the nearest halves (`to` points to them).
    Round(Kind),
}

/// The loop for a form.
pub(crate) fn lookup(set: InstructionSet, form: Form) -> VectorFn {
    match set {
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => avx512::lookup(form),
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => avx2::lookup(form),
        InstructionSet::Portable => portable::lookup(form),
    }
}

/// A function of up to three vectors.
trait Function {
    fn apply<L: Lanes>(a: L, b: L, c: L) -> L;
}

/// Declares functions.
macro_rules! functions {
    ($($name:ident = |$a:ident, $b:ident, $c:ident| $body:expr;)*) => {$(
        struct $name;
        impl Function for $name {
            #[inline(always)]
            fn apply<L: Lanes>($a: L, $b: L, $c: L) -> L { $body }
        }
    )*};
}

functions! {
    Identity = |a, _b, _c| a;
    Negate = |a, _b, _c| a.negate();
    Absolute = |a, _b, _c| a.absolute();
    Exp = |a, _b, _c| math::exp(a);
    Log = |a, _b, _c| math::log(a);
    Sqrt = |a, _b, _c| a.sqrt();
    ReciprocalSqrt = |a, _b, _c| a.constant(1.0).divide(a.sqrt());
    Reciprocal = |a, _b, _c| a.constant(1.0).divide(a);
    Tanh = |a, _b, _c| math::tanh(a);
    Sigmoid = |a, _b, _c| math::sigmoid(a);
    Erf = |a, _b, _c| math::erf(a);
    Sin = |a, _b, _c| math::sin(a);
    Cos = |a, _b, _c| math::cos(a);
    Add = |a, b, _c| a.add(b);
    Subtract = |a, b, _c| a.subtract(b);
    SubtractFrom = |a, b, _c| b.subtract(a);
    Multiply = |a, b, _c| a.multiply(b);
    Divide = |a, b, _c| a.divide(b);
    Maximum = |a, b, _c| math::maximum(a, b);
    Minimum = |a, b, _c| math::minimum(a, b);
    Less = |a, b, _c| L::select(a.less(b), a.constant(1.0), a.constant(0.0));
    LessEqual = |a, b, _c| L::select(a.less_equal(b), a.constant(1.0), a.constant(0.0));
    Equal = |a, b, _c| L::select(a.equal(b), a.constant(1.0), a.constant(0.0));
    Select = |a, b, c| L::select(a.equal(a.constant(0.0)), c, b);
    First = |a, _b, _c| a;
    Random = |a, b, _c| math::random(a, b);
}

/// An operation on vectors.
#[inline(always)]
pub(super) fn apply<L: Lanes>(op: ScalarOp, a: L, b: L, c: L) -> L {
    macro_rules! choose {
        ($($op:ident)*) => {
            match op { $(ScalarOp::$op => $op::apply(a, b, c)),* }
        };
    }
    choose! {
        Identity Negate Absolute Exp Log Sqrt ReciprocalSqrt Reciprocal Tanh Sigmoid Erf Sin Cos
        Add Subtract Multiply Divide Maximum Minimum Less LessEqual Equal Select First Random
    }
}

/// One function after another.
struct Pair<First, Second>(PhantomData<(First, Second)>);

impl<First: Function, Second: Function> Function for Pair<First, Second> {
    #[inline(always)]
    fn apply<L: Lanes>(a: L, b: L, c: L) -> L {
        Second::apply(First::apply(a, b, b), c, c)
    }
}

/// Where the vectors of an operand come from.
trait Source {
    /// Whether the lanes behind a part are 0.
    const ENDS_IN_ZEROS: bool;
    /// What is known before the loop.
    type Ready<L: Lanes>: Copy;

    /// Before the loop.
    ///
    /// # Safety
    /// The instruction set and the operand must be there.
    unsafe fn ready<L: Lanes>(from: *const f32) -> Self::Ready<L>;

    /// The vector at element `i`.
    ///
    /// # Safety
    /// As above, for `L::COUNT` elements.
    unsafe fn vector<L: Lanes>(ready: Self::Ready<L>, i: usize) -> L;

    /// The vector at element `i`, of which `count` elements are there.
    ///
    /// # Safety
    /// As above, for `count` elements.
    unsafe fn part<L: Lanes>(ready: Self::Ready<L>, i: usize, count: usize) -> L;
}

/// See [`Kind::Stream`].
struct Stream;
/// See [`Kind::Splat`].
struct Splat;
/// No operand.
struct Absent;

impl Source for Stream {
    const ENDS_IN_ZEROS: bool = true;
    type Ready<L: Lanes> = *const f32;

    #[inline(always)]
    unsafe fn ready<L: Lanes>(from: *const f32) -> *const f32 {
        from
    }

    #[inline(always)]
    unsafe fn vector<L: Lanes>(from: *const f32, i: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load(from.add(i)) }
    }

    #[inline(always)]
    unsafe fn part<L: Lanes>(from: *const f32, i: usize, count: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load_partial(from.add(i), count) }
    }
}

impl Source for Splat {
    const ENDS_IN_ZEROS: bool = false;
    type Ready<L: Lanes> = L;

    #[inline(always)]
    unsafe fn ready<L: Lanes>(from: *const f32) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::splat(from.read()) }
    }

    #[inline(always)]
    unsafe fn vector<L: Lanes>(value: L, _: usize) -> L {
        value
    }

    #[inline(always)]
    unsafe fn part<L: Lanes>(value: L, _: usize, _: usize) -> L {
        value
    }
}

impl Source for Absent {
    const ENDS_IN_ZEROS: bool = true;
    type Ready<L: Lanes> = L;

    #[inline(always)]
    unsafe fn ready<L: Lanes>(_: *const f32) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::splat(0.0) }
    }

    #[inline(always)]
    unsafe fn vector<L: Lanes>(value: L, _: usize) -> L {
        value
    }

    #[inline(always)]
    unsafe fn part<L: Lanes>(value: L, _: usize, _: usize) -> L {
        value
    }
}

/// `to[i] = f(a[i], b[i], c[i])`
///
/// # Safety
/// The instruction set must be there, and `count` elements of everything that streams.
#[inline(always)]
unsafe fn map<L: Lanes, F: Function, A: Source, B: Source, C: Source>(
    to: *mut f32,
    a: *const f32,
    b: *const f32,
    c: *const f32,
    count: usize,
) {
    if count == 0 {
        return;
    }
    // SAFETY: the caller's promise; `i + L::COUNT` and `i + rest` stay within `count`.
    unsafe {
        let (a, b, c) = (A::ready::<L>(a), B::ready::<L>(b), C::ready::<L>(c));
        let mut i = 0;
        while i + L::COUNT <= count {
            let value = F::apply(A::vector::<L>(a, i), B::vector(b, i), C::vector(c, i));
            value.store(to.add(i));
            i += L::COUNT;
        }
        let rest = count - i;
        if rest > 0 {
            let value = F::apply(
                A::part::<L>(a, i, rest),
                B::part(b, i, rest),
                C::part(c, i, rest),
            );
            value.store_partial(to.add(i), rest);
        }
    }
}

/// Widens `count` halves.
///
/// # Safety
/// As for [`map`], but that `a` points to halves.
#[inline(always)]
unsafe fn widen<L: Lanes>(to: *mut f32, a: *const u16, count: usize) {
    // SAFETY: the caller's promise; indices stay within `count`.
    unsafe {
        let whole = count - count % L::COUNT;
        for i in (0..whole).step_by(L::COUNT) {
            L::load_halves(a.add(i)).store(to.add(i));
        }
        if whole < count {
            let rest = count - whole;
            L::load_halves_partial(a.add(whole), rest).store_partial(to.add(whole), rest);
        }
    }
}

/// Rounds `count` floats to halves.
///
/// # Safety
/// As for [`map`], but that `to` points to halves.
#[inline(always)]
unsafe fn round<L: Lanes, A: Source>(to: *mut u16, a: *const f32, count: usize) {
    if count == 0 {
        return;
    }
    // SAFETY: the caller's promise; indices stay within `count`.
    unsafe {
        let a = A::ready::<L>(a);
        let whole = count - count % L::COUNT;
        for i in (0..whole).step_by(L::COUNT) {
            A::vector::<L>(a, i).store_halves(to.add(i));
        }
        if whole < count {
            let rest = count - whole;
            A::part::<L>(a, whole, rest).store_halves_partial(to.add(whole), rest);
        }
    }
}

/// How vectors become one number.
trait Folding {
    const COMBINE: Combine;
    fn fold<L: Lanes>(a: L, b: L) -> L;
}

struct Sum;
struct Largest;

impl Folding for Sum {
    const COMBINE: Combine = Combine::Sum;

    #[inline(always)]
    fn fold<L: Lanes>(a: L, b: L) -> L {
        a.add(b)
    }
}

impl Folding for Largest {
    const COMBINE: Combine = Combine::Maximum;

    #[inline(always)]
    fn fold<L: Lanes>(a: L, b: L) -> L {
        math::maximum(a, b)
    }
}

/// How many vectors a fold keeps, so that none waits for the one before.
const CHAINS: usize = 4;

/// Combines `f(a[i], b[i])` for all i, and the result with the double at `to`.
///
/// # Safety
/// As for [`map`]; `to` points to an `f64`.
#[inline(always)]
unsafe fn fold<L: Lanes, K: Folding, F: Function, A: Source, B: Source>(
    to: *mut f32,
    a: *const f32,
    b: *const f32,
    count: usize,
) {
    if count == 0 {
        return;
    }
    // SAFETY: the caller's promise; indices stay within `count`.
    unsafe {
        let (a, b) = (A::ready::<L>(a), B::ready::<L>(b));
        let at = |i: usize| {
            let b = B::vector::<L>(b, i);
            F::apply(A::vector::<L>(a, i), b, b)
        };
        let empty = L::splat(K::COMBINE.identity());
        let mut sums = [empty; CHAINS];
        let mut i = 0;
        while i + CHAINS * L::COUNT <= count {
            for (chain, sum) in sums.iter_mut().enumerate() {
                *sum = K::fold(*sum, at(i + chain * L::COUNT));
            }
            i += CHAINS * L::COUNT;
        }
        while i + L::COUNT <= count {
            sums[0] = K::fold(sums[0], at(i));
            i += L::COUNT;
        }
        let rest = count - i;
        if rest > 0 {
            let b = B::part::<L>(b, i, rest);
            let mut value = F::apply(A::part::<L>(a, i, rest), b, b);
            // Of zeros both functions make 0, which a sum does not notice; and a vector just
            // stored in part could not be loaded before all earlier stores are done.
            if K::COMBINE != Combine::Sum || !A::ENDS_IN_ZEROS || !B::ENDS_IN_ZEROS {
                let mut lanes = [K::COMBINE.identity(); 16];
                value.store_partial(lanes.as_mut_ptr(), rest);
                value = L::load(lanes.as_ptr());
            }
            sums[1] = K::fold(sums[1], value);
        }
        let sum = K::fold(K::fold(sums[0], sums[1]), K::fold(sums[2], sums[3]));
        let mut lanes = [K::COMBINE.identity(); 16];
        sum.store(lanes.as_mut_ptr());
        let to = to.cast::<f64>();
        to.write(combine(K::COMBINE, to.read(), halve(K::COMBINE, lanes)));
    }
}

/// Sixteen numbers in one, by halves.
#[inline(always)]
pub(super) fn halve(how: Combine, lanes: [f32; 16]) -> f64 {
    let join = |a: f32, b: f32| match how {
        Combine::Sum => a + b,
        Combine::Maximum if a > b || a.is_nan() => a,
        Combine::Maximum => b,
    };
    let eight: [f32; 8] = std::array::from_fn(|i| join(lanes[i], lanes[i + 8]));
    let four: [f32; 4] = std::array::from_fn(|i| join(eight[i], eight[i + 4]));
    f64::from(join(join(four[0], four[2]), join(four[1], four[3])))
}

/// Two partial results in one.
#[inline(always)]
pub(crate) fn combine(how: Combine, a: f64, b: f64) -> f64 {
    match how {
        Combine::Sum => a + b,
        Combine::Maximum if a > b || a.is_nan() => a,
        Combine::Maximum => b,
    }
}

/// The loops of one instruction set, as a module.
macro_rules! instantiate {
    ($module:ident, $lanes:ty $(, #[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn mapped<F: Function, A: Source, B: Source, C: Source>(
                to: *mut f32,
                a: *const f32,
                b: *const f32,
                c: *const f32,
                count: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { map::<$lanes, F, A, B, C>(to, a, b, c, count) }
            }

            $(#[$features])?
            unsafe fn folded<K: Folding, F: Function, A: Source, B: Source>(
                to: *mut f32,
                a: *const f32,
                b: *const f32,
                _: *const f32,
                count: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { fold::<$lanes, K, F, A, B>(to, a, b, count) }
            }

            $(#[$features])?
            unsafe fn widened(
                to: *mut f32,
                a: *const f32,
                _: *const f32,
                _: *const f32,
                count: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { widen::<$lanes>(to, a.cast(), count) }
            }

            $(#[$features])?
            unsafe fn rounded<A: Source>(
                to: *mut f32,
                a: *const f32,
                _: *const f32,
                _: *const f32,
                count: usize,
            ) {
                // SAFETY: the caller's promise.
                unsafe { round::<$lanes, A>(to.cast(), a, count) }
            }

            fn unary<F: Function>(kind: Kind) -> VectorFn {
                match kind {
                    Kind::Stream => mapped::<F, Stream, Absent, Absent>,
                    Kind::Splat => mapped::<F, Splat, Absent, Absent>,
                }
            }

            fn binary<F: Function>(kinds: [Kind; 2]) -> VectorFn {
                match kinds {
                    [Kind::Stream, Kind::Stream] => mapped::<F, Stream, Stream, Absent>,
                    [Kind::Stream, Kind::Splat] => mapped::<F, Stream, Splat, Absent>,
                    [Kind::Splat, Kind::Stream] => mapped::<F, Splat, Stream, Absent>,
                    [Kind::Splat, Kind::Splat] => mapped::<F, Splat, Splat, Absent>,
                }
            }

            fn ternary<F: Function>(kinds: [Kind; 3]) -> VectorFn {
                match kinds {
                    [Kind::Stream, Kind::Stream, Kind::Stream] => mapped::<F, Stream, Stream, Stream>,
                    [Kind::Stream, Kind::Stream, Kind::Splat] => mapped::<F, Stream, Stream, Splat>,
                    [Kind::Stream, Kind::Splat, Kind::Stream] => mapped::<F, Stream, Splat, Stream>,
                    [Kind::Stream, Kind::Splat, Kind::Splat] => mapped::<F, Stream, Splat, Splat>,
                    [Kind::Splat, Kind::Stream, Kind::Stream] => mapped::<F, Splat, Stream, Stream>,
                    [Kind::Splat, Kind::Stream, Kind::Splat] => mapped::<F, Splat, Stream, Splat>,
                    [Kind::Splat, Kind::Splat, Kind::Stream] => mapped::<F, Splat, Splat, Stream>,
                    [Kind::Splat, Kind::Splat, Kind::Splat] => mapped::<F, Splat, Splat, Splat>,
                }
            }

            fn pair<First: Function>(second: PairOp, kinds: [Kind; 3]) -> VectorFn {
                match second {
                    PairOp::Add => ternary::<Pair<First, Add>>(kinds),
                    PairOp::Subtract => ternary::<Pair<First, Subtract>>(kinds),
                    PairOp::SubtractFrom => ternary::<Pair<First, SubtractFrom>>(kinds),
                    PairOp::Multiply => ternary::<Pair<First, Multiply>>(kinds),
                }
            }

            fn folding<K: Folding>(kind: Kind) -> VectorFn {
                match kind {
                    Kind::Stream => folded::<K, Identity, Stream, Absent>,
                    Kind::Splat => folded::<K, Identity, Splat, Absent>,
                }
            }

            fn dot(kinds: [Kind; 2]) -> VectorFn {
                match kinds {
                    [Kind::Stream, Kind::Stream] => folded::<Sum, Multiply, Stream, Stream>,
                    [Kind::Stream, Kind::Splat] => folded::<Sum, Multiply, Stream, Splat>,
                    [Kind::Splat, Kind::Stream] => folded::<Sum, Multiply, Splat, Stream>,
                    [Kind::Splat, Kind::Splat] => folded::<Sum, Multiply, Splat, Splat>,
                }
            }

            /// The loop for a form.
            pub(super) fn lookup(form: Form) -> VectorFn {
                match form {
                    Form::Unary(op, kind) => scalar(op, [kind, kind, kind]),
                    Form::Binary(op, [a, b]) => scalar(op, [a, b, b]),
                    Form::Select(kinds) => ternary::<Select>(kinds),
                    Form::Pair(PairOp::Add, second, kinds) => pair::<Add>(second, kinds),
                    Form::Pair(PairOp::Subtract, second, kinds) => pair::<Subtract>(second, kinds),
                    Form::Pair(PairOp::SubtractFrom, second, [a, b, c]) => {
                        // Never made: the operands change places instead.
                        pair::<SubtractFrom>(second, [a, b, c])
                    }
                    Form::Pair(PairOp::Multiply, second, kinds) => pair::<Multiply>(second, kinds),
                    Form::Fold(Combine::Sum, kind) => folding::<Sum>(kind),
                    Form::Fold(Combine::Maximum, kind) => folding::<Largest>(kind),
                    Form::Dot(kinds) => dot(kinds),
                    Form::Widen => widened,
                    Form::Round(Kind::Stream) => rounded::<Stream>,
                    Form::Round(Kind::Splat) => rounded::<Splat>,
                }
            }

            fn scalar(op: ScalarOp, [a, b, c]: [Kind; 3]) -> VectorFn {
                match op {
                    ScalarOp::Identity => unary::<Identity>(a),
                    ScalarOp::Negate => unary::<Negate>(a),
                    ScalarOp::Absolute => unary::<Absolute>(a),
                    ScalarOp::Exp => unary::<Exp>(a),
                    ScalarOp::Log => unary::<Log>(a),
                    ScalarOp::Sqrt => unary::<Sqrt>(a),
                    ScalarOp::ReciprocalSqrt => unary::<ReciprocalSqrt>(a),
                    ScalarOp::Reciprocal => unary::<Reciprocal>(a),
                    ScalarOp::Tanh => unary::<Tanh>(a),
                    ScalarOp::Sigmoid => unary::<Sigmoid>(a),
                    ScalarOp::Erf => unary::<Erf>(a),
                    ScalarOp::Sin => unary::<Sin>(a),
                    ScalarOp::Cos => unary::<Cos>(a),
                    ScalarOp::Add => binary::<Add>([a, b]),
                    ScalarOp::Subtract => binary::<Subtract>([a, b]),
                    ScalarOp::Multiply => binary::<Multiply>([a, b]),
                    ScalarOp::Divide => binary::<Divide>([a, b]),
                    ScalarOp::Maximum => binary::<Maximum>([a, b]),
                    ScalarOp::Minimum => binary::<Minimum>([a, b]),
                    ScalarOp::Less => binary::<Less>([a, b]),
                    ScalarOp::LessEqual => binary::<LessEqual>([a, b]),
                    ScalarOp::Equal => binary::<Equal>([a, b]),
                    ScalarOp::Select => ternary::<Select>([a, b, c]),
                    ScalarOp::First => binary::<First>([a, b]),
                    ScalarOp::Random => binary::<Random>([a, b]),
                }
            }
        }
    };
}

instantiate!(portable, Portable);
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx2,
    super::super::avx2::Avx2,
    #[target_feature(enable = "avx2,fma")]
);
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx512,
    super::super::avx512::Avx512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
);
