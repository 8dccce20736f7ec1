//! The five products of a block of queries and a block of keys, and what is between them.

use std::ops::Range;

use super::super::sight::{Sight, common, seeing, seen};
use super::super::{AttentionProgram, KEYS, blocks};
use super::{Block, Keys, STRIDE, Task, whole_tiles};
use crate::runtime::cpu::gemm::tiles::{Left, SPAN, Span};
use crate::runtime::cpu::vector::softmax::{QUERIES, Tile};

impl AttentionProgram {
    /// A block of queries and a block of keys.
    pub(super) unsafe fn pair(
        &self,
        task: &Task<'_>,
        of_keys: &Keys,
        block: &mut Block,
        keys: &Range<usize>,
    ) {
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
}
