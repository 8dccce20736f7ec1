//! Positions as numbers that are added.

use crate::ir::{DType, Init, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Message, Shapes};

/// Adds a trained vector for each position: `[batch, time, width]` to the same.
///
/// Parameter: `weight` `[rows, width]`, normal with deviation 0.02 at first.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Positions {
    /// How many positions there are at most.
    pub rows: usize,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Positions {
    const BASE: Self = Positions { rows: 1 };
    const REQUIRED: &'static [&'static str] = &["rows"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        if let Some(wrong) = x.unless(DType::F32) {
            return wrong;
        }
        let input = x.first();
        if input.rank_differs(3) {
            let message = Message::new("takes [batch, time, width], but is given ");
            return Shapes::fail(message.dims(&input));
        }
        if let Some(time) = input.dim(1).value()
            && time > self.rows
        {
            let message = Message::new("knows ").count(self.rows, "position");
            return Shapes::fail(message.text(" but is given ").dims(&input));
        }
        x.same()
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let (graph, shape) = (x.graph(), x.shape());
        let [_, time, width] = *shape.dims() else {
            return graph.fail(format!("takes [batch, time, width], but is given {shape}"));
        };
        let init = Init::Normal {
            mean: 0.0,
            std: 0.02,
        };
        let table = graph.parameter("weight", [self.rows, width], init);
        x + table.slice(0, 0, time)
    }
}
