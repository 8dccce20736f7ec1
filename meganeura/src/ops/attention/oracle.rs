//! Attention in double precision: the definitions, one pair of query and key after the other.

use super::sight;
use crate::ir::{Array, Attributes, DType, Sight, TensorType};

/// The operands and their sizes.
pub(super) struct Oracle<'a> {
    sight: Sight,
    x: &'a [&'a Array],
    mask: Option<&'a Array>,
    batches: usize,
    queries: usize,
    keys: usize,
    heads: usize,
    key_heads: usize,
}

/// A query: its batch, its head and its place in time.
type Query = [usize; 3];

impl<'a> Oracle<'a> {
    /// With the mask, if there is one, at this place.
    pub fn new(attributes: &Attributes, x: &'a [&'a Array], mask: usize) -> Oracle<'a> {
        let (query, key) = (x[0].shape.dims(), x[1].shape.dims());
        let rank = query.len();
        Oracle {
            sight: sight(attributes),
            x,
            mask: x.get(mask).copied(),
            batches: query[..rank - 3].iter().product(),
            queries: query[rank - 3],
            keys: key[rank - 3],
            heads: query[rank - 2],
            key_heads: key[rank - 2],
        }
    }

    fn all_queries(&self) -> Vec<Query> {
        let mut all = Vec::new();
        for batch in 0..self.batches {
            for head in 0..self.heads {
                all.extend((0..self.queries).map(|query| [batch, head, query]));
            }
        }
        all
    }

    /// The row of an operand for a query.
    fn of_query(&self, operand: usize, [batch, head, query]: Query) -> &'a [f64] {
        let row = (batch * self.queries + query) * self.heads + head;
        self.row(operand, row)
    }

    /// Which row of keys or values a query meets at a key.
    fn key_row(&self, [batch, head, _]: Query, key: usize) -> usize {
        let head = head * self.key_heads / self.heads;
        (batch * self.keys + key) * self.key_heads + head
    }

    fn row(&self, operand: usize, row: usize) -> &'a [f64] {
        let width = self.x[operand].shape.last();
        &self.x[operand].data[row * width..][..width]
    }

    /// The score of a query at a key, −∞ where it does not see it.
    fn score(&self, at: Query, key: usize) -> f64 {
        let [batch, head, query] = at;
        let distance = (query + self.keys) as i64 - (key + self.queries) as i64;
        let before = !self.sight.causal || distance >= 0;
        let near = self
            .sight
            .window
            .is_none_or(|window| distance.unsigned_abs() < window as u64);
        let mask = self.mask.map(|mask| {
            mask.data[((batch * self.heads + head) * self.queries + query) * self.keys + key]
        });
        let score = dot(self.of_query(0, at), self.row(1, self.key_row(at, key)));
        let score = score * self.sight.scale.value();
        match (before && near, mask, self.sight.mask) {
            (false, ..) => f64::NEG_INFINITY,
            (_, Some(added), Some(DType::F32)) => score + added,
            (_, Some(0.0), _) => f64::NEG_INFINITY,
            _ => score,
        }
    }

    fn scores(&self, at: Query) -> Vec<f64> {
        (0..self.keys).map(|key| self.score(at, key)).collect()
    }

    fn log_sum(&self, at: Query) -> f64 {
        let scores = self.scores(at);
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if scores.iter().any(|score| score.is_nan()) {
            return f64::NAN;
        }
        if largest == f64::NEG_INFINITY {
            return f64::INFINITY;
        }
        let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
        largest + sum.ln()
    }

    /// Each key's probability, given the normalizer.
    fn probabilities(&self, at: Query, normalizer: f64) -> Vec<f64> {
        let seen = |score: f64| match score {
            f64::NEG_INFINITY => 0.0,
            score => (score - normalizer).exp(),
        };
        self.scores(at).into_iter().map(seen).collect()
    }

    pub fn output(&self, ty: &TensorType) -> Array {
        let mut result = zeros(ty);
        for at in self.all_queries() {
            let weights = self.probabilities(at, self.log_sum(at));
            let to = row_mut(&mut result, self.query_row(at));
            for (key, weight) in weights.into_iter().enumerate() {
                add(to, weight, self.row(2, self.key_row(at, key)));
            }
        }
        result
    }

    fn query_row(&self, [batch, head, query]: Query) -> usize {
        (batch * self.queries + query) * self.heads + head
    }

    pub fn normalizer(&self, ty: &TensorType) -> Array {
        let mut result = zeros(ty);
        for at in self.all_queries() {
            result.data[self.query_row(at)] = self.log_sum(at);
        }
        result
    }

    /// Probabilities, and the gradients of scores, of the queries of the backward pass.
    fn backward(&self, at: Query) -> (Vec<f64>, Vec<f64>) {
        let weights = self.probabilities(at, self.of_query(4, at)[0]);
        let (gradient, sum) = (self.of_query(3, at), self.of_query(5, at)[0]);
        let scores = weights.iter().enumerate().map(|(key, weight)| {
            weight * (dot(gradient, self.row(2, self.key_row(at, key))) - sum)
        });
        let scores = scores.collect();
        (weights, scores)
    }

    pub fn query_gradient(&self, ty: &TensorType) -> Array {
        let mut result = zeros(ty);
        for at in self.all_queries() {
            let to = row_mut(&mut result, self.query_row(at));
            for (key, gradient) in self.backward(at).1.into_iter().enumerate() {
                let scale = self.sight.scale.value();
                add(to, scale * gradient, self.row(1, self.key_row(at, key)));
            }
        }
        result
    }

    pub fn key_gradient(&self, ty: &TensorType) -> Array {
        let mut result = zeros(ty);
        for at in self.all_queries() {
            for (key, gradient) in self.backward(at).1.into_iter().enumerate() {
                let to = row_mut(&mut result, self.key_row(at, key));
                let scale = self.sight.scale.value();
                add(to, scale * gradient, self.of_query(0, at));
            }
        }
        result
    }

    pub fn value_gradient(&self, ty: &TensorType) -> Array {
        let mut result = zeros(ty);
        for at in self.all_queries() {
            for (key, weight) in self.backward(at).0.into_iter().enumerate() {
                let to = row_mut(&mut result, self.key_row(at, key));
                add(to, weight, self.of_query(3, at));
            }
        }
        result
    }
}

fn zeros(ty: &TensorType) -> Array {
    Array::from_fn(&ty.shape, |_| 0.0)
}

fn row_mut(array: &mut Array, row: usize) -> &mut [f64] {
    let width = array.shape.last();
    &mut array.data[row * width..][..width]
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}
