//! Combinations of all elements along axes. Reduced axes stay, with size 1.

use super::rules::{BASE, floats};
use crate::ir::{
    Array, Attributes, Case, Combine, Domain, Lowering, OpDef, Tensor, TensorType, Vjp,
};

pub const OPS: &[&OpDef] = &[&SUM, &MAX];

fn reduced(attributes: &Attributes, operands: &[TensorType]) -> Result<TensorType, String> {
    floats(operands)?;
    let (axes, shape) = (attributes.as_axes(), &operands[0].shape);
    if let Some(axis) = axes.iter().find(|&&axis| axis >= shape.rank()) {
        return Err(format!("has no axis {axis} in {shape}"));
    }
    if axes.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(format!("needs each axis once, got {axes:?}"));
    }
    Ok(TensorType::f32(shape.reduced(axes)))
}

fn fold(combine: Combine, x: &Array, ty: &TensorType) -> Array {
    let mut result = Array::from_fn(&ty.shape, |_| f64::from(combine.identity()));
    let mut position = 0;
    Array::from_fn(&x.shape, |index| {
        let target = index
            .iter()
            .zip(ty.shape.dims())
            .fold(0, |target, (&i, &dim)| target * dim + i.min(dim - 1));
        result.data[target] = combine.combine(result.data[target], x.data[position]);
        position += 1;
        0.0
    });
    result
}

fn cases(domain: Domain) -> Vec<Case> {
    let over = |axes: &[usize], dims: &[usize]| {
        Case::with(Attributes::Axes(axes.to_vec()), &[dims], domain)
    };
    vec![
        over(&[1], &[3, 5]),
        over(&[0], &[3, 5]),
        over(&[0, 1], &[4, 3]),
        over(&[1], &[2, 3, 4]),
        over(&[0, 2], &[2, 3, 4]),
        over(&[2], &[2, 2, 70]),
    ]
}

/// The sum along axes.
pub static SUM: OpDef = OpDef {
    name: "sum",
    shape: reduced,
    evaluate: |_, x, ty| fold(Combine::Sum, x[0], ty),
    lowering: Lowering::Reduce(Combine::Sum),
    vjp: Vjp::Rule(|_, x, _, g| vec![Some(g.broadcast(x[0].shape()))]),
    cases: || cases(Domain::Uniform(-2.0, 2.0)),
    ..BASE
};

/// The largest along axes, NaN if any is; the gradient splits evenly among ties.
pub static MAX: OpDef = OpDef {
    name: "max",
    shape: reduced,
    evaluate: |_, x, ty| fold(Combine::Maximum, x[0], ty),
    lowering: Lowering::Reduce(Combine::Maximum),
    vjp: Vjp::Rule(|attributes, x, y, g| {
        let (zero, one) = (g.graph().constant(0.0), g.graph().constant(1.0));
        let hit = x[0].equal(y);
        let ties = hit.select(one, zero).sum(attributes.as_axes());
        vec![Some(hit.select((g / ties).broadcast(x[0].shape()), zero))]
    }),
    cases: || {
        [
            cases(Domain::Uniform(-2.0, 2.0)),
            cases(Domain::Integers(-2, 2)),
        ]
        .concat()
    },
    ..BASE
};

impl<'g> Tensor<'g> {
    /// The sum along axes, which stay with size 1.
    pub fn sum(self, axes: &[usize]) -> Tensor<'g> {
        self.reduce(&SUM, axes)
    }

    /// The largest along axes, which stay with size 1.
    pub fn max(self, axes: &[usize]) -> Tensor<'g> {
        self.reduce(&MAX, axes)
    }

    /// The mean along axes, which stay with size 1; NaN over nothing.
    pub fn mean(self, axes: &[usize]) -> Tensor<'g> {
        let count: usize = axes
            .iter()
            .filter_map(|&axis| self.shape().dims().get(axis).copied())
            .product();
        self.sum(axes) * (1.0 / count as f64)
    }

    /// The mean of all elements, a scalar.
    pub fn mean_all(self) -> Tensor<'g> {
        let axes: Vec<usize> = (0..self.shape().rank()).collect();
        self.mean(&axes).reshape([])
    }

    /// The sum of all elements, a scalar.
    pub fn sum_all(self) -> Tensor<'g> {
        let axes: Vec<usize> = (0..self.shape().rank()).collect();
        self.sum(&axes).reshape([])
    }

    fn reduce(self, def: &'static OpDef, axes: &[usize]) -> Tensor<'g> {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        if axes.is_empty() {
            return self;
        }
        self.graph().apply(def, Attributes::Axes(axes), &[self])
    }
}
