//! Gated feed-forward blocks.

use super::Linear;
use crate::ir::{Graph, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::Shapes;

/// (silu(x·G) ⊙ x·U)·D, the gated block of Llama (Shazeer, 2020). It keeps the width.
///
/// Parameters: `gate.weight` and `up.weight` `[width, hidden]`, `down.weight` `[hidden, width]`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SwiGlu {
    /// The width between.
    pub hidden: usize,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for SwiGlu {
    const BASE: Self = SwiGlu { hidden: 1 };
    const REQUIRED: &'static [&'static str] = &["hidden"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        let down = Linear {
            out: self.hidden,
            bias: false,
        };
        // It asks the same of its input as a linear layer.
        let hidden = down.shape_of(x);
        if hidden.failed() { hidden } else { x.same() }
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let graph: &'g Graph = x.graph();
        let width = x.shape().last();
        let linear = |name, x: Tensor<'g>, out| {
            let layer = Linear { out, bias: false };
            graph.scoped(name, || layer.apply(x))
        };
        let hidden = linear("gate", x, self.hidden).silu() * linear("up", x, self.hidden);
        linear("down", hidden, width)
    }
}
