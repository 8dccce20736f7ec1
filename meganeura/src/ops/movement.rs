//! The same values in another arrangement.

use super::rules::BASE;
use crate::ir::{Array, Attributes, Case, Domain, Lowering, OpDef, Shape, Tensor, TensorType, Vjp};

pub const OPS: &[&OpDef] = &[&RESHAPE, &TRANSPOSE, &BROADCAST, &DETACH];

const ANY: Domain = Domain::Uniform(-2.0, 2.0);

/// The same elements in row-major order under other sizes.
pub static RESHAPE: OpDef = OpDef {
    name: "reshape",
    shape: |attributes, operands| match attributes {
        Attributes::Shape(shape) if shape.elements() == operands[0].shape.elements() => {
            Ok(TensorType::new(shape.clone(), operands[0].dtype))
        }
        Attributes::Shape(shape) => Err(format!(
            "cannot make {shape} ({} elements) of {} ({} elements)",
            shape.elements(),
            operands[0].shape,
            operands[0].shape.elements()
        )),
        _ => Err("needs a shape".to_owned()),
    },
    evaluate: |_, x, ty| Array::new(ty.shape.clone(), x[0].data.clone()),
    lowering: Lowering::View(|_, layout, shape| layout.reshaped(shape)),
    vjp: Vjp::Rule(|_, x, _, g| vec![Some(g.reshape(x[0].shape()))]),
    cases: || {
        let to = |from: &[usize], to: &[usize]| {
            Case::with(Attributes::Shape(Shape::from(to)), &[from], ANY)
        };
        vec![
            to(&[2, 6], &[3, 4]),
            to(&[4], &[2, 1, 2]),
            to(&[1, 3], &[3]),
            to(&[1, 1], &[]),
        ]
    },
    ..BASE
};

/// The axes in another order: result axis `i` is operand axis `permutation[i]`.
pub static TRANSPOSE: OpDef = OpDef {
    name: "transpose",
    shape: |attributes, operands| {
        let (permutation, shape) = (attributes.as_axes(), &operands[0].shape);
        let mut sorted = permutation.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..shape.rank()) {
            return Err(format!(
                "needs each axis of {shape} once, got {permutation:?}"
            ));
        }
        let dims: Vec<usize> = permutation.iter().map(|&axis| shape.dims()[axis]).collect();
        Ok(TensorType::new(dims, operands[0].dtype))
    },
    evaluate: |attributes, x, ty| {
        let mut source = vec![0; ty.shape.rank()];
        Array::from_fn(&ty.shape, |index| {
            for (axis, &from) in attributes.as_axes().iter().enumerate() {
                source[from] = index[axis];
            }
            x[0].at(&source)
        })
    },
    lowering: Lowering::View(|attributes, layout, _| Some(layout.permuted(attributes.as_axes()))),
    vjp: Vjp::Rule(|attributes, _, _, g| {
        let permutation = attributes.as_axes();
        let mut inverse = vec![0; permutation.len()];
        for (axis, &from) in permutation.iter().enumerate() {
            inverse[from] = axis;
        }
        vec![Some(g.transpose(&inverse))]
    }),
    cases: || {
        let by = |permutation: &[usize], dims: &[usize]| {
            Case::with(Attributes::Permutation(permutation.to_vec()), &[dims], ANY)
        };
        vec![
            by(&[1, 0], &[3, 4]),
            by(&[2, 0, 1], &[2, 3, 4]),
            by(&[0, 2, 1, 3], &[2, 3, 2, 2]),
        ]
    },
    ..BASE
};

/// The elements repeated along new leading axes and axes of size 1.
pub static BROADCAST: OpDef = OpDef {
    name: "broadcast",
    shape: |attributes, operands| match attributes {
        Attributes::Shape(shape) if operands[0].shape.broadcast(shape).as_ref() == Some(shape) => {
            Ok(TensorType::new(shape.clone(), operands[0].dtype))
        }
        Attributes::Shape(shape) => Err(format!("cannot repeat {} to {shape}", operands[0].shape)),
        _ => Err("needs a shape".to_owned()),
    },
    evaluate: |_, x, ty| {
        let rank = ty.shape.rank();
        Array::from_fn(&ty.shape, |index| {
            x[0].at(&index[rank - x[0].shape.rank()..])
        })
    },
    lowering: Lowering::View(|_, layout, shape| Some(layout.broadcast(shape))),
    vjp: Vjp::Rule(|_, x, y, g| {
        let (from, to) = (x[0].shape(), y.shape());
        let missing = to.rank() - from.rank();
        let axes: Vec<usize> = (0..to.rank())
            .filter(|&axis| axis < missing || from.dims()[axis - missing] != to.dims()[axis])
            .collect();
        vec![Some(g.sum(&axes).reshape(from))]
    }),
    cases: || {
        let to = |from: &[usize], to: &[usize]| {
            Case::with(Attributes::Shape(Shape::from(to)), &[from], ANY)
        };
        vec![
            to(&[3], &[2, 3]),
            to(&[2, 1, 3], &[2, 4, 3]),
            to(&[], &[5]),
            to(&[1], &[1, 1]),
        ]
    },
    ..BASE
};

/// The same value, through which no gradient flows.
pub static DETACH: OpDef = OpDef {
    name: "detach",
    shape: |_, operands| Ok(operands[0].clone()),
    lowering: Lowering::View(|_, layout, _| Some(layout.clone())),
    vjp: Vjp::Zero,
    cases: || vec![Case::uniform(&[&[3, 2]], -2.0, 2.0)],
    ..BASE
};

impl<'g> Tensor<'g> {
    /// The same elements in row-major order under other sizes.
    pub fn reshape(self, shape: impl Into<Shape>) -> Tensor<'g> {
        let shape = shape.into();
        if !self.is_poisoned() && self.shape() == shape {
            return self;
        }
        self.graph()
            .apply(&RESHAPE, Attributes::Shape(shape), &[self])
    }

    /// The axes in another order: result axis `i` is this one's axis `permutation[i]`.
    pub fn transpose(self, permutation: &[usize]) -> Tensor<'g> {
        if !self.is_poisoned() && permutation.iter().copied().eq(0..self.shape().rank()) {
            return self;
        }
        self.graph().apply(
            &TRANSPOSE,
            Attributes::Permutation(permutation.to_vec()),
            &[self],
        )
    }

    /// The last two axes exchanged.
    pub fn swap_last(self) -> Tensor<'g> {
        let rank = self.shape().rank();
        let mut permutation: Vec<usize> = (0..rank).collect();
        if rank >= 2 {
            permutation.swap(rank - 2, rank - 1);
        } else if !self.is_poisoned() {
            let shape = self.shape();
            return self.graph().fail(format!(
                "`transpose` exchanges the last two axes, but {shape} has no two"
            ));
        }
        self.transpose(&permutation)
    }

    /// The elements repeated to a larger shape (NumPy alignment).
    pub fn broadcast(self, shape: impl Into<Shape>) -> Tensor<'g> {
        let shape = shape.into();
        if !self.is_poisoned() && self.shape() == shape {
            return self;
        }
        self.graph()
            .apply(&BROADCAST, Attributes::Shape(shape), &[self])
    }

    /// Without the axes of size 1 among `axes`.
    pub fn squeeze(self, axes: &[usize]) -> Tensor<'g> {
        let shape = self.shape();
        let kept: Vec<usize> = (0..shape.rank())
            .filter(|axis| !(axes.contains(axis) && shape.dims()[*axis] == 1))
            .map(|axis| shape.dims()[axis])
            .collect();
        self.reshape(kept)
    }

    /// With a new axis of size 1 before `axis`.
    pub fn unsqueeze(self, axis: usize) -> Tensor<'g> {
        let mut dims = self.shape().dims().to_vec();
        if axis > dims.len() {
            let shape = self.shape();
            return self
                .graph()
                .fail(format!("`unsqueeze` has no place {axis} in {shape}"));
        }
        dims.insert(axis, 1);
        self.reshape(dims)
    }

    /// The same value, through which no gradient flows.
    pub fn detach(self) -> Tensor<'g> {
        self.graph().apply(&DETACH, Attributes::None, &[self])
    }
}
