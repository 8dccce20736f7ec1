//! Elementwise functions of one operand.

use super::rules::{BASE, elementwise, map, unary_cases};
use crate::ir::{
    Algebra, Attributes, Case, DType, Domain, Lowering, OpDef, ScalarOp, Tensor, TensorType, Vjp,
};

pub const OPS: &[&OpDef] = &[
    &NEGATE,
    &ABSOLUTE,
    &EXP,
    &LOG,
    &SQRT,
    &RECIPROCAL_SQRT,
    &RECIPROCAL,
    &TANH,
    &SIGMOID,
    &ERF,
    &SIN,
    &COS,
    &CAST,
];

const UNARY: OpDef = OpDef {
    shape: elementwise,
    ..BASE
};

/// −x
pub static NEGATE: OpDef = OpDef {
    name: "negate",
    evaluate: |_, x, ty| map(x, ty, |x| -x[0]),
    lowering: Lowering::Pointwise(ScalarOp::Negate),
    vjp: Vjp::Rule(|_, _, _, g| vec![Some(-g)]),
    algebra: Algebra::Sum(&[-1.0]),
    cases: || unary_cases(-2.0, 2.0),
    ..UNARY
};

/// |x|; derivative 0 at 0.
pub static ABSOLUTE: OpDef = OpDef {
    name: "absolute",
    evaluate: |_, x, ty| map(x, ty, |x| x[0].abs()),
    lowering: Lowering::Pointwise(ScalarOp::Absolute),
    vjp: Vjp::Rule(|_, x, _, g| {
        let zero = g.graph().constant(0.0);
        let left = x[0].less(zero).select(-g, zero);
        vec![Some(zero.less(x[0]).select(g, left))]
    }),
    cases: || unary_cases(-2.0, 2.0),
    ..UNARY
};

/// eˣ
pub static EXP: OpDef = OpDef {
    name: "exp",
    evaluate: |_, x, ty| map(x, ty, |x| x[0].exp()),
    lowering: Lowering::Pointwise(ScalarOp::Exp),
    vjp: Vjp::Rule(|_, _, y, g| vec![Some(g * y)]),
    cases: || unary_cases(-4.0, 4.0),
    ..UNARY
};

/// ln x
pub static LOG: OpDef = OpDef {
    name: "log",
    evaluate: |_, x, ty| map(x, ty, |x| x[0].ln()),
    lowering: Lowering::Pointwise(ScalarOp::Log),
    vjp: Vjp::Rule(|_, x, _, g| vec![Some(g / x[0])]),
    cases: || unary_cases(0.2, 5.0),
    ..UNARY
};

/// √x
pub static SQRT: OpDef = OpDef {
    name: "sqrt",
    evaluate: |_, x, ty| map(x, ty, |x| x[0].sqrt()),
    lowering: Lowering::Pointwise(ScalarOp::Sqrt),
    vjp: Vjp::Rule(|_, _, y, g| vec![Some(g * 0.5 / y)]),
    algebra: Algebra::Product(&[1]),
    cases: || unary_cases(0.2, 5.0),
    ..UNARY
};

/// 1/√x
pub static RECIPROCAL_SQRT: OpDef = OpDef {
    name: "rsqrt",
    evaluate: |_, x, ty| map(x, ty, |x| 1.0 / x[0].sqrt()),
    lowering: Lowering::Pointwise(ScalarOp::ReciprocalSqrt),
    vjp: Vjp::Rule(|_, x, y, g| vec![Some(g * y / x[0] * -0.5)]),
    algebra: Algebra::Product(&[-1]),
    cases: || unary_cases(0.2, 5.0),
    ..UNARY
};

/// 1/x
pub static RECIPROCAL: OpDef = OpDef {
    name: "reciprocal",
    evaluate: |_, x, ty| map(x, ty, |x| 1.0 / x[0]),
    lowering: Lowering::Pointwise(ScalarOp::Reciprocal),
    vjp: Vjp::Rule(|_, _, y, g| vec![Some(-(g * y * y))]),
    algebra: Algebra::Product(&[-2]),
    cases: || unary_cases(0.4, 3.0),
    ..UNARY
};

/// Hyperbolic tangent.
pub static TANH: OpDef = OpDef {
    name: "tanh",
    evaluate: |_, x, ty| map(x, ty, |x| x[0].tanh()),
    lowering: Lowering::Pointwise(ScalarOp::Tanh),
    vjp: Vjp::Rule(|_, _, y, g| vec![Some(g * (1.0 - y * y))]),
    cases: || {
        [
            unary_cases(-4.0, 4.0),
            vec![Case::uniform(&[&[6]], -90.0, 90.0)],
        ]
        .concat()
    },
    ..UNARY
};

/// 1/(1 + e⁻ˣ)
pub static SIGMOID: OpDef = OpDef {
    name: "sigmoid",
    evaluate: |_, x, ty| map(x, ty, |x| 1.0 / (1.0 + (-x[0]).exp())),
    lowering: Lowering::Pointwise(ScalarOp::Sigmoid),
    vjp: Vjp::Rule(|_, _, y, g| vec![Some(g * y * (1.0 - y))]),
    cases: || {
        [
            unary_cases(-6.0, 6.0),
            vec![Case::uniform(&[&[6]], -80.0, 80.0)],
        ]
        .concat()
    },
    ..UNARY
};

/// The error function; derivative 2/√π · e^(−x²).
pub static ERF: OpDef = OpDef {
    name: "erf",
    evaluate: |_, x, ty| map(x, ty, |x| crate::ir::ScalarOp::Erf.evaluate(x)),
    lowering: Lowering::Pointwise(ScalarOp::Erf),
    vjp: Vjp::Rule(|_, x, _, g| {
        vec![Some(
            g * (-(x[0] * x[0])).exp() * std::f64::consts::FRAC_2_SQRT_PI,
        )]
    }),
    cases: || unary_cases(-3.0, 3.0),
    ..UNARY
};

/// Sine.
pub static SIN: OpDef = OpDef {
    name: "sin",
    evaluate: |_, x, ty| map(x, ty, |x| x[0].sin()),
    lowering: Lowering::Pointwise(ScalarOp::Sin),
    vjp: Vjp::Rule(|_, x, _, g| vec![Some(g * x[0].cos())]),
    cases: || unary_cases(-6.0, 6.0),
    ..UNARY
};

/// Cosine.
pub static COS: OpDef = OpDef {
    name: "cos",
    evaluate: |_, x, ty| map(x, ty, |x| x[0].cos()),
    lowering: Lowering::Pointwise(ScalarOp::Cos),
    vjp: Vjp::Rule(|_, x, _, g| vec![Some(-(g * x[0].sin()))]),
    cases: || unary_cases(-6.0, 6.0),
    ..UNARY
};

/// The same values as another element type; to `u32` it truncates, to `bool` it tells
/// what is not 0. Gradients flow between floats only.
pub static CAST: OpDef = OpDef {
    name: "cast",
    shape: |attributes, operands| match attributes {
        Attributes::DType(dtype) => Ok(TensorType::new(operands[0].shape.clone(), *dtype)),
        _ => Err("needs an element type".to_owned()),
    },
    evaluate: |_, x, ty| match ty.dtype {
        DType::F32 | DType::BF16 => x[0].clone(),
        DType::U32 => x[0].map(f64::trunc),
        DType::Bool => x[0].map(|x| f64::from(u8::from(x != 0.0))),
    },
    lowering: Lowering::Pointwise(ScalarOp::Identity),
    vjp: Vjp::Zero,
    cases: || {
        let to = |dtype, domain| Case::with(Attributes::DType(dtype), &[&[2, 3]], domain);
        vec![
            to(DType::F32, Domain::Indices(9)),
            to(DType::F32, Domain::Truth),
        ]
    },
    ..BASE
};

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident => $def:ident;)+) => {
        impl<'g> Tensor<'g> {
            $($(#[$doc])* pub fn $name(self) -> Tensor<'g> {
                self.graph().apply(&$def, Attributes::None, &[self])
            })+
        }
    };
}

methods! {
    /// |x|; derivative 0 at 0.
    abs => ABSOLUTE;
    /// eˣ
    exp => EXP;
    /// ln x
    log => LOG;
    /// √x
    sqrt => SQRT;
    /// 1/√x
    rsqrt => RECIPROCAL_SQRT;
    /// 1/x
    reciprocal => RECIPROCAL;
    /// Hyperbolic tangent.
    tanh => TANH;
    /// 1/(1 + e⁻ˣ)
    sigmoid => SIGMOID;
    /// The error function.
    erf => ERF;
    /// Sine.
    sin => SIN;
    /// Cosine.
    cos => COS;
}

impl<'g> std::ops::Neg for Tensor<'g> {
    type Output = Tensor<'g>;
    fn neg(self) -> Tensor<'g> {
        self.graph().apply(&NEGATE, Attributes::None, &[self])
    }
}

impl<'g> Tensor<'g> {
    /// x²
    pub fn square(self) -> Tensor<'g> {
        self * self
    }

    /// The same values as floats (from integers or truth values); a float stays itself.
    pub fn cast(self, dtype: DType) -> Tensor<'g> {
        if self.dtype() == dtype {
            return self;
        }
        self.graph().apply(&CAST, Attributes::DType(dtype), &[self])
    }
}
