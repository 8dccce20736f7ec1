//! Layers that bring values together, and layers around layers.

use super::RmsNorm;
use crate::ir::{DType, Tensor};
use crate::model::Layer;
use crate::walk::{Message, Shapes};
use crate::{Model, layer};

/// The rule of an elementwise function of two values of the same shape.
const fn of_two(x: &Shapes, verb: &str) -> Shapes {
    if let Some(wrong) = x.unless(DType::F32) {
        return wrong;
    }
    let (left, right) = (x.first(), x.get(1));
    if left.differs(&right) {
        let message = Message::new(verb).text(" ").dims(&left).text(" and ");
        return Shapes::fail(message.dims(&right));
    }
    Shapes::one(left.merge(&right))
}

/// The sum of two values of the same shape: `from(a, b)`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Add;

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Add {
    const BASE: Self = Add;

    const fn shape(&self, x: &Shapes) -> Shapes {
        of_two(x, "adds")
    }

    fn forward<'g>(&self, left: Tensor<'g>, right: Tensor<'g>) -> Tensor<'g> {
        left + right
    }
}

/// The product, element by element, of two values of the same shape: `from(a, b)`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Multiply;

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Multiply {
    const BASE: Self = Multiply;

    const fn shape(&self, x: &Shapes) -> Shapes {
        of_two(x, "multiplies")
    }

    fn forward<'g>(&self, left: Tensor<'g>, right: Tensor<'g>) -> Tensor<'g> {
        left * right
    }
}

/// A normalization and then a layer, which gets all settings.
#[derive(Model, Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[model(config = L::Config, input(x))]
pub struct PreNorm<L: Layer, N: Layer = RmsNorm> {
    /// The normalization.
    pub norm: N,
    /// The layer.
    #[layer(..config)]
    pub inner: L,
}
