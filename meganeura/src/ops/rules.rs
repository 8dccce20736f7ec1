//! Shape rules and oracle helpers that several blocks share.

use crate::ir::{Algebra, Array, Attributes, Case, DType, Lowering, OpDef, Shape, TensorType, Vjp};

/// What a block starts from, so that it only states what is its own.
pub const BASE: OpDef = OpDef {
    name: "",
    shape: same,
    evaluate: |_, operands, _| operands[0].clone(),
    lowering: Lowering::Leaf,
    vjp: Vjp::Derived,
    algebra: Algebra::Opaque,
    cases: Vec::new,
};

/// Floats only.
pub fn floats(operands: &[TensorType]) -> Result<(), String> {
    match operands.iter().find(|ty| ty.dtype != DType::F32) {
        Some(ty) => Err(format!(
            "needs f32, got {ty}: write `.cast(DType::F32)` first"
        )),
        None => Ok(()),
    }
}

/// The shape all operands broadcast to.
pub fn common(operands: &[TensorType]) -> Result<Shape, String> {
    operands.iter().try_fold(Shape::scalar(), |shape, ty| {
        shape.broadcast(&ty.shape).ok_or_else(|| {
            let shapes: Vec<String> = operands.iter().map(|ty| ty.shape.to_string()).collect();
            format!("cannot combine {}", shapes.join(" and "))
        })
    })
}

/// Float operands of broadcastable shapes, float result.
pub fn elementwise(_: &Attributes, operands: &[TensorType]) -> Result<TensorType, String> {
    floats(operands)?;
    Ok(TensorType::f32(common(operands)?))
}

/// One float operand, result of the same type.
pub fn same(_: &Attributes, operands: &[TensorType]) -> Result<TensorType, String> {
    floats(operands)?;
    Ok(operands[0].clone())
}

/// Same, for at least one axis.
pub fn rows(attributes: &Attributes, operands: &[TensorType]) -> Result<TensorType, String> {
    if operands[0].shape.rank() == 0 {
        return Err("works along the last axis, but a scalar has none".to_owned());
    }
    same(attributes, &operands[..1])
}

/// An elementwise oracle on operands that broadcast to the result's shape.
pub fn map(operands: &[&Array], ty: &TensorType, f: impl Fn(&[f64]) -> f64) -> Array {
    let rank = ty.shape.rank();
    let mut values = vec![0.0; operands.len()];
    Array::from_fn(&ty.shape, |index| {
        for (value, operand) in values.iter_mut().zip(operands) {
            *value = operand.at(&index[rank - operand.shape.rank()..]);
        }
        f(&values)
    })
}

/// The shapes that elementwise ops of one operand are tried on.
pub fn unary_cases(low: f64, high: f64) -> Vec<Case> {
    [&[7][..], &[3, 5], &[2, 3, 4], &[1], &[0, 3]]
        .map(|dims| Case::uniform(&[dims], low, high))
        .to_vec()
}

/// The shapes that elementwise ops of two operands are tried on.
pub fn binary_cases(low: f64, high: f64) -> Vec<Case> {
    [
        [&[5][..], &[5]],
        [&[3, 4], &[4]],
        [&[2, 1, 3], &[4, 1]],
        [&[], &[2, 2]],
    ]
    .map(|shapes| Case::uniform(&shapes, low, high))
    .to_vec()
}
