//! Attention of a sequence to itself.

use super::{Biases, Linear};
use crate::ir::{DType, Graph, Tensor};
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

    /// Rotates `[.., time, head]`.
    fn rotate<'g>(self, x: Tensor<'g>) -> Tensor<'g> {
        let (base, interleaved) = match self {
            Rope::None => return x,
            Rope::Interleaved { base } => (base, true),
            Rope::Halves { base } => (base, false),
        };
        let graph = x.graph();
        let shape = x.shape();
        let [outer @ .., time, head] = shape.dims() else {
            return x;
        };
        let (time, half) = (*time, head / 2);
        // The pair that each number is in, and the other number of that pair, one of both negated.
        let (pair, other) = if interleaved {
            let pairs = [outer, &[time, half, 2]].concat();
            (
                graph.index([time, half, 2], 1),
                x.reshape(pairs).matmul(turn(graph)),
            )
        } else {
            let pairs = [outer, &[time, 2, half]].concat();
            let turned = x.reshape(pairs).swap_last().matmul(turn(graph)).swap_last();
            (graph.index([time, 2, half], 2), turned)
        };
        let pair = pair.cast(DType::F32).reshape([time, *head]);
        let position = graph.index([time, *head], 0).cast(DType::F32);
        let angle = position * (pair * (-base.ln() / half as f64)).exp();
        x * angle.cos() + other.reshape(shape.clone()) * angle.sin()
    }
}

/// The quarter turn: `[a, b]` times it is `[-b, a]`.
fn turn(graph: &Graph) -> Tensor<'_> {
    let along = |axis| graph.index([2, 2], axis).cast(DType::F32);
    along(1) - along(0)
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

    /// `[batch, time, count · head]` to `[batch, keys, group, time, head]`.
    fn split<'g>(&self, x: Tensor<'g>, head: usize, groups: usize) -> Tensor<'g> {
        let shape = x.shape();
        let [batch, time, _] = *shape.dims() else {
            return x;
        };
        let split = x.reshape([batch, time, self.key_heads(), groups, head]);
        split.transpose(&[0, 2, 3, 1, 4])
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
        let groups = self.heads / keys.max(1);
        let project = |name, out| {
            let bias = self.bias.of(name);
            let linear = Linear { out, bias };
            graph.scoped(name, || linear.apply(x))
        };
        let query = self
            .rope
            .rotate(self.split(project("query", width), head, groups));
        let key = self
            .rope
            .rotate(self.split(project("key", keys * head), head, 1));
        let value = self.split(project("value", keys * head), head, 1);
        // Keys and values serve all query heads of their group.
        let grouped = [batch, keys, groups, time, head];
        let (key, value) = (key.broadcast(grouped), value.broadcast(grouped));
        let mut scores = query.matmul(key.swap_last()) * (1.0 / (head.max(1) as f64).sqrt());
        if self.causal {
            let along = |axis| graph.index([time, time], axis);
            let seen = along(1).less_equal(along(0)).broadcast(scores.shape());
            // Low enough that nothing is left of it after the softmax, and finite.
            scores = seen.select(scores, graph.constant(-1e30).broadcast(scores.shape()));
        }
        let mixed = scores.softmax().matmul(value);
        let mixed = mixed
            .transpose(&[0, 3, 1, 2, 4])
            .reshape([batch, time, width]);
        let out = Linear {
            out: width,
            bias: self.bias.of("out"),
        };
        graph.scoped("out", || out.apply(mixed))
    }
}
