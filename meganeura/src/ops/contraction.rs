//! Matrix products.

use super::rules::{BASE, floats};
use crate::ir::{Array, Attributes, Case, Lowering, OpDef, Shape, Tensor, TensorType, Vjp};

pub const OPS: &[&OpDef] = &[&MATMUL];

/// `[.., m, k] × [.., k, n] → [.., m, n]`, operands of one rank and equal leading sizes.
pub static MATMUL: OpDef = OpDef {
    name: "matmul",
    shape: |_, operands| {
        floats(operands)?;
        let (a, b) = (&operands[0].shape, &operands[1].shape);
        let rank = a.rank();
        if rank < 2 || b.rank() != rank {
            return Err(format!("takes [.., m, k] and [.., k, n], got {a} and {b}"));
        }
        if a.dims()[rank - 1] != b.dims()[rank - 2] {
            return Err(format!(
                "cannot contract {a} with {b}: {} columns meet {} rows",
                a.dims()[rank - 1],
                b.dims()[rank - 2]
            ));
        }
        if a.dims()[..rank - 2] != b.dims()[..rank - 2] {
            return Err(format!(
                "cannot contract {a} with {b}: the leading sizes differ"
            ));
        }
        let mut dims = a.dims().to_vec();
        dims[rank - 1] = b.dims()[rank - 1];
        Ok(TensorType::f32(dims))
    },
    evaluate: |_, x, ty| {
        let rank = ty.shape.rank();
        let inner = x[0].shape.dims()[rank - 1];
        Array::from_fn(&ty.shape, |index| {
            let (mut left, mut right) = (index.to_vec(), index.to_vec());
            (0..inner)
                .map(|k| {
                    left[rank - 1] = k;
                    right[rank - 2] = k;
                    x[0].at(&left) * x[1].at(&right)
                })
                .sum()
        })
    },
    lowering: Lowering::Contract,
    vjp: Vjp::Rule(|_, x, _, g| {
        vec![
            Some(g.matmul(x[1].swap_last())),
            Some(x[0].swap_last().matmul(g)),
        ]
    }),
    cases: || {
        let shapes: [[&[usize]; 2]; 7] = [
            [&[3, 4], &[4, 5]],
            [&[1, 7], &[7, 1]],
            [&[17, 33], &[33, 18]],
            [&[2, 3, 4], &[2, 4, 2]],
            [&[2, 2, 3, 5], &[2, 2, 5, 4]],
            [&[40, 3], &[3, 70]],
            [&[2, 0], &[0, 3]],
        ];
        shapes
            .iter()
            .map(|shapes| Case::uniform(shapes, -1.0, 1.0))
            .collect()
    },
    ..BASE
};

impl<'g> Tensor<'g> {
    /// The matrix product `[.., m, k] × [.., k, n] → [.., m, n]`. A right operand of rank 2
    /// applies to every leading index; otherwise leading sizes broadcast.
    pub fn matmul(self, other: Tensor<'g>) -> Tensor<'g> {
        let (a, b) = (self.shape(), other.shape());
        let apply = |a, b| self.graph().apply(&MATMUL, Attributes::None, &[a, b]);
        if self.is_poisoned()
            || other.is_poisoned()
            || a.rank() < 2
            || b.rank() < 2
            || a.rank() == b.rank() && a.rank() == 2
        {
            return apply(self, other);
        }
        let (last, columns) = (a.rank() - 1, b.last());
        if b.rank() == 2 && a.last() == b.dims()[0] {
            let rows: usize = a.dims()[..last].iter().product();
            let mut dims = a.dims().to_vec();
            dims[last] = columns;
            return apply(self.reshape([rows, a.last()]), other).reshape(dims);
        }
        let lead = |shape: &Shape| Shape::from(&shape.dims()[..shape.rank() - 2]);
        match lead(&a).broadcast(&lead(&b)) {
            Some(common) => {
                let with =
                    |shape: &Shape| [common.dims(), &shape.dims()[shape.rank() - 2..]].concat();
                apply(self.broadcast(with(&a)), other.broadcast(with(&b)))
            }
            None => apply(self, other),
        }
    }
}
