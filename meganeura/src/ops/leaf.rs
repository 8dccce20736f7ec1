//! Where values come from.

use super::rules::BASE;
use crate::ir::{
    Array, Attributes, DType, Graph, Init, Lowering, OpDef, Shape, Tensor, TensorType,
    VariableKind, Vjp,
};

pub const OPS: &[&OpDef] = &[&INPUT, &VARIABLE, &CONSTANT, &INDEX];

fn named(attributes: &Attributes) -> Result<TensorType, String> {
    match attributes {
        Attributes::Named(_, shape, dtype) => Ok(TensorType::new(shape.clone(), *dtype)),
        _ => Err("needs a name and a type".to_owned()),
    }
}

/// A value given at every step.
pub static INPUT: OpDef = OpDef {
    name: "input",
    shape: |attributes, _| named(attributes),
    evaluate: |_, _, ty| Array::from_fn(&ty.shape, |_| f64::NAN),
    lowering: Lowering::Leaf,
    vjp: Vjp::Zero,
    ..BASE
};

/// A value that lives from step to step: a parameter, a moment.
pub static VARIABLE: OpDef = OpDef {
    name: "variable",
    shape: |attributes, _| named(attributes),
    evaluate: |_, _, ty| Array::from_fn(&ty.shape, |_| f64::NAN),
    lowering: Lowering::Leaf,
    vjp: Vjp::Zero,
    ..BASE
};

/// A number.
pub static CONSTANT: OpDef = OpDef {
    name: "constant",
    shape: |_, _| Ok(TensorType::f32([])),
    evaluate: |attributes, _, ty| Array::from_fn(&ty.shape, |_| attributes.as_number()),
    lowering: Lowering::Constant,
    vjp: Vjp::Zero,
    ..BASE
};

/// Each element's index along one axis, as `u32`.
pub static INDEX: OpDef = OpDef {
    name: "index",
    shape: |attributes, _| match attributes {
        Attributes::ShapeAxis(shape, axis) if *axis >= shape.rank() => {
            Err(format!("has no axis {axis} in {shape}"))
        }
        Attributes::ShapeAxis(shape, axis) if shape.dims()[*axis] > 1 << 24 => Err(format!(
            "counts to 2^24 at most (kernels hold indices in floats), but axis {axis} of {shape} is longer"
        )),
        Attributes::ShapeAxis(shape, _) => Ok(TensorType::new(shape.clone(), DType::U32)),
        _ => Err("needs a shape and an axis".to_owned()),
    },
    evaluate: |attributes, _, ty| match attributes {
        Attributes::ShapeAxis(_, axis) => Array::from_fn(&ty.shape, |index| index[*axis] as f64),
        _ => Array::from_fn(&ty.shape, |_| f64::NAN),
    },
    lowering: Lowering::Index,
    vjp: Vjp::Zero,
    ..BASE
};

impl Graph {
    /// A value given at every step. Names are unique.
    pub fn input(&self, name: &str, shape: impl Into<Shape>, dtype: DType) -> Tensor<'_> {
        self.declare_input(&INPUT, name, TensorType::new(shape, dtype))
    }

    /// A trained value, named after the layer being built and `name`.
    pub fn parameter(&self, name: &str, shape: impl Into<Shape>, init: Init) -> Tensor<'_> {
        self.declare_variable(
            &VARIABLE,
            name,
            shape.into(),
            init,
            VariableKind::Parameter,
            false,
        )
    }

    /// A trained matrix that multiplies from the right: `[in, out]`. Files of other programs keep
    /// it as `[out, in]`.
    pub fn matrix(&self, name: &str, shape: [usize; 2], init: Init) -> Tensor<'_> {
        let (shape, kind) = (shape.into(), VariableKind::Parameter);
        self.declare_variable(&VARIABLE, name, shape, init, kind, true)
    }

    /// A part of the model that is not trained: running statistics.
    pub fn buffer(&self, name: &str, shape: impl Into<Shape>, init: Init) -> Tensor<'_> {
        self.declare_variable(
            &VARIABLE,
            name,
            shape.into(),
            init,
            VariableKind::Buffer,
            false,
        )
    }

    /// A value kept from step to step but not trained.
    pub fn state(&self, name: &str, shape: impl Into<Shape>, init: Init) -> Tensor<'_> {
        self.declare_variable(
            &VARIABLE,
            name,
            shape.into(),
            init,
            VariableKind::State,
            false,
        )
    }

    /// A number, of shape `[]`.
    pub fn constant(&self, value: f64) -> Tensor<'_> {
        self.apply(&CONSTANT, Attributes::number(value), &[])
    }

    /// Each element's index along `axis` of a tensor of this shape, as `u32`.
    pub fn index(&self, shape: impl Into<Shape>, axis: usize) -> Tensor<'_> {
        self.apply(&INDEX, Attributes::ShapeAxis(shape.into(), axis), &[])
    }
}
