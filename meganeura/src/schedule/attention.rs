//! The archetype of attention.

use std::ops::Range;

use super::kernel::{Access, BufferId};

/// Attention of `queries` to `keys` for each head of each batch, or its gradients. Results are
/// row-major without gaps, of their operand's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionKernel {
    /// Sizes of the axes before time.
    pub batch: Vec<usize>,
    /// Queries of each head.
    pub queries: usize,
    /// Keys of each head.
    pub keys: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Neighbouring heads that share a head of keys and values.
    pub group: usize,
    /// Columns of a query and a key.
    pub width: usize,
    /// Columns of a value.
    pub value_width: usize,
    /// What scores are multiplied with.
    pub scale: f32,
    /// Whether queries see only keys up to their own position, counted from the end.
    pub causal: bool,
    /// How many positions a query sees.
    pub window: Option<usize>,
    /// Over outer axes `[batch.., queries, heads]`.
    pub query: Access,
    /// Over outer axes `[batch.., keys, key heads]`.
    pub key: Access,
    /// Like the keys; not there when only normalizers are asked for.
    pub value: Option<Access>,
    /// Over outer axes `[batch.., heads, queries]` and columns `keys`: truth values that tell
    /// what is seen, or floats that are added to the scores.
    pub mask: Option<Access>,
    /// Whether results are kept as bf16, but for normalizers.
    pub rounds: bool,
    /// Which way.
    pub pass: AttentionPass,
}

/// What attention computes.
#[derive(Clone, Debug, PartialEq)]
pub enum AttentionPass {
    /// Mixed values and normalizers.
    Forward {
        /// `[batch.., queries, heads, value width]`.
        output: Option<BufferId>,
        /// ln Σ e^score, ∞ for a query that sees nothing: `[batch.., queries, heads]`.
        normalizer: Option<BufferId>,
    },
    /// Gradients.
    Backward {
        /// The gradient of the output, over outer axes `[batch.., queries, heads]`.
        upstream: Access,
        /// The forward pass' normalizers, a row value.
        normalizer: Access,
        /// The sums of output · its gradient, a row value.
        sums: Access,
        /// The gradient of the queries.
        query: Option<BufferId>,
        /// The gradient of the keys.
        key: Option<BufferId>,
        /// The gradient of the values.
        value: Option<BufferId>,
    },
}

/// A range cut to `0..count`.
fn between(start: i64, end: i64, count: usize) -> Range<usize> {
    let inside = |index: i64| index.clamp(0, count as i64) as usize;
    let start = inside(start);
    start..inside(end).max(start)
}

impl AttentionKernel {
    /// Heads of keys and values.
    pub fn key_heads(&self) -> usize {
        self.heads / self.group.max(1)
    }

    /// Where the keys that a query sees by its position begin and end, if there were keys
    /// everywhere: both stay or move by one from query to query.
    pub fn reach(&self, query: usize) -> [i64; 2] {
        // Before the first key when there are more queries than keys.
        let position = (query + self.keys) as i64 - self.queries as i64;
        let window = self.window.map(|window| window as i64);
        let start = window.map_or(0, |window| position - window + 1);
        let end = match (self.causal, window) {
            (true, _) => position + 1,
            (false, Some(window)) => position + window,
            (false, None) => self.keys as i64,
        };
        [start, end]
    }

    /// The keys that a query sees by its position.
    pub fn seen(&self, query: usize) -> Range<usize> {
        let [start, end] = self.reach(query);
        between(start, end, self.keys)
    }

    /// The queries that see a key by their position.
    pub fn seeing(&self, key: usize) -> Range<usize> {
        // The query that stands where the key does.
        let position = (key + self.queries) as i64 - self.keys as i64;
        let window = self.window.map(|window| window as i64);
        let start = match (self.causal, window) {
            (true, _) => position,
            (false, Some(window)) => position - window + 1,
            (false, None) => 0,
        };
        let end = window.map_or(self.queries as i64, |window| position + window);
        between(start, end, self.queries)
    }

    /// What it reads.
    pub fn loads(&self) -> impl Iterator<Item = &Access> {
        let backward = match &self.pass {
            AttentionPass::Forward { .. } => [None; 3],
            AttentionPass::Backward {
                upstream,
                normalizer,
                sums,
                ..
            } => [Some(upstream), Some(normalizer), Some(sums)],
        };
        [
            Some(&self.query),
            Some(&self.key),
            self.value.as_ref(),
            self.mask.as_ref(),
        ]
        .into_iter()
        .chain(backward)
        .flatten()
    }

    /// The same, to change.
    pub fn loads_mut(&mut self) -> impl Iterator<Item = &mut Access> {
        let backward = match &mut self.pass {
            AttentionPass::Forward { .. } => [None, None, None],
            AttentionPass::Backward {
                upstream,
                normalizer,
                sums,
                ..
            } => [Some(upstream), Some(normalizer), Some(sums)],
        };
        [
            Some(&mut self.query),
            Some(&mut self.key),
            self.value.as_mut(),
            self.mask.as_mut(),
        ]
        .into_iter()
        .chain(backward)
        .flatten()
    }

    /// What it writes.
    pub fn results(&self) -> Vec<BufferId> {
        let all = match self.pass {
            AttentionPass::Forward { output, normalizer } => [output, normalizer, None],
            AttentionPass::Backward {
                query, key, value, ..
            } => [query, key, value],
        };
        all.into_iter().flatten().collect()
    }

    /// The results that are no normalizers.
    pub fn tensors(&self) -> Vec<BufferId> {
        let all = match self.pass {
            AttentionPass::Forward { output, .. } => [output, None, None],
            AttentionPass::Backward {
                query, key, value, ..
            } => [query, key, value],
        };
        all.into_iter().flatten().collect()
    }

    /// Pairs of queries and keys that meet.
    pub fn pairs(&self) -> usize {
        let seen: usize = (0..self.queries).map(|query| self.seen(query).len()).sum();
        self.batch.iter().product::<usize>() * self.heads * seen
    }

    /// Floating-point operations of its products.
    pub fn flops(&self) -> u64 {
        let width = |wanted: bool, width: usize| if wanted { width } else { 0 };
        let columns = match &self.pass {
            AttentionPass::Forward { output, .. } => {
                self.width + width(output.is_some(), self.value_width)
            }
            AttentionPass::Backward {
                query, key, value, ..
            } => {
                self.width
                    + self.value_width
                    + width(query.is_some(), self.width)
                    + width(key.is_some(), self.width)
                    + width(value.is_some(), self.value_width)
            }
        };
        2 * (self.pairs() * columns) as u64
    }
}
