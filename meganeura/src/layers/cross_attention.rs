//! Attention of one sequence to another.

use super::Linear;
use crate::ir::{Attention, DType, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Message, Shapes};

/// Which of the projections of an attention layer have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Biases {
    /// None of them.
    None,
    /// All.
    All,
    /// All but that of the keys, which the softmax would forget.
    AllButKey,
}

impl Biases {
    /// Whether the projection `name` has a bias.
    pub(super) fn of(self, name: &str) -> bool {
        match self {
            Biases::None => false,
            Biases::All => true,
            Biases::AllButKey => name != "key",
        }
    }
}

/// Multi-head attention of a sequence to another (Vaswani et al., 2017): `from(x, memory)`, where the
/// queries come from `x` `[batch, time, width]`, keys and values from `memory`
/// `[batch, other time, other width]`. It puts out the shape of `x`.
///
/// Parameters: `weight` of `query`, `key`, `value` and `out`, and `bias` where `bias` says so.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CrossAttention {
    /// How many heads the width is split into.
    pub heads: usize,
    /// Which projections have a bias.
    pub bias: Biases,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for CrossAttention {
    const BASE: Self = CrossAttention {
        heads: 1,
        bias: Biases::None,
    };
    const REQUIRED: &'static [&'static str] = &["heads"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        if let Some(wrong) = x.unless(DType::F32) {
            return wrong;
        }
        let (input, memory) = (x.first(), x.get(1));
        if input.rank_differs(3) || memory.rank_differs(3) {
            let message = Message::new("takes [batch, time, width] twice, but is given ");
            return Shapes::fail(message.dims(&input).text(" and ").dims(&memory));
        }
        if input.dim(0).differs(memory.dim(0)) {
            let message = Message::new("looks from ").dims(&input).text(" at ");
            return Shapes::fail(message.dims(&memory).text(": the batches differ"));
        }
        if let Some(width) = input.last().value()
            && (self.heads == 0 || !width.is_multiple_of(self.heads))
        {
            let message = Message::new("cannot split width ").number(width);
            return Shapes::fail(message.text(" into ").count(self.heads, "head"));
        }
        x.same()
    }

    fn forward<'g>(&self, x: Tensor<'g>, memory: Tensor<'g>) -> Tensor<'g> {
        let (graph, shape) = (x.graph(), x.shape());
        let (&[batch, time, width], &[_, other, _]) = (shape.dims(), memory.shape().dims()) else {
            return graph.fail("takes [batch, time, width] twice");
        };
        let head = width / self.heads.max(1);
        let project = |name: &str, x: Tensor<'g>| {
            let bias = self.bias.of(name);
            let linear = Linear { out: width, bias };
            graph.scoped(name, || linear.apply(x))
        };
        let split = |x: Tensor<'g>, time| x.reshape([batch, time, self.heads, head]);
        let query = split(project("query", x), time);
        let key = split(project("key", memory), other);
        let value = split(project("value", memory), other);
        let mixed = query.attention_in_time(key, value, &Attention::default(), None);
        project("out", mixed.reshape([batch, time, width]))
    }
}
