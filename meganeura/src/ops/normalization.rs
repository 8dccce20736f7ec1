//! Normalizations along the last axis, composed of primitives. Their fused gradients are
//! found, not written.

use super::rules::{BASE, rows};
use crate::ir::{Attributes, Case, DType, Domain, Lowering, OpDef, Shape, Tensor, TensorType};

pub const OPS: &[&OpDef] = &[&SOFTMAX, &LOG_SOFTMAX, &LAYER_NORM, &RMS_NORM];

fn last(x: Tensor<'_>) -> [usize; 1] {
    [x.shape().rank().saturating_sub(1)]
}

/// x less its row's maximum. The value of what follows does not depend on the shift, so no
/// gradient flows through the maximum.
fn shifted(x: Tensor<'_>) -> Tensor<'_> {
    x - x.max(&last(x)).detach()
}

/// x less its row's maximum, finite too where the whole row is −∞.
fn shifted_from_finite(x: Tensor<'_>) -> Tensor<'_> {
    let lowest = x.graph().constant(f64::from(f32::MIN));
    x - x.max(&last(x)).maximum(lowest).detach()
}

/// A row's sum of exponentials, of which the largest is 1, or 1 where all are 0: no gradient
/// flows through that choice.
fn sum_or_one<'g>(e: Tensor<'g>) -> Tensor<'g> {
    let sum = e.sum(&last(e));
    let none = sum.equal(e.graph().constant(0.0));
    sum + none.cast(DType::F32)
}

/// eˣ / Σ eˣ along the last axis; a row that is −∞ everywhere gives 0.
pub static SOFTMAX: OpDef = OpDef {
    name: "softmax",
    shape: rows,
    evaluate: |_, x, _| {
        x[0].map_rows(|row| {
            let max = row.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            if max == f64::NEG_INFINITY && !row.iter().any(|x| x.is_nan()) {
                return vec![0.0; row.len()];
            }
            let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
            row.iter().map(|x| (x - max).exp() / sum).collect()
        })
    },
    lowering: Lowering::Expand(|_, x| {
        let e = shifted_from_finite(x[0]).exp();
        e / sum_or_one(e)
    }),
    cases: row_cases,
    ..BASE
};

/// x − ln Σ eˣ along the last axis.
pub static LOG_SOFTMAX: OpDef = OpDef {
    name: "log_softmax",
    shape: rows,
    evaluate: |_, x, _| {
        x[0].map_rows(|row| {
            let max = row.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
            row.iter().map(|x| x - max - sum.ln()).collect()
        })
    },
    lowering: Lowering::Expand(|_, x| {
        let z = shifted(x[0]);
        z - z.exp().sum(&last(x[0])).log()
    }),
    cases: row_cases,
    ..BASE
};

fn row_cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [&[4, 6][..], &[9], &[2, 3, 5], &[3, 1], &[2, 100]]
        .map(|dims| Case::uniform(&[dims], -4.0, 4.0))
        .to_vec();
    cases.push(Case::uniform(&[&[3, 4]], 300.0, 400.0));
    cases
}

/// The row rule, for a weight (and a bias) as long as the row.
fn normalized(attributes: &Attributes, operands: &[TensorType]) -> Result<TensorType, String> {
    let ty = rows(attributes, operands)?;
    for (operand, what) in operands[1..].iter().zip(["weight", "bias"]) {
        if operand.shape.dims() != [ty.shape.last()] {
            return Err(format!(
                "needs a {what} of [{}] for rows of {}, got {}",
                ty.shape.last(),
                ty.shape,
                operand.shape
            ));
        }
    }
    Ok(ty)
}

fn norm_cases(operands: usize) -> Vec<Case> {
    let case = |dims: &[usize], low: f64, high: f64| {
        let mut all = vec![(Shape::from(dims), Domain::Uniform(low, high))];
        all.resize(
            operands,
            (
                Shape::from([dims[dims.len() - 1]]),
                Domain::Uniform(-1.5, 1.5),
            ),
        );
        Case {
            attributes: Attributes::number(1e-5),
            operands: all,
        }
    };
    vec![
        case(&[4, 8], -2.0, 2.0),
        case(&[2, 3, 5], -2.0, 2.0),
        case(&[6], -2.0, 2.0),
        case(&[3, 70], 4.0, 6.0),
    ]
}

/// (x − μ) / √(σ² + ε) · weight + bias along the last axis (Ba et al., 2016).
pub static LAYER_NORM: OpDef = OpDef {
    name: "layer_norm",
    shape: normalized,
    evaluate: |attributes, x, _| {
        x[0].map_rows(|row| {
            let n = row.len() as f64;
            let mean = row.iter().sum::<f64>() / n;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let scale = 1.0 / (variance + attributes.as_number()).sqrt();
            let affine = x[1].data.iter().zip(&x[2].data);
            row.iter()
                .zip(affine)
                .map(|(x, (w, b))| (x - mean) * scale * w + b)
                .collect()
        })
    },
    lowering: Lowering::Expand(|attributes, x| {
        let axis = last(x[0]);
        let centered = x[0] - x[0].mean(&axis);
        let scale = (centered.square().mean(&axis) + attributes.as_number()).rsqrt();
        centered * scale * x[1] + x[2]
    }),
    cases: || norm_cases(3),
    ..BASE
};

/// x / √(mean x² + ε) · weight along the last axis (Zhang and Sennrich, 2019).
pub static RMS_NORM: OpDef = OpDef {
    name: "rms_norm",
    shape: normalized,
    evaluate: |attributes, x, _| {
        x[0].map_rows(|row| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            let scale = 1.0 / (mean + attributes.as_number()).sqrt();
            row.iter()
                .zip(&x[1].data)
                .map(|(x, w)| x * scale * w)
                .collect()
        })
    },
    lowering: Lowering::Expand(|attributes, x| {
        let scale = (x[0].square().mean(&last(x[0])) + attributes.as_number()).rsqrt();
        x[0] * scale * x[1]
    }),
    cases: || norm_cases(2),
    ..BASE
};

impl<'g> Tensor<'g> {
    /// eˣ / Σ eˣ along the last axis; a row that is −∞ everywhere gives 0.
    pub fn softmax(self) -> Tensor<'g> {
        self.graph().apply(&SOFTMAX, Attributes::None, &[self])
    }

    /// The softmax over the elements where a truth value of the same shape holds; 0 elsewhere,
    /// and in rows where it holds nowhere.
    pub fn masked_softmax(self, seen: Tensor<'g>) -> Tensor<'g> {
        let graph = self.graph();
        let hidden = graph.constant(f64::NEG_INFINITY);
        seen.select(self, hidden).softmax()
    }

    /// x − ln Σ eˣ along the last axis.
    pub fn log_softmax(self) -> Tensor<'g> {
        self.graph().apply(&LOG_SOFTMAX, Attributes::None, &[self])
    }

    /// (x − μ) / √(σ² + ε) · weight + bias along the last axis.
    pub fn layer_norm(self, weight: Tensor<'g>, bias: Tensor<'g>, epsilon: f64) -> Tensor<'g> {
        self.graph().apply(
            &LAYER_NORM,
            Attributes::number(epsilon),
            &[self, weight, bias],
        )
    }

    /// x / √(mean x² + ε) · weight along the last axis.
    pub fn rms_norm(self, weight: Tensor<'g>, epsilon: f64) -> Tensor<'g> {
        self.graph()
            .apply(&RMS_NORM, Attributes::number(epsilon), &[self, weight])
    }
}
