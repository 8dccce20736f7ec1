//! Losses.

use super::rules::{BASE, floats};
use crate::ir::{
    Array, Attributes, Case, DType, Domain, Lowering, OpDef, Shape, Tensor, TensorType,
};

pub const OPS: &[&OpDef] = &[&CROSS_ENTROPY_ROWS, &MEAN_SQUARED_ERROR];

/// −ln softmax(scores)[label] for each row: `[.., classes]` and `u32 [..]` give `[..]`.
pub static CROSS_ENTROPY_ROWS: OpDef = OpDef {
    name: "cross_entropy_rows",
    shape: |_, operands| {
        let (scores, labels) = (&operands[0], &operands[1]);
        floats(&operands[..1])?;
        if labels.dtype != DType::U32 {
            return Err(format!("takes u32 labels, got {labels}"));
        }
        let rank = scores.shape.rank();
        if rank == 0 || scores.shape.dims()[..rank - 1] != *labels.shape.dims() {
            return Err(format!(
                "takes scores [.., classes] and one label for each row, got {} and {}",
                scores.shape, labels.shape
            ));
        }
        Ok(TensorType::f32(&scores.shape.dims()[..rank - 1]))
    },
    evaluate: |_, x, ty| {
        let rows = x[0].data.chunks(x[0].shape.last().max(1)).zip(&x[1].data);
        let loss = rows.map(|(row, &label)| {
            let max = row.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
            max + sum.ln() - row[label as usize]
        });
        Array::new(ty.shape.clone(), loss.collect())
    },
    lowering: Lowering::Expand(|_, x| {
        let (shape, zero) = (x[0].shape(), x[0].graph().constant(0.0));
        let axis = shape.rank() - 1;
        let hit = x[0].graph().index(&shape, axis).equal(x[1].unsqueeze(axis));
        let picked = hit.select(x[0].log_softmax(), zero).sum(&[axis]);
        (-picked).squeeze(&[axis])
    }),
    cases: || {
        let case = |scores: &[usize], range: f64| Case {
            attributes: Attributes::None,
            operands: vec![
                (Shape::from(scores), Domain::Uniform(-range, range)),
                (
                    Shape::from(&scores[..scores.len() - 1]),
                    Domain::Indices(scores[scores.len() - 1] as u32),
                ),
            ],
        };
        vec![
            case(&[5, 7], 3.0),
            case(&[2, 3, 4], 3.0),
            case(&[9], 3.0),
            case(&[4, 3], 90.0),
        ]
    },
    ..BASE
};

/// The mean of (x − target)², a scalar.
pub static MEAN_SQUARED_ERROR: OpDef = OpDef {
    name: "mean_squared_error",
    shape: |_, operands| {
        floats(operands)?;
        if operands[0].shape != operands[1].shape {
            return Err(format!(
                "takes two tensors of one shape, got {} and {}",
                operands[0].shape, operands[1].shape
            ));
        }
        Ok(TensorType::f32([]))
    },
    evaluate: |_, x, ty| {
        let sum: f64 = x[0]
            .data
            .iter()
            .zip(&x[1].data)
            .map(|(a, b)| (a - b).powi(2))
            .sum();
        Array::new(ty.shape.clone(), vec![sum / x[0].data.len() as f64])
    },
    lowering: Lowering::Expand(|_, x| (x[0] - x[1]).square().mean_all()),
    cases: || {
        [&[7][..], &[3, 4]]
            .map(|dims| Case::uniform(&[dims, dims], -2.0, 2.0))
            .to_vec()
    },
    ..BASE
};

impl<'g> Tensor<'g> {
    /// `−ln softmax(self)[label]` for each row of `[.., classes]` scores.
    pub fn cross_entropy_rows(self, labels: Tensor<'g>) -> Tensor<'g> {
        if self.shape().rank() > 0 {
            self.graph().bound_indices(labels, self.shape().last());
        }
        self.graph()
            .apply(&CROSS_ENTROPY_ROWS, Attributes::None, &[self, labels])
    }

    /// The mean cross entropy of `[.., classes]` scores with `u32` labels `[..]`, a scalar.
    pub fn cross_entropy(self, labels: Tensor<'g>) -> Tensor<'g> {
        self.cross_entropy_rows(labels).mean_all()
    }

    /// The mean of (self − target)², a scalar.
    pub fn mean_squared_error(self, target: Tensor<'g>) -> Tensor<'g> {
        self.graph()
            .apply(&MEAN_SQUARED_ERROR, Attributes::None, &[self, target])
    }
}
