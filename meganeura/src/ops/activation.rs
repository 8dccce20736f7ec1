//! Activations, composed of primitives.

use super::rules::{BASE, map, same, unary_cases};
use crate::ir::{Attributes, Case, Domain, Lowering, OpDef, ScalarOp, Tensor, Vjp};

pub const OPS: &[&OpDef] = &[&RELU, &SILU, &GELU, &GELU_EXACT];

/// √(2/π)
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;

const ACTIVATION: OpDef = OpDef {
    shape: same,
    ..BASE
};

/// max(x, 0), NaN of NaN; derivative 0 at 0.
pub static RELU: OpDef = OpDef {
    name: "relu",
    evaluate: |_, x, ty| map(x, ty, |x| if x[0].is_nan() { x[0] } else { x[0].max(0.0) }),
    lowering: Lowering::Expand(|_, x| {
        let zero = x[0].graph().constant(0.0);
        x[0].maximum(zero)
    }),
    // The result tells all that the gradient asks for; the operand need not be kept.
    vjp: Vjp::Rule(|_, _, y, g| {
        let zero = y.graph().constant(0.0);
        vec![Some(y.less_equal(zero).select(zero, g))]
    }),
    cases: || {
        let ties = Case::with(Attributes::None, &[&[9]], Domain::Integers(-1, 1));
        [unary_cases(-2.0, 2.0), vec![ties]].concat()
    },
    ..ACTIVATION
};

/// x · σ(x), also called Swish (Ramachandran et al., 2017).
pub static SILU: OpDef = OpDef {
    name: "silu",
    evaluate: |_, x, ty| map(x, ty, |x| x[0] / (1.0 + (-x[0]).exp())),
    lowering: Lowering::Expand(|_, x| x[0] * x[0].sigmoid()),
    cases: || unary_cases(-4.0, 4.0),
    ..ACTIVATION
};

/// ½x(1 + tanh(√(2/π)(x + 0.044715x³))), the tanh form (Hendrycks and Gimpel, 2016).
pub static GELU: OpDef = OpDef {
    name: "gelu",
    evaluate: |_, x, ty| {
        map(x, ty, |x| {
            let inner = SQRT_2_OVER_PI * (x[0] + 0.044715 * x[0].powi(3));
            0.5 * x[0] * (1.0 + inner.tanh())
        })
    },
    lowering: Lowering::Expand(|_, x| {
        let inner = (x[0] + x[0] * x[0] * x[0] * 0.044_715) * SQRT_2_OVER_PI;
        x[0] * 0.5 * (inner.tanh() + 1.0)
    }),
    cases: || unary_cases(-4.0, 4.0),
    ..ACTIVATION
};

/// ½x(1 + erf(x/√2)), the exact form (Hendrycks and Gimpel, 2016).
pub static GELU_EXACT: OpDef = OpDef {
    name: "gelu_exact",
    evaluate: |_, x, ty| {
        map(x, ty, |x| {
            0.5 * x[0] * (1.0 + ScalarOp::Erf.evaluate(&[x[0] * std::f64::consts::FRAC_1_SQRT_2]))
        })
    },
    lowering: Lowering::Expand(|_, x| {
        x[0] * 0.5 * ((x[0] * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0)
    }),
    cases: || unary_cases(-4.0, 4.0),
    ..ACTIVATION
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
    /// max(x, 0); derivative 0 at 0.
    relu => RELU;
    /// x · σ(x)
    silu => SILU;
    /// The Gaussian error linear unit in its tanh form.
    gelu => GELU;
    /// The Gaussian error linear unit in its exact form.
    gelu_exact => GELU_EXACT;
}
