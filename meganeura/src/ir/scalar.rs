//! The scalar instructions that kernels are made of.
//!
//! Inside a kernel every value is a float: integers convert when loaded, truth values are
//! 0 and 1. Each executor gives every instruction one translation; this is the whole list.

macro_rules! scalar_ops {
    ($($(#[$doc:meta])* $name:ident / $arity:literal = |$($arg:ident),+| $value:expr;)+) => {
        /// One scalar instruction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ScalarOp { $($(#[$doc])* $name),+ }

        impl ScalarOp {
            /// Every instruction.
            pub const ALL: &'static [ScalarOp] = &[$(ScalarOp::$name),+];

            /// How many operands it takes.
            pub const fn arity(self) -> usize {
                match self { $(ScalarOp::$name => $arity),+ }
            }

            /// Its value in double precision: the definition every executor is held to.
            pub fn evaluate(self, operands: &[f64]) -> f64 {
                match self {
                    $(ScalarOp::$name => { let [$($arg),+] = operands[..$arity] else { return f64::NAN }; $value })+
                }
            }
        }
    };
}

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

scalar_ops! {
    /// The operand itself (a cast).
    Identity / 1 = |x| x;
    /// −x
    Negate / 1 = |x| -x;
    /// |x|
    Absolute / 1 = |x| x.abs();
    /// eˣ
    Exp / 1 = |x| x.exp();
    /// ln x
    Log / 1 = |x| x.ln();
    /// √x
    Sqrt / 1 = |x| x.sqrt();
    /// 1/√x
    ReciprocalSqrt / 1 = |x| 1.0 / x.sqrt();
    /// 1/x
    Reciprocal / 1 = |x| 1.0 / x;
    /// Hyperbolic tangent.
    Tanh / 1 = |x| x.tanh();
    /// 1/(1 + e⁻ˣ), without overflow for any x.
    Sigmoid / 1 = |x| if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { let e = x.exp(); e / (1.0 + e) };
    /// The error function.
    Erf / 1 = |x| crate::ir::array::erf(x);
    /// Sine.
    Sin / 1 = |x| x.sin();
    /// Cosine.
    Cos / 1 = |x| x.cos();
    /// a + b
    Add / 2 = |a, b| a + b;
    /// a − b
    Subtract / 2 = |a, b| a - b;
    /// a · b
    Multiply / 2 = |a, b| a * b;
    /// a / b
    Divide / 2 = |a, b| a / b;
    /// The larger; NaN if either is NaN.
    Maximum / 2 = |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
    /// The smaller; NaN if either is NaN.
    Minimum / 2 = |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) };
    /// a < b (false if either is NaN)
    Less / 2 = |a, b| truth(a < b);
    /// a ≤ b (false if either is NaN)
    LessEqual / 2 = |a, b| truth(a <= b);
    /// a = b (false if either is NaN)
    Equal / 2 = |a, b| truth(a == b);
    /// `a` where the condition is not 0, else `b`; the other is not touched.
    Select / 3 = |condition, a, b| if condition != 0.0 { a } else { b };
    /// `a`, not before `b` is there too.
    First / 2 = |a, _b| a;
    /// A number in [0, 1) that looks random, the same for the same two floats; NaN for a NaN.
    Random / 2 = |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { f64::from(crate::ir::random::of_floats(a as f32, b as f32)) };
}

/// How a reduction combines its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Combine {
    /// The sum; 0 over nothing.
    Sum,
    /// The largest, NaN if any element is NaN; −∞ over nothing.
    Maximum,
}

impl Combine {
    /// The value over no elements.
    pub const fn identity(self) -> f32 {
        match self {
            Combine::Sum => 0.0,
            Combine::Maximum => f32::NEG_INFINITY,
        }
    }

    /// Two partial results in one.
    pub fn combine(self, a: f64, b: f64) -> f64 {
        match self {
            Combine::Sum => a + b,
            Combine::Maximum => ScalarOp::Maximum.evaluate(&[a, b]),
        }
    }
}
