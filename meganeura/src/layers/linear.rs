//! The fully connected layer.

use crate::ir::{DType, Init, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Dim, Message, Shapes};

/// x·W + b along the last axis: `[.., in]` to `[.., out]`.
///
/// The width that comes in is whatever flows in. Parameters: `weight` `[in, out]` and `bias` `[out]`,
/// both uniform in ±1/√in at first.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Linear {
    /// The width that goes out.
    pub out: usize,
    /// Whether a bias is added.
    pub bias: bool,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Linear {
    const BASE: Self = Linear { out: 1, bias: true };
    const REQUIRED: &'static [&'static str] = &["out"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        self.shape_of(x)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        self.apply(x)
    }
}

impl Linear {
    /// The shape rule, for layers that have a linear layer inside.
    pub(super) const fn shape_of(&self, x: &Shapes) -> Shapes {
        if let Some(wrong) = x.unless(DType::F32) {
            return wrong;
        }
        let x = x.first();
        if let Some(0) = x.rank() {
            let message = Message::new("needs a last axis to work along, but is given ");
            return Shapes::fail(message.dims(&x));
        }
        Shapes::one(x.with_last(Dim::of(self.out)))
    }

    /// The graph code, for layers that have a linear layer inside.
    pub(super) fn apply<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let width = x.shape().last();
        let bound = if width == 0 {
            0.0
        } else {
            1.0 / (width as f32).sqrt()
        };
        let init = Init::Uniform {
            low: -bound,
            high: bound,
        };
        let weight = x.graph().matrix("weight", [width, self.out], init);
        let product = along_last(x, weight);
        if self.bias {
            product + x.graph().parameter("bias", [self.out], init)
        } else {
            product
        }
    }
}

/// x·W along the last axis, for a single vector too.
pub(super) fn along_last<'g>(x: Tensor<'g>, weight: Tensor<'g>) -> Tensor<'g> {
    match *x.shape().dims() {
        [width] => {
            let product = x.reshape([1, width]).matmul(weight);
            let out = product.shape().last();
            product.reshape([out])
        }
        _ => x.matmul(weight),
    }
}
