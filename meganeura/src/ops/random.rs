//! Numbers that look random, and an order that nothing may change.

use super::rules::{BASE, common, elementwise, map};
use crate::ir::{
    Attributes, Case, Domain, Lowering, OpDef, ScalarOp, Shape, Tensor, TensorType, Vjp,
};

pub const OPS: &[&OpDef] = &[&RANDOM, &AFTER];

/// A number in [0, 1) that looks random, the same for the same two floats on every device.
pub static RANDOM: OpDef = OpDef {
    name: "random",
    shape: elementwise,
    evaluate: |_, x, ty| map(x, ty, |x| ScalarOp::Random.evaluate(x)),
    lowering: Lowering::Pointwise(ScalarOp::Random),
    vjp: Vjp::Zero,
    cases: || {
        let whole = Domain::Integers(0, 9);
        vec![
            Case::with(Attributes::None, &[&[40], &[40]], whole),
            Case::with(Attributes::None, &[&[5, 7], &[]], whole),
        ]
    },
    ..BASE
};

/// The first operand, computed no earlier than the second.
pub static AFTER: OpDef = OpDef {
    name: "not_before",
    shape: |_, operands| Ok(TensorType::new(common(operands)?, operands[0].dtype)),
    evaluate: |_, x, ty| map(x, ty, |x| x[0]),
    lowering: Lowering::Pointwise(ScalarOp::First),
    vjp: Vjp::Rule(|_, _, _, g| vec![Some(g), None]),
    cases: || {
        let any = Domain::Uniform(-2.0, 2.0);
        vec![
            Case::with(Attributes::None, &[&[3, 4], &[]], any),
            Case::with(Attributes::None, &[&[6], &[6]], any),
        ]
    },
    ..BASE
};

impl<'g> Tensor<'g> {
    /// A number in [0, 1) for each element, which looks random: the same for the same element of
    /// this tensor and of `key`, on every device.
    pub fn random(self, key: Tensor<'g>) -> Tensor<'g> {
        self.graph().apply(&RANDOM, Attributes::None, &[self, key])
    }

    /// The same values, but not before those of `other`, of which one is enough, are known: no pass
    /// takes them for values that are at hand already.
    pub fn after(self, other: Tensor<'g>) -> Tensor<'g> {
        if self.is_poisoned() || other.is_poisoned() {
            return self;
        }
        let first = (0..other.shape().rank()).fold(other, |first, axis| first.slice(axis, 0, 1));
        let first = first.reshape(Shape::scalar());
        self.graph().apply(&AFTER, Attributes::None, &[self, first])
    }
}
