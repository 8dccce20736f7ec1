//! Attention of a sequence to itself.

use super::{Biases, Linear};
use crate::ir::{Attention, DType, Graph, Pairs, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Message, Shapes};

/// Positions as rotations of pairs of numbers (Su et al., 2021); position 0 is the identity.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Rope {
    /// No positions.
    None,
    /// Pairs are neighbours: 0 and 1, 2 and 3, …
    Interleaved {
        /// The base of the wavelengths, usually 10 000.
        base: f64,
    },
    /// Pairs are half a head apart.
    Halves {
        /// The base of the wavelengths, usually 10 000.
        base: f64,
    },
}

impl Rope {
    /// Pairs are neighbours, as in Llama's own code.
    #[must_use]
    pub const fn interleaved(base: f64) -> Rope {
        Rope::Interleaved { base }
    }

    /// Pairs are half a head apart, as in GPT-NeoX and in most converted weights.
    #[must_use]
    pub const fn halves(base: f64) -> Rope {
        Rope::Halves { base }
    }

    /// Rotates `[batch, time, heads, width]`.
    fn rotate(self, x: Tensor<'_>) -> Tensor<'_> {
        match self {
            Rope::None => x,
            Rope::Interleaved { base } => x.rope(1, Pairs::Interleaved, base),
            Rope::Halves { base } => x.rope(1, Pairs::Halves, base),
        }
    }
}

/// Multi-head attention of a sequence to itself (Vaswani et al., 2017): `[batch, time, width]` to the
/// same. It keeps the width.
///
/// Parameters: `weight` of `query`, `key`, `value` and `out`, and `bias` where `bias` says so.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SelfAttention {
    /// How many heads the width is split into.
    pub heads: usize,
    /// How many heads keys and values have, each for as many query heads; 0 is as many as `heads`.
    pub kv_heads: usize,
    /// Whether each position sees only itself and what is before.
    pub causal: bool,
    /// How positions are told.
    pub rope: Rope,
    /// Whether all scores are computed at once and kept, in memory that grows with the square
    /// of time, instead of in tiles. The values are the same.
    pub score_matrix: bool,
    /// Which projections have a bias.
    pub bias: Biases,
}

impl SelfAttention {
    const fn key_heads(&self) -> usize {
        if self.kv_heads == 0 {
            self.heads
        } else {
            self.kv_heads
        }
    }

    /// Attention of `[batch, time, heads, width]` by primitives, with a matrix of all scores.
    fn with_score_matrix<'g>(
        &self,
        query: Tensor<'g>,
        key: Tensor<'g>,
        value: Tensor<'g>,
    ) -> Tensor<'g> {
        let (graph, shape) = (query.graph(), query.shape());
        let [batch, time, heads, width] = *shape.dims() else {
            return query;
        };
        let (keys, groups) = (self.key_heads(), heads / self.key_heads().max(1));
        // Keys and values serve all query heads of their group.
        let split = |x: Tensor<'g>, groups: usize| {
            let split = x.reshape([batch, time, keys, groups, width]);
            split.transpose(&[0, 2, 3, 1, 4])
        };
        let grouped = [batch, keys, groups, time, width];
        let query = split(query, groups);
        let [key, value] = [key, value].map(|x| split(x, 1).broadcast(grouped));
        let mut scores = query.matmul(key.swap_last()) * (1.0 / (width.max(1) as f64).sqrt());
        if self.causal {
            let along = |axis| graph.index([time, time], axis);
            let seen = along(1).less_equal(along(0)).broadcast(scores.shape());
            // Low enough that nothing is left of it after the softmax, and finite.
            scores = seen.select(scores, graph.constant(-1e30).broadcast(scores.shape()));
        }
        let mixed = scores.softmax().matmul(value);
        mixed.transpose(&[0, 3, 1, 2, 4]).reshape(shape)
    }
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for SelfAttention {
    const BASE: Self = SelfAttention {
        heads: 1,
        kv_heads: 0,
        causal: false,
        rope: Rope::None,
        score_matrix: false,
        bias: Biases::None,
    };
    const REQUIRED: &'static [&'static str] = &["heads"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        if let Some(wrong) = x.unless(DType::F32) {
            return wrong;
        }
        let input = x.first();
        if input.rank_differs(3) {
            let message = Message::new("takes [batch, time, width], but is given ");
            return Shapes::fail(message.dims(&input));
        }
        let (heads, keys) = (self.heads, self.key_heads());
        if heads == 0 || !heads.is_multiple_of(keys) {
            let message = Message::new("cannot share ")
                .count(keys, "key head")
                .text(" among ");
            return Shapes::fail(message.count(heads, "head"));
        }
        if let Some(width) = input.last().value() {
            let message = Message::new("cannot split width ")
                .number(width)
                .text(" into ");
            if !width.is_multiple_of(heads) {
                return Shapes::fail(message.count(heads, "head"));
            }
            if !matches!(self.rope, Rope::None) && !(width / heads).is_multiple_of(2) {
                let message = message.count(heads, "head").text(" of pairs to rotate");
                return Shapes::fail(message);
            }
        }
        x.same()
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let graph: &'g Graph = x.graph();
        let shape = x.shape();
        let [batch, time, width] = *shape.dims() else {
            return graph.fail(format!("takes [batch, time, width], but is given {shape}"));
        };
        let (head, keys) = (width / self.heads.max(1), self.key_heads());
        let project = |name, heads: usize| {
            let linear = Linear {
                out: heads * head,
                bias: self.bias.of(name),
            };
            let projected = graph.scoped(name, || linear.apply(x));
            projected.reshape([batch, time, heads, head])
        };
        let query = self.rope.rotate(project("query", self.heads));
        let key = self.rope.rotate(project("key", keys));
        let value = project("value", keys);
        let mixed = if self.score_matrix {
            self.with_score_matrix(query, key, value)
        } else {
            let how = Attention {
                causal: self.causal,
                ..Attention::default()
            };
            query.attention_in_time(key, value, &how, None)
        };
        let mixed = mixed.reshape([batch, time, width]);
        let out = Linear {
            out: width,
            bias: self.bias.of("out"),
        };
        graph.scoped("out", || out.apply(mixed))
    }
}
