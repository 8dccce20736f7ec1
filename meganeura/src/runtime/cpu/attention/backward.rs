//! Gradients, from probabilities that are computed again.

use std::f32::consts::{LN_2, LOG2_E};
use std::ops::Range;

use super::operand::Target;
use super::sight::{Sight, common, seeing, seen};
use super::{AttentionProgram, HALF, KEYS, Layout, Pass, blocks};
use crate::runtime::cpu::gemm::tiles::{Left, Rows};
use crate::runtime::cpu::pool::Pool;
use crate::runtime::cpu::vector::softmax::{Numbers, QUERIES, Tile};

/// Queries of a block: as deep are the products that make the gradients of keys and values.
const BLOCK: usize = 128;
/// From one key's probabilities to the next, an odd number of cache lines.
const STRIDE: usize = BLOCK + QUERIES;
/// Tiles of a block.
const TILES: usize = BLOCK / QUERIES;

/// Where things lie in a worker's scratch memory.
pub(super) struct Scratch {
    /// Rows of a head's keys, scaled, and values, and of their gradients.
    keys: usize,
    values: usize,
    key_gradients: usize,
    value_gradients: usize,
    /// Rows of a block's queries and of the output's gradient, and transposes of both by tiles.
    queries: usize,
    upstream: usize,
    query_columns: usize,
    upstream_columns: usize,
    query_gradients: usize,
    probabilities: usize,
    scores: usize,
    mask: usize,
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
}

impl Task<'_> {
    fn place(&self, place: usize) -> *mut f32 {
        self.scratch.wrapping_add(place)
    }
}

/// A block of queries of a head.
struct Block {
    at: [usize; 2],
    queries: Range<usize>,
    /// Normalizers, to the base 2.
    shifts: [Numbers; TILES],
    means: [Numbers; TILES],
}

/// The tiles of keys that some keys lie in.
fn whole_tiles(some: &Range<usize>, keys: &Range<usize>) -> Range<usize> {
    let [start, end] = [some.start - keys.start, some.end - keys.start];
    let end = end.next_multiple_of(HALF).min(keys.len());
    keys.start + start / HALF * HALF..keys.start + end
}

impl AttentionProgram {
    pub(super) fn backward_scratch(&self) -> Scratch {
        let (mut layout, kernel) = (Layout::default(), &self.kernel);
        let [width, value_width] = self.padded();
        Scratch {
            keys: layout.take(kernel.keys * width),
            values: layout.take(kernel.keys * value_width),
            key_gradients: layout.take(kernel.keys * width),
            value_gradients: layout.take(kernel.keys * value_width),
            queries: layout.take(BLOCK * width),
            upstream: layout.take(BLOCK * value_width),
            query_columns: layout.take(BLOCK * kernel.width),
            upstream_columns: layout.take(BLOCK * kernel.value_width),
            query_gradients: layout.take(BLOCK * width),
            probabilities: layout.take(KEYS * STRIDE),
            scores: layout.take(KEYS * STRIDE),
            mask: layout.take(KEYS * QUERIES),
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
            self.begin_keys(task);
            for head in heads {
                for queries in blocks(task.queries.clone(), BLOCK) {
                    let seen = common(&seen(kernel, &queries), &task.keys);
                    if seen.is_empty() && task.query.is_none() {
                        continue;
                    }
                    let block = self.begin_queries(task, [task.batch, head], queries);
                    for keys in blocks(task.keys.clone(), KEYS) {
                        if !common(&seen, &keys).is_empty() {
                            self.pair(task, &block, &keys);
                        }
                    }
                    self.finish_queries(task, &block);
                }
            }
            self.finish_keys(task);
        }
    }

    /// Copies keys and values; their gradients begin at 0.
    unsafe fn begin_keys(&self, task: &Task<'_>) {
        let (at, kernel, places) = ([task.batch, task.key_head], &self.kernel, &task.places);
        let [width, value_width] = self.padded();
        // SAFETY: the caller's promise.
        unsafe {
            let keys = common(&seen(kernel, &task.queries), &task.keys);
            let keys = whole_tiles(&keys, &task.keys);
            let first = keys.start - task.keys.start;
            let to = (task.place(places.keys).add(first * width), width);
            let columns = (kernel.width, self.factor());
            self.key.copy(&self.loops, at, &keys, columns, to);
            if let Some(value) = &self.value {
                let to = task.place(places.values).add(first * value_width);
                let columns = (kernel.value_width, 1.0);
                value.copy(&self.loops, at, &keys, columns, (to, value_width));
            }
            for (target, place, width) in [
                (task.key, places.key_gradients, width),
                (task.value, places.value_gradients, value_width),
            ] {
                if target.is_some() {
                    let count = task.keys.len() * width;
                    std::slice::from_raw_parts_mut(task.place(place), count).fill(0.0);
                }
            }
        }
    }

    /// Copies what belongs to a block of queries, and turns it.
    unsafe fn begin_queries(
        &self,
        task: &Task<'_>,
        at: [usize; 2],
        queries: Range<usize>,
    ) -> Block {
        let mut block = Block {
            at,
            queries,
            shifts: [Numbers([0.0; QUERIES]); TILES],
            means: [Numbers([0.0; QUERIES]); TILES],
        };
        let Pass::Backward {
            upstream,
            normalizer,
            sums,
            ..
        } = &self.pass
        else {
            return block;
        };
        let (kernel, places) = (&self.kernel, &task.places);
        let [width, value_width] = self.padded();
        let tiles = blocks(block.queries.clone(), QUERIES).enumerate();
        // SAFETY: the caller's promise.
        unsafe {
            for (index, tile) in tiles {
                for (operand, columns, width, rows, turned) in [
                    (
                        &self.query,
                        kernel.width,
                        width,
                        places.queries,
                        places.query_columns,
                    ),
                    (
                        upstream,
                        kernel.value_width,
                        value_width,
                        places.upstream,
                        places.upstream_columns,
                    ),
                ] {
                    let rows = task.place(rows).add(index * QUERIES * width);
                    let turned = task.place(turned).add(index * QUERIES * columns);
                    self.turn(operand, at, &tile, columns, rows, turned);
                }
                let lanes = block.shifts[index].0.iter_mut();
                for (lane, normalizer) in lanes.zip(normalizer.numbers(at, &tile)) {
                    *lane = normalizer * LOG2_E;
                }
                let lanes = block.means[index].0.iter_mut();
                for (lane, sum) in lanes.zip(sums.numbers(at, &tile)) {
                    *lane = sum;
                }
            }
            if task.query.is_some() {
                let to = task.place(places.query_gradients);
                std::slice::from_raw_parts_mut(to, block.queries.len() * width).fill(0.0);
            }
        }
        block
    }

    /// A block of queries and a block of keys.
    unsafe fn pair(&self, task: &Task<'_>, block: &Block, keys: &Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            for (index, queries) in blocks(block.queries.clone(), QUERIES).enumerate() {
                self.probabilities(task, block, index, &queries, keys);
                if task.query.is_some() {
                    for half in blocks(queries, HALF) {
                        self.add_to_queries(task, block, &half, keys);
                    }
                }
            }
            if task.key.is_some() || task.value.is_some() {
                for tile in blocks(keys.clone(), HALF) {
                    self.add_to_keys(task, block, &tile, keys);
                }
            }
        }
    }

    /// Probabilities and gradients of scores of a tile of queries.
    unsafe fn probabilities(
        &self,
        task: &Task<'_>,
        block: &Block,
        index: usize,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let (kernel, places) = (&self.kernel, &task.places);
        let sight = Sight::new(kernel, queries);
        let seen = common(&sight.some, keys);
        if seen.is_empty() {
            return;
        }
        // As products over queries read them.
        let seen = whole_tiles(&seen, keys);
        let start = seen.start - keys.start;
        let (first, lane) = (seen.start - task.keys.start, index * QUERIES);
        let [width, value_width] = self.padded();
        // SAFETY: the caller's promise.
        unsafe {
            let tile = |place| Tile {
                start: task.place(place).add(start * STRIDE + lane),
                stride: STRIDE,
                keys: seen.len(),
            };
            let (p, x) = (tile(places.probabilities), tile(places.scores));
            let from = task.place(places.keys).add(first * width);
            let columns = task.place(places.query_columns).add(lane * kernel.width);
            self.scores((from, kernel.width), columns, p);
            let from = task.place(places.values).add(first * value_width);
            let columns = task.place(places.upstream_columns);
            let columns = columns.add(lane * kernel.value_width);
            self.scores((from, kernel.value_width), columns, x);
            self.mask(block.at, queries, &seen, task.place(places.mask), p);
            sight.hide(&self.loops, p, &seen);
            let (shift, mean) = (&block.shifts[index], &block.means[index]);
            (self.loops.gradients)(p, x.start, shift, mean);
        }
    }

    /// The gradients of some queries from the keys of a block that they see.
    unsafe fn add_to_queries(
        &self,
        task: &Task<'_>,
        block: &Block,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let (kernel, places) = (&self.kernel, &task.places);
        let seen = common(&seen(kernel, queries), keys);
        if seen.is_empty() {
            return;
        }
        let (width, lane) = (self.padded()[0], queries.start - block.queries.start);
        let size = [queries.len(), kernel.width, seen.len()];
        // SAFETY: the caller's promise.
        unsafe {
            let left = task.place(places.scores);
            let left = left.add((seen.start - keys.start) * STRIDE + lane);
            let first = seen.start - task.keys.start;
            let right = Rows {
                from: task.place(places.keys).add(first * width),
                stride: width,
            };
            let to = (task.place(places.query_gradients).add(lane * width), width);
            let left = Left::Columns(left, STRIDE);
            self.tiles.multiply(size, left, right, to, true);
        }
    }

    /// The gradients of some keys and values, from the queries of a block that see them.
    unsafe fn add_to_keys(
        &self,
        task: &Task<'_>,
        block: &Block,
        tile: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let (kernel, places) = (&self.kernel, &task.places);
        let queries = common(&seeing(kernel, tile), &block.queries);
        if queries.is_empty() {
            return;
        }
        let first = queries.start - block.queries.start;
        let (from, to) = (tile.start - keys.start, tile.start - task.keys.start);
        let [width, value_width] = self.padded();
        let products = [
            (
                task.key.is_some(),
                [places.scores, places.queries, places.key_gradients],
                [kernel.width, width],
            ),
            (
                task.value.is_some(),
                [
                    places.probabilities,
                    places.upstream,
                    places.value_gradients,
                ],
                [kernel.value_width, value_width],
            ),
        ];
        for (_, [left, right, target], [columns, width]) in
            products.into_iter().filter(|(wanted, ..)| *wanted)
        {
            let size = [tile.len(), columns, queries.len()];
            // SAFETY: the caller's promise.
            unsafe {
                let left = Left::Rows(task.place(left).add(from * STRIDE + first), STRIDE);
                let right = Rows {
                    from: task.place(right).add(first * width),
                    stride: width,
                };
                let to = (task.place(target).add(to * width), width);
                self.tiles.multiply(size, left, right, to, true);
            }
        }
    }

    /// Writes the gradients of a block of queries.
    unsafe fn finish_queries(&self, task: &Task<'_>, block: &Block) {
        let Some(target) = task.query else { return };
        let from = task.place(task.places.query_gradients).cast_const();
        // The keys were scaled, to the base 2.
        let from = (from, self.padded()[0], LN_2);
        // SAFETY: the caller's promise.
        unsafe { target.store(&self.loops, block.at, &block.queries, from) };
    }

    /// Writes the gradients of keys and values.
    unsafe fn finish_keys(&self, task: &Task<'_>) {
        let (at, places) = ([task.batch, task.key_head], &task.places);
        let [width, value_width] = self.padded();
        for (target, place, width, factor) in [
            (task.key, places.key_gradients, width, self.kernel.scale),
            (task.value, places.value_gradients, value_width, 1.0),
        ] {
            let Some(target) = target else { continue };
            let from = (task.place(place).cast_const(), width, factor);
            // SAFETY: the caller's promise.
            unsafe { target.store(&self.loops, at, &task.keys, from) };
        }
    }
}
