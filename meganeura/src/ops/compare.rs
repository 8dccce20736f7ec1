//! Comparisons and choice.

use super::rules::{BASE, common, map};
use crate::ir::{
    Attributes, Case, DType, Domain, Lowering, OpDef, ScalarOp, Shape, Tensor, TensorType, Vjp,
};

pub const OPS: &[&OpDef] = &[&LESS, &LESS_EQUAL, &EQUAL, &SELECT];

fn comparison(_: &Attributes, operands: &[TensorType]) -> Result<TensorType, String> {
    if operands[0].dtype != operands[1].dtype {
        return Err(format!(
            "compares values of one type, got {} and {}",
            operands[0], operands[1]
        ));
    }
    Ok(TensorType::new(common(operands)?, DType::Bool))
}

fn comparison_cases() -> Vec<Case> {
    let ties = |shapes: &[&[usize]]| Case::with(Attributes::None, shapes, Domain::Integers(-2, 2));
    vec![ties(&[&[4, 5], &[5]]), ties(&[&[9], &[9]])]
}

const COMPARISON: OpDef = OpDef {
    shape: comparison,
    vjp: Vjp::Zero,
    cases: comparison_cases,
    ..BASE
};

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// a < b
pub static LESS: OpDef = OpDef {
    name: "less",
    evaluate: |_, x, ty| map(x, ty, |x| truth(x[0] < x[1])),
    lowering: Lowering::Pointwise(ScalarOp::Less),
    ..COMPARISON
};

/// a ≤ b
pub static LESS_EQUAL: OpDef = OpDef {
    name: "less_equal",
    evaluate: |_, x, ty| map(x, ty, |x| truth(x[0] <= x[1])),
    lowering: Lowering::Pointwise(ScalarOp::LessEqual),
    ..COMPARISON
};

/// a = b
pub static EQUAL: OpDef = OpDef {
    name: "equal",
    evaluate: |_, x, ty| map(x, ty, |x| truth(x[0] == x[1])),
    lowering: Lowering::Pointwise(ScalarOp::Equal),
    ..COMPARISON
};

/// `a` where the condition holds, else `b`. The branch not taken sends no gradient and no NaN.
pub static SELECT: OpDef = OpDef {
    name: "select",
    shape: |_, operands| {
        if operands[0].dtype != DType::Bool {
            return Err(format!("needs a bool condition, got {}", operands[0]));
        }
        if operands[1].dtype != operands[2].dtype {
            return Err(format!(
                "chooses between one type, got {} and {}",
                operands[1], operands[2]
            ));
        }
        Ok(TensorType::new(common(operands)?, operands[1].dtype))
    },
    evaluate: |_, x, ty| map(x, ty, |x| if x[0] != 0.0 { x[1] } else { x[2] }),
    lowering: Lowering::Pointwise(ScalarOp::Select),
    vjp: Vjp::Rule(|_, x, _, g| {
        let zero = g.graph().constant(0.0);
        vec![None, Some(x[0].select(g, zero)), Some(x[0].select(zero, g))]
    }),
    cases: || {
        let case = |condition: &[usize], a: &[usize], b: &[usize]| Case {
            attributes: Attributes::None,
            operands: vec![
                (Shape::from(condition), Domain::Truth),
                (Shape::from(a), Domain::Uniform(-2.0, 2.0)),
                (Shape::from(b), Domain::Uniform(-2.0, 2.0)),
            ],
        };
        vec![case(&[8], &[8], &[8]), case(&[3, 1], &[4], &[3, 4])]
    },
    ..BASE
};

impl<'g> Tensor<'g> {
    /// Where this is smaller, as `Bool`.
    pub fn less(self, other: Tensor<'g>) -> Tensor<'g> {
        self.graph().apply(&LESS, Attributes::None, &[self, other])
    }

    /// Where this is not larger, as `Bool`.
    pub fn less_equal(self, other: Tensor<'g>) -> Tensor<'g> {
        self.graph()
            .apply(&LESS_EQUAL, Attributes::None, &[self, other])
    }

    /// Where both are equal, as `Bool`.
    pub fn equal(self, other: Tensor<'g>) -> Tensor<'g> {
        self.graph().apply(&EQUAL, Attributes::None, &[self, other])
    }

    /// `a` where this `Bool` holds, else `b`.
    pub fn select(self, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
        self.graph().apply(&SELECT, Attributes::None, &[self, a, b])
    }
}
