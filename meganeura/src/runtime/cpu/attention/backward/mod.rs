//! Gradients, from probabilities that are computed again.

mod ahead;
mod products;
mod rows;

use std::cell::RefCell;
use std::ops::Range;

use super::operand::{Matrix, Operand, Target};
use super::sight::{common, seen};
use super::{AttentionProgram, KEYS, Layout, Pass, blocks};
use crate::runtime::cpu::gemm::tiles::{Queue, SPAN};
use crate::runtime::cpu::pool::Pool;
use crate::runtime::cpu::vector::softmax::{Numbers, QUERIES};

/// Queries of a block: as deep are the products that make the gradients of keys and values.
const BLOCK: usize = 128;
/// From one key's probabilities to the next, an odd number of cache lines.
const STRIDE: usize = BLOCK + QUERIES;
/// Tiles of a block.
const TILES: usize = BLOCK / QUERIES;

/// Where things lie in a worker's scratch memory.
#[derive(Default)]
pub(super) struct Scratch {
    /// Rows of a head's keys and values, and of their gradients, which are copied or added up here
    /// where that cannot be done where they lie.
    keys: usize,
    values: usize,
    key_gradients: usize,
    value_gradients: usize,
    /// Rows of a block's queries and of the output's gradient, the same, and transposes of both.
    queries: usize,
    upstream: usize,
    query_columns: usize,
    upstream_columns: usize,
    query_gradients: usize,
    probabilities: usize,
    scores: usize,
    mask: usize,
    /// For each small tile of keys, whether its gradients have been begun.
    begun: usize,
    pub total: usize,
}

/// What a task works on: one head of keys, and which gradients it makes.
struct Task<'a> {
    batch: usize,
    key_head: usize,
    keys: Range<usize>,
    queries: Range<usize>,
    query: Option<&'a Target>,
    key: Option<&'a Target>,
    value: Option<&'a Target>,
    scratch: *mut f32,
    places: Scratch,
    queue: RefCell<Queue>,
}

impl Task<'_> {
    fn place(&self, place: usize) -> *mut f32 {
        self.scratch.wrapping_add(place)
    }
}

/// The keys and values of a task, and their gradients.
struct Keys {
    rows: Matrix,
    values: Matrix,
    gradients: Option<Matrix>,
    value_gradients: Option<Matrix>,
}

/// A block of queries of a head.
struct Block {
    at: [usize; 2],
    queries: Range<usize>,
    rows: Matrix,
    upstream: Matrix,
    gradients: Option<Matrix>,
    /// For each small tile, whether its gradients have been begun.
    begun: [bool; BLOCK / SPAN],
    /// Normalizers, to the base 2.
    shifts: [Numbers; TILES],
    means: [Numbers; TILES],
}

/// The tiles of keys that some keys lie in.
fn whole_tiles(some: &Range<usize>, keys: &Range<usize>) -> Range<usize> {
    let [start, end] = [some.start - keys.start, some.end - keys.start];
    let end = end.next_multiple_of(SPAN).min(keys.len());
    keys.start + start / SPAN * SPAN..keys.start + end
}

impl AttentionProgram {
    pub(super) fn backward_scratch(&self) -> Scratch {
        let (mut layout, kernel) = (Layout::default(), &self.kernel);
        let (width, value_width) = (kernel.width, kernel.value_width);
        let copies = |operand: Option<&Operand>, rows, width| {
            operand.map_or(0, |operand| self.copies(operand, rows, width))
        };
        let sums = |target: Option<&Target>, rows: usize, width| match target {
            Some(target) if !target.in_place() => rows * self.tiles.padded(width),
            _ => 0,
        };
        let Pass::Backward {
            upstream,
            query,
            key,
            value,
            ..
        } = &self.pass
        else {
            return Scratch::default();
        };
        Scratch {
            keys: layout.take(copies(Some(&self.key), kernel.keys, width)),
            values: layout.take(copies(self.value.as_ref(), kernel.keys, value_width)),
            key_gradients: layout.take(sums(key.as_ref(), kernel.keys, width)),
            value_gradients: layout.take(sums(value.as_ref(), kernel.keys, value_width)),
            queries: layout.take(copies(Some(&self.query), BLOCK, width)),
            upstream: layout.take(copies(Some(upstream), BLOCK, value_width)),
            query_columns: layout.take(STRIDE * width),
            upstream_columns: layout.take(STRIDE * value_width),
            query_gradients: layout.take(sums(query.as_ref(), BLOCK, width)),
            probabilities: layout.take(KEYS * STRIDE),
            scores: layout.take(KEYS * STRIDE),
            mask: layout.take(KEYS * QUERIES),
            begun: layout.take(kernel.keys.div_ceil(SPAN)),
            total: layout.total,
        }
    }

    /// # Safety
    /// The buffers are there and nobody else uses them.
    pub(super) unsafe fn backward(&self, pool: &Pool) {
        let Pass::Backward {
            query, key, value, ..
        } = &self.pass
        else {
            return;
        };
        let (kernel, key_heads) = (&self.kernel, self.kernel.key_heads());
        let (heads, threads) = (self.batches() * key_heads, pool.threads());
        let task = |head: usize, scratch| Task {
            batch: head / key_heads,
            key_head: head % key_heads,
            keys: 0..kernel.keys,
            queries: 0..kernel.queries,
            query: None,
            key: None,
            value: None,
            scratch,
            places: self.backward_scratch(),
            queue: RefCell::new(Queue::new()),
        };
        // SAFETY (of all tasks): the caller's promise; each has rows of the results and its
        // worker's scratch memory for itself.
        // Five products if a head is a task. Seven, but evenly shared, if heads are cut along keys
        // for the gradients of those, and along queries. Sums are the same ones in the same order.
        if 5 * heads.div_ceil(threads) * threads <= 7 * heads {
            return self.share(pool, heads, |head, scratch| unsafe {
                self.gradients(&Task {
                    query: query.as_ref(),
                    key: key.as_ref(),
                    value: value.as_ref(),
                    ..task(head, scratch)
                });
            });
        }
        let parts = (4 * threads).div_ceil(heads.max(1));
        if key.is_some() || value.is_some() {
            let each = kernel.keys.div_ceil(parts).max(1).next_multiple_of(KEYS);
            let parts = kernel.keys.div_ceil(each);
            self.share(pool, heads * parts, |index, scratch| unsafe {
                let start = index % parts * each;
                self.gradients(&Task {
                    keys: start..(start + each).min(kernel.keys),
                    key: key.as_ref(),
                    value: value.as_ref(),
                    ..task(index / parts, scratch)
                });
            });
        }
        if query.is_some() {
            let each = kernel
                .queries
                .div_ceil(parts)
                .max(1)
                .next_multiple_of(BLOCK);
            let parts = kernel.queries.div_ceil(each);
            self.share(pool, heads * parts, |index, scratch| unsafe {
                let start = index % parts * each;
                self.gradients(&Task {
                    queries: start..(start + each).min(kernel.queries),
                    query: query.as_ref(),
                    ..task(index / parts, scratch)
                });
            });
        }
    }

    /// The gradients that a task's keys and queries give each other.
    unsafe fn gradients(&self, task: &Task<'_>) {
        let kernel = &self.kernel;
        let heads = task.key_head * kernel.group..(task.key_head + 1) * kernel.group;
        // SAFETY: the caller's promise.
        unsafe {
            let of_keys = self.begin_keys(task);
            if task.keys.len() == kernel.keys {
                self.fetch_keys(task);
            }
            for head in heads {
                for queries in blocks(task.queries.clone(), BLOCK) {
                    let seen = common(&seen(kernel, &queries), &task.keys);
                    if seen.is_empty() && task.query.is_none() {
                        continue;
                    }
                    self.fetch_queries(task, head, queries.end);
                    let mut block = self.begin_queries(task, [task.batch, head], queries);
                    for keys in blocks(task.keys.clone(), KEYS) {
                        if !common(&seen, &keys).is_empty() {
                            self.pair(task, &of_keys, &mut block, &keys);
                        }
                    }
                    self.finish_queries(task, &block);
                }
            }
            self.finish_keys(task, &of_keys);
        }
    }
}
