//! Elementwise functions of two operands.

use super::rules::{BASE, binary_cases, elementwise, map};
use crate::ir::{Algebra, Attributes, Case, Domain, Lowering, OpDef, ScalarOp, Tensor, Vjp};

pub const OPS: &[&OpDef] = &[&ADD, &SUBTRACT, &MULTIPLY, &DIVIDE, &MAXIMUM, &MINIMUM];

const BINARY: OpDef = OpDef {
    shape: elementwise,
    ..BASE
};

/// a + b
pub static ADD: OpDef = OpDef {
    name: "add",
    evaluate: |_, x, ty| map(x, ty, |x| x[0] + x[1]),
    lowering: Lowering::Pointwise(ScalarOp::Add),
    vjp: Vjp::Rule(|_, _, _, g| vec![Some(g), Some(g)]),
    algebra: Algebra::Sum(&[1.0, 1.0]),
    cases: || binary_cases(-2.0, 2.0),
    ..BINARY
};

/// a − b
pub static SUBTRACT: OpDef = OpDef {
    name: "subtract",
    evaluate: |_, x, ty| map(x, ty, |x| x[0] - x[1]),
    lowering: Lowering::Pointwise(ScalarOp::Subtract),
    vjp: Vjp::Rule(|_, _, _, g| vec![Some(g), Some(-g)]),
    algebra: Algebra::Sum(&[1.0, -1.0]),
    cases: || binary_cases(-2.0, 2.0),
    ..BINARY
};

/// a · b
pub static MULTIPLY: OpDef = OpDef {
    name: "multiply",
    evaluate: |_, x, ty| map(x, ty, |x| x[0] * x[1]),
    lowering: Lowering::Pointwise(ScalarOp::Multiply),
    vjp: Vjp::Rule(|_, x, _, g| vec![Some(g * x[1]), Some(g * x[0])]),
    algebra: Algebra::Product(&[2, 2]),
    cases: || binary_cases(-2.0, 2.0),
    ..BINARY
};

/// a / b
pub static DIVIDE: OpDef = OpDef {
    name: "divide",
    evaluate: |_, x, ty| map(x, ty, |x| x[0] / x[1]),
    lowering: Lowering::Pointwise(ScalarOp::Divide),
    vjp: Vjp::Rule(|_, x, y, g| vec![Some(g / x[1]), Some(-(g * y / x[1]))]),
    algebra: Algebra::Product(&[2, -2]),
    cases: || binary_cases(0.5, 2.0),
    ..BINARY
};

/// The gradient of the chosen operand where it is chosen, half of it at a tie.
fn chosen<'g>(wins: Tensor<'g>, tie: Tensor<'g>, g: Tensor<'g>) -> Tensor<'g> {
    let zero = g.graph().constant(0.0);
    wins.select(g, tie.select(g * 0.5, zero))
}

fn tied_cases() -> Vec<Case> {
    let ties = Case::with(Attributes::None, &[&[12], &[12]], Domain::Integers(-2, 2));
    [binary_cases(-2.0, 2.0), vec![ties]].concat()
}

/// The larger of both, NaN if either is; at a tie each gets half of the gradient.
pub static MAXIMUM: OpDef = OpDef {
    name: "maximum",
    evaluate: |_, x, ty| {
        map(x, ty, |x| {
            if x[0] > x[1] || x[0].is_nan() {
                x[0]
            } else {
                x[1]
            }
        })
    },
    lowering: Lowering::Pointwise(ScalarOp::Maximum),
    vjp: Vjp::Rule(|_, x, _, g| {
        let tie = x[0].equal(x[1]);
        vec![
            Some(chosen(x[1].less(x[0]), tie, g)),
            Some(chosen(x[0].less(x[1]), tie, g)),
        ]
    }),
    cases: tied_cases,
    ..BINARY
};

/// The smaller of both, NaN if either is; at a tie each gets half of the gradient.
pub static MINIMUM: OpDef = OpDef {
    name: "minimum",
    evaluate: |_, x, ty| {
        map(x, ty, |x| {
            if x[0] < x[1] || x[0].is_nan() {
                x[0]
            } else {
                x[1]
            }
        })
    },
    lowering: Lowering::Pointwise(ScalarOp::Minimum),
    vjp: Vjp::Rule(|_, x, _, g| {
        let tie = x[0].equal(x[1]);
        vec![
            Some(chosen(x[0].less(x[1]), tie, g)),
            Some(chosen(x[1].less(x[0]), tie, g)),
        ]
    }),
    cases: tied_cases,
    ..BINARY
};

impl<'g> Tensor<'g> {
    /// The larger of both, NaN if either is.
    pub fn maximum(self, other: Tensor<'g>) -> Tensor<'g> {
        self.graph()
            .apply(&MAXIMUM, Attributes::None, &[self, other])
    }

    /// The smaller of both, NaN if either is.
    pub fn minimum(self, other: Tensor<'g>) -> Tensor<'g> {
        self.graph()
            .apply(&MINIMUM, Attributes::None, &[self, other])
    }
}

macro_rules! operators {
    ($($operator:ident $method:ident => $def:ident;)+) => { $(
        impl<'g> std::ops::$operator for Tensor<'g> {
            type Output = Tensor<'g>;
            fn $method(self, other: Tensor<'g>) -> Tensor<'g> {
                self.graph().apply(&$def, Attributes::None, &[self, other])
            }
        }

        impl<'g> std::ops::$operator<f64> for Tensor<'g> {
            type Output = Tensor<'g>;
            fn $method(self, other: f64) -> Tensor<'g> {
                std::ops::$operator::$method(self, self.graph().constant(other))
            }
        }

        impl<'g> std::ops::$operator<Tensor<'g>> for f64 {
            type Output = Tensor<'g>;
            fn $method(self, other: Tensor<'g>) -> Tensor<'g> {
                std::ops::$operator::$method(other.graph().constant(self), other)
            }
        }
    )+ };
}

operators! {
    Add add => ADD;
    Sub sub => SUBTRACT;
    Mul mul => MULTIPLY;
    Div div => DIVIDE;
}
