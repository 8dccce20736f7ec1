//! What attention needs to know besides its operands.

use super::{DType, Number};

/// How queries see keys, for [`Tensor::attention`](crate::ir::Tensor::attention).
///
/// A query's position is counted from the end when there are more keys than queries: the last
/// query stands where the last key does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attention {
    /// What scores are multiplied with; 1/√width when not given.
    pub scale: Option<f64>,
    /// Whether a query sees only keys up to its own position.
    pub causal: bool,
    /// How many positions a query sees: with `causal` its own and those before, without it as
    /// many to both sides; all when not given.
    pub window: Option<usize>,
}

impl Attention {
    /// Each query sees keys up to its own position.
    #[must_use]
    pub const fn causal() -> Attention {
        Attention {
            scale: None,
            causal: true,
            window: None,
        }
    }

    /// The same as an attribute, for heads of some width and a mask of some type.
    pub(crate) fn sight(&self, width: usize, mask: Option<DType>) -> Sight {
        let usual = 1.0 / (width.max(1) as f64).sqrt();
        Sight {
            scale: Number::new(self.scale.unwrap_or(usual)),
            causal: self.causal,
            window: self.window,
            mask,
        }
    }
}

/// [`Attention`] as an attribute: the scale is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sight {
    /// What scores are multiplied with.
    pub scale: Number,
    /// Whether a query sees only keys up to its own position.
    pub causal: bool,
    /// How many positions a query sees.
    pub window: Option<usize>,
    /// Of what the mask is, when there is one: `Bool` tells what is seen, `F32` is added to
    /// the scores.
    pub mask: Option<DType>,
}

/// What an attention op computes. Those that share operands share a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionPart {
    /// The mixed values, from queries, keys, values and perhaps a mask.
    Output,
    /// The logarithm of each query's sum of exponentials, from queries, keys and perhaps a mask.
    Normalizer,
    /// The gradient of the queries. Like the other two it is made from queries, keys, values,
    /// the output's gradient, the normalizer, the sum of output · its gradient for each query,
    /// and perhaps a mask.
    QueryGradient,
    /// The gradient of the keys.
    KeyGradient,
    /// The gradient of the values.
    ValueGradient,
}

impl AttentionPart {
    /// How many operands come before the mask.
    pub fn operands(self) -> usize {
        match self {
            AttentionPart::Normalizer => 2,
            AttentionPart::Output => 3,
            _ => 6,
        }
    }

    /// Whether it belongs to the backward pass.
    pub fn is_gradient(self) -> bool {
        self.operands() == 6
    }
}
