//! Layers that move values without changing them.

use crate::ir::Tensor;
use crate::layer;
use crate::model::Layer;
use crate::walk::{Dims, Message, Shapes};

/// Joins all axes after the first: `[batch, 16, 5, 5]` to `[batch, 400]`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Flatten;

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Flatten {
    const BASE: Self = Flatten;

    const fn shape(&self, x: &Shapes) -> Shapes {
        let x = x.first();
        let flat = match x.rank() {
            Some(0) => {
                let message =
                    Message::new("keeps the first axis and joins the others, but is given ");
                return Shapes::fail(message.dims(&x));
            }
            Some(_) => Dims::of(&[x.dim(0), x.product_from(1)]),
            None => return Shapes::one(x),
        };
        match x.dtype() {
            Some(dtype) => Shapes::one(flat.with_dtype(dtype)),
            None => Shapes::one(flat),
        }
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let shape = x.shape();
        let Some((&first, rest)) = shape.dims().split_first() else {
            return x
                .graph()
                .fail("keeps the first axis and joins the others, but is given []");
        };
        x.reshape([first, rest.iter().product()])
    }
}
