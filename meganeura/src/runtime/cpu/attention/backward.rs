//! Gradients, from probabilities that are computed again.

use std::cell::RefCell;
use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::operand::{Matrix, Operand, Target};
use super::sight::{Sight, common, seeing, seen};
use super::{AHEAD, AttentionProgram, KEYS, Layout, Pass, blocks};
use crate::runtime::cpu::gemm::tiles::{Left, Queue, SPAN, Span};
use crate::runtime::cpu::pool::Pool;
use crate::runtime::cpu::vector::softmax::{Numbers, QUERIES, Tile};

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

    /// The batch and the head of keys after a task's.
    fn next_keys(&self, task: &Task<'_>) -> Option<[usize; 2]> {
        let heads = self.kernel.key_heads();
        let next = task.batch * heads + task.key_head + 1;
        (next < self.batches() * heads).then_some([next / heads, next % heads])
    }

    /// Fetches what the next head has of keys meanwhile.
    fn fetch_keys(&self, task: &Task<'_>) {
        let Some(at) = self.next_keys(task) else {
            return;
        };
        let (kernel, mut queue) = (&self.kernel, task.queue.borrow_mut());
        let keys = 0..kernel.keys.min(AHEAD);
        queue.push(self.key.soon(at, keys.clone(), kernel.width));
        if let Some(value) = &self.value {
            queue.push(value.soon(at, keys.clone(), kernel.value_width));
        }
        for target in [task.key, task.value].into_iter().flatten() {
            queue.push(target.soon(at, keys.clone()));
        }
    }

    /// Fetches what the next block has of queries, of a head or the one after it.
    fn fetch_queries(&self, task: &Task<'_>, head: usize, first: usize) {
        let kernel = &self.kernel;
        let (at, first) = if first < task.queries.end {
            ([task.batch, head], first)
        } else if head % kernel.group + 1 < kernel.group {
            ([task.batch, head + 1], task.queries.start)
        } else if let Some([batch, key_head]) = self.next_keys(task) {
            ([batch, key_head * kernel.group], task.queries.start)
        } else {
            return;
        };
        let queries = first..(first + BLOCK).min(task.queries.end);
        let mut queue = task.queue.borrow_mut();
        if let Some(target) = task.query {
            queue.push(target.soon(at, queries.clone()));
        }
        if let Pass::Backward { upstream, .. } = &self.pass {
            queue.push(upstream.soon(at, queries.clone(), kernel.value_width));
        }
        queue.push(self.query.soon(at, queries, kernel.width));
    }

    /// Keys and values, and where their gradients are added up.
    unsafe fn begin_keys(&self, task: &Task<'_>) -> Keys {
        let (at, kernel, places) = ([task.batch, task.key_head], &self.kernel, &task.places);
        // SAFETY: the caller's promise.
        unsafe {
            let seen = common(&seen(kernel, &task.queries), &task.keys);
            let seen = whole_tiles(&seen, &task.keys);
            let first = seen.start - task.keys.start;
            // As if there were copies of the first keys, too.
            let rows = |operand: &Operand, width, place| {
                let to = task.place(place);
                let to = to.add(first * self.tiles.padded(width));
                let rows = self.rows(operand, at, &seen, width, to);
                let start = rows.from.wrapping_sub(first * rows.stride);
                Matrix {
                    from: start,
                    ..rows
                }
            };
            let keys = rows(&self.key, kernel.width, places.keys);
            task.place(places.begun)
                .write_bytes(0, task.keys.len().div_ceil(SPAN));
            let [width, value_width] = self.padded();
            let gradients = |target: Option<&Target>, place, stride| {
                let from = task.place(place);
                target.map(|target| target.rows(at, task.keys.start, Matrix { from, stride }))
            };
            Keys {
                rows: keys,
                values: self
                    .value
                    .as_ref()
                    .map_or(keys, |value| rows(value, kernel.value_width, places.values)),
                gradients: gradients(task.key, places.key_gradients, width),
                value_gradients: gradients(task.value, places.value_gradients, value_width),
            }
        }
    }

    /// What belongs to a block of queries.
    unsafe fn begin_queries(
        &self,
        task: &Task<'_>,
        at: [usize; 2],
        queries: Range<usize>,
    ) -> Block {
        let (kernel, places) = (&self.kernel, &task.places);
        let (width, value_width) = (kernel.width, kernel.value_width);
        let from = task.place(places.query_gradients);
        let stride = self.padded()[0];
        let gradients = task
            .query
            .map(|target| target.rows(at, queries.start, Matrix { from, stride }));
        // SAFETY: the caller's promise.
        unsafe {
            let to = task.place(places.queries);
            let rows = self.rows(&self.query, at, &queries, width, to);
            let mut block = Block {
                at,
                queries,
                rows,
                upstream: rows,
                gradients,
                begun: [false; BLOCK / SPAN],
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
            let to = task.place(places.upstream);
            block.upstream = self.rows(upstream, at, &block.queries, value_width, to);
            for (index, tile) in blocks(block.queries.clone(), QUERIES).enumerate() {
                let lane = index * QUERIES;
                // Gradients of scores are those of products of queries and keys, times the scale.
                for (rows, factor, width, turned) in [
                    (block.rows, self.factor(), width, places.query_columns),
                    (
                        block.upstream,
                        kernel.scale,
                        value_width,
                        places.upstream_columns,
                    ),
                ] {
                    let turned = (task.place(turned).add(lane), STRIDE);
                    self.turn((rows.skip(lane), factor), [tile.len(), width], turned);
                }
                let lanes = block.shifts[index].0.iter_mut();
                for (lane, normalizer) in lanes.zip(normalizer.numbers(at, &tile)) {
                    *lane = normalizer * LOG2_E;
                }
                let lanes = block.means[index].0.iter_mut();
                for (lane, sum) in lanes.zip(sums.numbers(at, &tile)) {
                    *lane = sum * kernel.scale;
                }
            }
            block
        }
    }

    /// A block of queries and a block of keys.
    unsafe fn pair(&self, task: &Task<'_>, of_keys: &Keys, block: &mut Block, keys: &Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            for queries in blocks(block.queries.clone(), 2 * QUERIES) {
                self.products(task, of_keys, block, &queries, keys);
                for tile in blocks(queries.clone(), QUERIES) {
                    self.probabilities(task, block, &tile, keys);
                }
                self.add_to_queries(task, of_keys, block, &queries, keys);
            }
            if task.key.is_some() || task.value.is_some() {
                self.add_to_keys(task, of_keys, block, keys);
            }
        }
    }

    /// The keys of a block that some queries see, in whole tiles as products over queries read them.
    fn seen_tiles(&self, queries: &Range<usize>, keys: &Range<usize>) -> Range<usize> {
        let seen = common(&seen(&self.kernel, queries), keys);
        match seen.is_empty() {
            true => keys.start..keys.start,
            false => whole_tiles(&seen, keys),
        }
    }

    /// Scores, and gradients of probabilities, of two tiles of queries: together where both see keys.
    unsafe fn products(
        &self,
        task: &Task<'_>,
        of_keys: &Keys,
        block: &Block,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let (kernel, places) = (&self.kernel, &task.places);
        let first_lane = queries.start - block.queries.start;
        let product = |some: Range<usize>, lane: usize, lanes: usize| {
            if some.is_empty() {
                return;
            }
            let (start, lane) = (some.start - keys.start, first_lane + lane);
            let first = some.start - task.keys.start;
            for (rows, width, columns, place) in [
                (
                    of_keys.rows,
                    kernel.width,
                    places.query_columns,
                    places.probabilities,
                ),
                (
                    of_keys.values,
                    kernel.value_width,
                    places.upstream_columns,
                    places.scores,
                ),
            ] {
                let columns = task.place(columns).wrapping_add(lane).cast_const();
                let tile = Tile {
                    start: task.place(place).wrapping_add(start * STRIDE + lane),
                    stride: STRIDE,
                    keys: some.len(),
                };
                let rows = (rows.skip(first), width);
                // SAFETY: the caller's promise.
                unsafe { self.scores(rows, (columns, STRIDE), (tile, lanes), &task.queue) };
            }
        };
        let mut tiles = blocks(queries.clone(), QUERIES).map(|tile| self.seen_tiles(&tile, keys));
        match (tiles.next(), tiles.next()) {
            (Some(one), Some(other)) => {
                let both = common(&one, &other);
                if both.is_empty() {
                    product(one, 0, QUERIES);
                    return product(other, QUERIES, QUERIES);
                }
                for (tile, lane) in [(one, 0), (other, QUERIES)] {
                    product(tile.start..both.start, lane, QUERIES);
                    product(both.end..tile.end, lane, QUERIES);
                }
                product(both, 0, 2 * QUERIES);
            }
            (Some(one), None) => product(one, 0, QUERIES),
            _ => {}
        }
    }

    /// Probabilities and gradients of scores of a tile of queries, from its products.
    unsafe fn probabilities(
        &self,
        task: &Task<'_>,
        block: &Block,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let places = &task.places;
        let seen = self.seen_tiles(queries, keys);
        if seen.is_empty() {
            return;
        }
        let (start, lane) = (seen.start - keys.start, queries.start - block.queries.start);
        let (shift, mean) = (&block.shifts[lane / QUERIES], &block.means[lane / QUERIES]);
        // SAFETY: the caller's promise.
        unsafe {
            let tile = |place| Tile {
                start: task.place(place).add(start * STRIDE + lane),
                stride: STRIDE,
                keys: seen.len(),
            };
            let (p, x) = (tile(places.probabilities), tile(places.scores));
            self.mask(block.at, queries, &seen, task.place(places.mask), p);
            Sight::new(&self.kernel, queries).hide(&self.loops, p, &seen);
            (self.loops.gradients)(p, x.start, shift, mean);
        }
    }

    /// The gradients of some queries from the keys of a block that they see.
    unsafe fn add_to_queries(
        &self,
        task: &Task<'_>,
        of_keys: &Keys,
        block: &mut Block,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let Some(gradients) = block.gradients else {
            return;
        };
        let (lane, key) = (
            queries.start - block.queries.start,
            keys.start - task.keys.start,
        );
        let mut spans = [Span::default(); 2 * QUERIES / SPAN];
        let (mut tiles, mut some) = (0, false);
        for (span, half) in spans.iter_mut().zip(blocks(queries.clone(), SPAN)) {
            let seen = common(&seen(&self.kernel, &half), keys);
            *span = Span {
                first: seen.start - keys.start,
                count: seen.len(),
                accumulate: block.begun[lane / SPAN + tiles],
            };
            some |= !seen.is_empty();
            tiles += 1;
        }
        if !some {
            return;
        }
        block.begun[lane / SPAN..lane / SPAN + tiles].fill(true);
        let left = task.place(task.places.scores).wrapping_add(lane);
        let left = Left::Columns(left, STRIDE);
        let right = of_keys.rows.right(key);
        let size = [queries.len(), self.kernel.width];
        let to = (gradients.row(lane), gradients.stride);
        // SAFETY: the caller's promise.
        unsafe {
            self.tiles
                .multiply_each(size, &spans[..tiles], left, right, to, &task.queue);
        }
    }

    /// The gradients of some keys and values, from the queries of a block that see them.
    unsafe fn add_to_keys(
        &self,
        task: &Task<'_>,
        of_keys: &Keys,
        block: &Block,
        keys: &Range<usize>,
    ) {
        let (kernel, places) = (&self.kernel, &task.places);
        let first = keys.start - task.keys.start;
        let begun = task.place(places.begun).wrapping_add(first / SPAN);
        let mut spans = [Span::default(); KEYS / SPAN];
        let (mut tiles, mut some) = (0, false);
        for (span, tile) in spans.iter_mut().zip(blocks(keys.clone(), SPAN)) {
            let queries = common(&seeing(kernel, &tile), &block.queries);
            *span = Span {
                first: queries.start - block.queries.start,
                count: queries.len(),
                // SAFETY: there is one for each tile.
                accumulate: unsafe { *begun.add(tiles) } != 0.0,
            };
            some |= !queries.is_empty();
            tiles += 1;
        }
        if !some {
            return;
        }
        let products = [
            (of_keys.gradients, places.scores, block.rows, kernel.width),
            (
                of_keys.value_gradients,
                places.probabilities,
                block.upstream,
                kernel.value_width,
            ),
        ];
        for (gradients, left, right, columns) in products {
            let Some(gradients) = gradients else { continue };
            let left = Left::Rows(task.place(left), STRIDE);
            let to = (gradients.row(first), gradients.stride);
            let (size, right) = ([keys.len(), columns], right.right(0));
            // SAFETY: the caller's promise.
            unsafe {
                self.tiles
                    .multiply_each(size, &spans[..tiles], left, right, to, &task.queue);
            }
        }
        for tile in 0..tiles {
            // SAFETY: there is one for each tile.
            unsafe { *begun.add(tile) = 1.0 };
        }
    }

    /// Completes the gradients of a block of queries.
    unsafe fn finish_queries(&self, task: &Task<'_>, block: &Block) {
        let (Some(target), Some(gradients)) = (task.query, block.gradients) else {
            return;
        };
        // SAFETY: the caller's promise.
        unsafe {
            for (rows, begun) in blocks(0..block.queries.len(), SPAN).zip(block.begun) {
                if !begun {
                    gradients.clear(rows, self.kernel.width);
                }
            }
            target.store(&self.loops, block.at, &block.queries, gradients);
        }
    }

    /// Completes the gradients of keys and values.
    unsafe fn finish_keys(&self, task: &Task<'_>, of_keys: &Keys) {
        let at = [task.batch, task.key_head];
        for (target, gradients, width) in [
            (task.key, of_keys.gradients, self.kernel.width),
            (task.value, of_keys.value_gradients, self.kernel.value_width),
        ] {
            let (Some(target), Some(gradients)) = (target, gradients) else {
                continue;
            };
            // SAFETY: the caller's promise.
            unsafe {
                for (index, rows) in blocks(0..task.keys.len(), SPAN).enumerate() {
                    if *task.place(task.places.begun).add(index) == 0.0 {
                        gradients.clear(rows, width);
                    }
                }
                target.store(&self.loops, at, &task.keys, gradients);
            }
        }
    }
}
