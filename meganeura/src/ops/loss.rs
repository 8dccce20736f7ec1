//! Losses.

use super::rules::{BASE, elementwise, floats, map};
use crate::ir::{
    Array, Attributes, Case, CrossEntropy, DType, Domain, Labels, Lowering, OpDef, Shape, Tensor,
    TensorType,
};

pub const OPS: &[&OpDef] = &[
    &CROSS_ENTROPY_ROWS,
    &BINARY_CROSS_ENTROPY,
    &MEAN_SQUARED_ERROR,
];

/// What an attribute says of labels; nothing in particular when it is none.
fn labels_of(attributes: &Attributes) -> Labels {
    match attributes {
        Attributes::Labels(labels) => *labels,
        _ => CrossEntropy::default().labels(),
    }
}

/// −ln softmax(scores)[label] for each row: `[.., classes]` and `u32 [..]` give `[..]`. A
/// smoothed label is one of many: the rest is spread over all classes. Ignored rows give 0.
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
    evaluate: |attributes, x, ty| {
        let Labels { ignore, smoothing } = labels_of(attributes);
        let rows = x[0].data.chunks(x[0].shape.last().max(1)).zip(&x[1].data);
        let loss = rows.map(|(row, &label)| {
            if ignore.is_some_and(|ignore| f64::from(ignore) == label) {
                return 0.0;
            }
            let max = row.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
            let log_sum = max + sum.ln();
            let mean = row.iter().map(|x| log_sum - x).sum::<f64>() / row.len() as f64;
            let smoothing = smoothing.value();
            if smoothing == 0.0 {
                return log_sum - row[label as usize];
            }
            (1.0 - smoothing) * (log_sum - row[label as usize]) + smoothing * mean
        });
        Array::new(ty.shape.clone(), loss.collect())
    },
    lowering: Lowering::Expand(|attributes, x| {
        let Labels { ignore, smoothing } = labels_of(attributes);
        let (shape, zero) = (x[0].shape(), x[0].graph().constant(0.0));
        let axis = shape.rank() - 1;
        let hit = x[0].graph().index(&shape, axis).equal(x[1].unsqueeze(axis));
        let logarithms = x[0].log_softmax();
        let picked = hit.select(logarithms, zero).sum(&[axis]);
        let mut loss = -picked;
        if smoothing.value() != 0.0 {
            let smoothing = smoothing.value();
            loss = loss * (1.0 - smoothing) - logarithms.mean(&[axis]) * smoothing;
        }
        let loss = loss.squeeze(&[axis]);
        match ignore {
            Some(ignore) => is_label(x[1], ignore).select(zero, loss),
            None => loss,
        }
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
        let with = |ignore_index, label_smoothing| Case {
            attributes: Attributes::Labels(
                CrossEntropy {
                    ignore_index,
                    label_smoothing,
                }
                .labels(),
            ),
            ..case(&[6, 3], 3.0)
        };
        vec![
            case(&[5, 7], 3.0),
            case(&[2, 3, 4], 3.0),
            case(&[9], 3.0),
            case(&[4, 3], 90.0),
            with(Some(1), 0.0),
            with(None, 0.1),
            with(Some(0), 0.3),
        ]
    },
    ..BASE
};

/// Whether each label is this one.
fn is_label(labels: Tensor<'_>, label: u32) -> Tensor<'_> {
    let graph = labels.graph();
    let label = graph.constant(f64::from(label)).cast(DType::U32);
    labels.equal(label)
}

/// −t·ln σ(x) − (1 − t)·ln(1 − σ(x)) for each element, without overflow for any x.
pub static BINARY_CROSS_ENTROPY: OpDef = OpDef {
    name: "binary_cross_entropy",
    shape: elementwise,
    evaluate: |_, x, ty| {
        map(x, ty, |x| {
            let [x, target] = [x[0], x[1]];
            x.max(0.0) - x * target + (-x.abs()).exp().ln_1p()
        })
    },
    lowering: Lowering::Expand(|_, x| {
        let one = x[0].graph().constant(1.0);
        let zero = x[0].graph().constant(0.0);
        let tail = ((-x[0].abs()).exp() + one).log();
        x[0].maximum(zero) - x[0] * x[1] + tail
    }),
    cases: || {
        let case = |dims: &[usize], range: f64| Case {
            attributes: Attributes::None,
            operands: vec![
                (Shape::from(dims), Domain::Uniform(-range, range)),
                (Shape::from(dims), Domain::Uniform(0.0, 1.0)),
            ],
        };
        vec![case(&[7], 3.0), case(&[3, 4], 3.0), case(&[5], 200.0)]
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
        self.label_losses(labels, Attributes::None)
    }

    /// The same with smoothed labels, and 0 for rows that are ignored.
    pub fn cross_entropy_rows_with(self, labels: Tensor<'g>, how: &CrossEntropy) -> Tensor<'g> {
        if !(0.0..=1.0).contains(&how.label_smoothing) {
            return self.graph().fail(format!(
                "label smoothing is a share from 0 to 1, got {}",
                how.label_smoothing
            ));
        }
        match *how == CrossEntropy::default() {
            true => self.cross_entropy_rows(labels),
            false => self.label_losses(labels, Attributes::Labels(how.labels())),
        }
    }

    fn label_losses(self, labels: Tensor<'g>, attributes: Attributes) -> Tensor<'g> {
        if self.shape().rank() > 0 {
            let except = labels_of(&attributes).ignore;
            self.graph()
                .bound_indices_except(labels, self.shape().last(), except);
        }
        self.graph()
            .apply(&CROSS_ENTROPY_ROWS, attributes, &[self, labels])
    }

    /// The mean cross entropy of `[.., classes]` scores with `u32` labels `[..]`, a scalar.
    pub fn cross_entropy(self, labels: Tensor<'g>) -> Tensor<'g> {
        self.cross_entropy_rows(labels).mean_all()
    }

    /// The mean cross entropy over the labels that are not ignored, 0 when all are.
    pub fn cross_entropy_with(self, labels: Tensor<'g>, how: &CrossEntropy) -> Tensor<'g> {
        let rows = self.cross_entropy_rows_with(labels, how);
        match how.ignore_index {
            Some(ignore) if !rows.is_poisoned() => {
                let graph = self.graph();
                let ignored = is_label(labels, ignore).cast(DType::F32);
                let counted = (graph.constant(1.0) - ignored).sum_all();
                rows.sum_all() / counted.maximum(graph.constant(1.0))
            }
            _ => rows.mean_all(),
        }
    }

    /// −t·ln σ(self) − (1 − t)·ln(1 − σ(self)) for each element, where targets t lie in 0..1;
    /// without overflow. Take its `.mean_all()` for a loss.
    pub fn binary_cross_entropy(self, targets: Tensor<'g>) -> Tensor<'g> {
        self.graph()
            .apply(&BINARY_CROSS_ENTROPY, Attributes::None, &[self, targets])
    }

    /// The mean of (self − target)², a scalar.
    pub fn mean_squared_error(self, target: Tensor<'g>) -> Tensor<'g> {
        self.graph()
            .apply(&MEAN_SQUARED_ERROR, Attributes::None, &[self, target])
    }
}
