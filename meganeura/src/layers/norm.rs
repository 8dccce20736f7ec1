//! Normalizations along the last axis.

use crate::ir::{DType, Init, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Message, Shapes};

const fn along_last(x: &Shapes) -> Shapes {
    if let Some(wrong) = x.unless(DType::F32) {
        return wrong;
    }
    if let Some(0) = x.first().rank() {
        let message = Message::new("needs a last axis to normalize, but is given ");
        return Shapes::fail(message.dims(&x.first()));
    }
    x.same()
}

/// (x − μ) / √(σ² + ε) · w + b along the last axis.
///
/// Parameters: `weight`, ones at first, and `bias`, zeros, of the last axis' size.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LayerNorm {
    /// What is added to the variance.
    pub epsilon: f64,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for LayerNorm {
    const BASE: Self = LayerNorm { epsilon: 1e-5 };

    const fn shape(&self, x: &Shapes) -> Shapes {
        along_last(x)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let width = x.shape().last();
        let weight = x.graph().parameter("weight", [width], Init::Ones);
        let bias = x.graph().parameter("bias", [width], Init::Zeros);
        x.layer_norm(weight, bias, self.epsilon)
    }
}

/// x / √(mean x² + ε) · w along the last axis.
///
/// Parameter: `weight`, ones at first, of the last axis' size.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RmsNorm {
    /// What is added to the mean square.
    pub epsilon: f64,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for RmsNorm {
    const BASE: Self = RmsNorm { epsilon: 1e-5 };

    const fn shape(&self, x: &Shapes) -> Shapes {
        along_last(x)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let weight = x
            .graph()
            .parameter("weight", [x.shape().last()], Init::Ones);
        x.rms_norm(weight, self.epsilon)
    }
}
