//! The gradients of the gradient, composed of primitives: these do have a matrix of all
//! scores, and are rarely asked for.

use super::sight;
use crate::ir::{Attributes, DType, Graph, Sight, Tensor};

/// Attention with the heads before time and as many key heads as heads.
struct Pairs<'g> {
    sight: Sight,
    graph: &'g Graph,
    group: usize,
    query: Tensor<'g>,
    key: Tensor<'g>,
    /// From scores and the normalizer.
    probability: Tensor<'g>,
    masks: usize,
}

type Gradients<'g> = Vec<Option<Tensor<'g>>>;

/// `[.., time, heads, width]` to `[.., heads, time, width]` and back.
fn turn(x: Tensor<'_>) -> Tensor<'_> {
    let rank = x.shape().rank();
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 3, rank - 2);
    x.transpose(&order)
}

impl<'g> Pairs<'g> {
    fn new(
        attributes: &Attributes,
        query: Tensor<'g>,
        key: Tensor<'g>,
        normalizer: Tensor<'g>,
        masks: &[Tensor<'g>],
    ) -> Pairs<'g> {
        let axis = query.shape().rank() - 2;
        let group = query.shape().dims()[axis] / key.shape().dims()[axis].max(1);
        let mut pairs = Pairs {
            sight: sight(attributes),
            graph: query.graph(),
            group,
            query: turn(query),
            key,
            probability: query,
            masks: masks.len(),
        };
        pairs.key = pairs.for_heads(key);
        let mut scores = pairs.query.matmul(pairs.key.swap_last()) * pairs.sight.scale.value();
        let shape = scores.shape();
        let zero = pairs.graph.constant(0.0).broadcast(&shape);
        let mut seen = pairs.seen(shape.dims());
        for mask in masks {
            match mask.dtype() {
                DType::F32 => scores = scores + *mask,
                _ => seen = seen * mask.cast(DType::F32),
            }
        }
        let seen = pairs.graph.constant(0.5).less(seen).broadcast(&shape);
        pairs.probability = seen.select((scores - turn(normalizer)).exp(), zero);
        pairs
    }

    /// 1 where a query sees a key for its place, else 0.
    fn seen(&self, shape: &[usize]) -> Tensor<'g> {
        let [.., queries, keys] = *shape else {
            return self.graph.constant(1.0);
        };
        let along = |axis| self.graph.index([queries, keys], axis).cast(DType::F32);
        let distance = along(0) - along(1) + (keys as f64 - queries as f64);
        let mut seen = self.graph.constant(1.0).broadcast([queries, keys]);
        let half = |x: Tensor<'g>| x.cast(DType::F32);
        if self.sight.causal {
            seen = seen * half(self.graph.constant(-0.5).less(distance));
        }
        if let Some(window) = self.sight.window {
            let limit = self.graph.constant(window as f64 - 0.5);
            seen = seen * half(distance.abs().less(limit));
        }
        seen
    }

    /// Keys or values, once for each head that they serve.
    fn for_heads(&self, x: Tensor<'g>) -> Tensor<'g> {
        let x = turn(x);
        let shape = x.shape();
        let [outer @ .., heads, time, width] = shape.dims() else {
            return x;
        };
        let apart = [outer, &[*heads, 1, *time, *width]].concat();
        let repeated = [outer, &[*heads, self.group, *time, *width]].concat();
        let all = [outer, &[*heads * self.group, *time, *width]].concat();
        x.reshape(apart).broadcast(repeated).reshape(all)
    }

    /// The gradient of keys or values, from those of the heads that they served.
    fn of_heads(&self, x: Tensor<'g>) -> Tensor<'g> {
        let shape = x.shape();
        let [outer @ .., heads, time, width] = shape.dims() else {
            return x;
        };
        let key_heads = heads / self.group.max(1);
        let grouped = [outer, &[key_heads, self.group, *time, *width]].concat();
        let all = [outer, &[key_heads, *time, *width]].concat();
        turn(x.reshape(grouped).sum(&[outer.len() + 1]).reshape(all))
    }

    /// Gradients of queries, keys, normalizer and masks from that of the probabilities.
    fn through_probability(&self, gradient: Tensor<'g>) -> [Tensor<'g>; 4] {
        self.through_scores(gradient * self.probability)
    }

    fn through_scores(&self, gradient: Tensor<'g>) -> [Tensor<'g>; 4] {
        let scale = self.sight.scale.value();
        let last = gradient.shape().rank() - 1;
        let query = gradient.matmul(self.key) * scale;
        let key = gradient.swap_last().matmul(self.query) * scale;
        let normalizer = turn(-gradient.sum(&[last]));
        [turn(query), self.of_heads(key), normalizer, gradient]
    }

    fn masks(&self, gradient: Tensor<'g>) -> Gradients<'g> {
        let floats = self.sight.mask == Some(DType::F32);
        vec![floats.then_some(gradient); self.masks]
    }
}

/// Of the normalizer.
pub(super) fn normalizer<'g>(
    attributes: &Attributes,
    x: &[Tensor<'g>],
    y: Tensor<'g>,
    g: Tensor<'g>,
) -> Gradients<'g> {
    let pairs = Pairs::new(attributes, x[0], x[1], y, &x[2..]);
    let [query, key, _, scores] = pairs.through_scores(pairs.probability * turn(g));
    [vec![Some(query), Some(key)], pairs.masks(scores)].concat()
}

/// What the gradients of queries and keys have in common.
struct Scores<'g> {
    pairs: Pairs<'g>,
    value: Tensor<'g>,
    upstream: Tensor<'g>,
    /// The gradients of probabilities, less their mean.
    centered: Tensor<'g>,
}

impl<'g> Scores<'g> {
    fn new(attributes: &Attributes, x: &[Tensor<'g>], masks: &[Tensor<'g>]) -> Scores<'g> {
        let pairs = Pairs::new(attributes, x[0], x[1], x[4], masks);
        let value = pairs.for_heads(x[2]);
        let upstream = turn(x[3]);
        Scores {
            centered: upstream.matmul(value.swap_last()) - turn(x[5]),
            pairs,
            value,
            upstream,
        }
    }

    /// The gradients of the scores.
    fn gradient(&self) -> Tensor<'g> {
        self.pairs.probability * self.centered
    }

    /// The gradients of all operands from that of [`Scores::gradient`].
    fn operands(&self, gradient: Tensor<'g>) -> Gradients<'g> {
        let pairs = &self.pairs;
        let [query, key, normalizer, scores] = pairs.through_probability(gradient * self.centered);
        let inner = gradient * pairs.probability;
        let last = inner.shape().rank() - 1;
        let operands = [
            query,
            key,
            pairs.of_heads(inner.swap_last().matmul(self.upstream)),
            turn(inner.matmul(self.value)),
            normalizer,
            turn(-inner.sum(&[last])),
        ];
        [operands.map(Some).to_vec(), pairs.masks(scores)].concat()
    }
}

/// The gradient of the scores, which is that of a mask that was added to them.
pub(super) fn score_gradient<'g>(
    attributes: &Attributes,
    x: &[Tensor<'g>],
    masks: &[Tensor<'g>],
) -> Tensor<'g> {
    Scores::new(attributes, x, masks).gradient()
}

/// Of the queries' gradient.
pub(super) fn query_gradient<'g>(
    attributes: &Attributes,
    x: &[Tensor<'g>],
    _: Tensor<'g>,
    g: Tensor<'g>,
) -> Gradients<'g> {
    let scores = Scores::new(attributes, x, &x[6..]);
    let (pairs, g) = (&scores.pairs, turn(g) * scores.pairs.sight.scale.value());
    let mut gradients = scores.operands(g.matmul(pairs.key.swap_last()));
    let direct = pairs.of_heads(scores.gradient().swap_last().matmul(g));
    gradients[1] = gradients[1].map(|key| key + direct);
    gradients
}

/// Of the keys' gradient.
pub(super) fn key_gradient<'g>(
    attributes: &Attributes,
    x: &[Tensor<'g>],
    _: Tensor<'g>,
    g: Tensor<'g>,
) -> Gradients<'g> {
    let scores = Scores::new(attributes, x, &x[6..]);
    let pairs = &scores.pairs;
    let g = pairs.for_heads(g) * pairs.sight.scale.value();
    let mut gradients = scores.operands(pairs.query.matmul(g.swap_last()));
    let direct = turn(scores.gradient().matmul(g));
    gradients[0] = gradients[0].map(|query| query + direct);
    gradients
}

/// Of the values' gradient.
pub(super) fn value_gradient<'g>(
    attributes: &Attributes,
    x: &[Tensor<'g>],
    _: Tensor<'g>,
    g: Tensor<'g>,
) -> Gradients<'g> {
    let pairs = Pairs::new(attributes, x[0], x[1], x[4], &x[6..]);
    let (upstream, g) = (turn(x[3]), pairs.for_heads(g));
    let [query, key, normalizer, scores] =
        pairs.through_probability(upstream.matmul(g.swap_last()));
    let upstream = turn(pairs.probability.matmul(g));
    let operands = vec![
        Some(query),
        Some(key),
        None,
        Some(upstream),
        Some(normalizer),
        None,
    ];
    [operands, pairs.masks(scores)].concat()
}
