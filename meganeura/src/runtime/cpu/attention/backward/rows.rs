//! Rows that products read and write, where they lie or copied, and what belongs to a query.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::super::operand::{Matrix, Operand, Target};
use super::super::sight::{common, seen};
use super::super::{AttentionProgram, Pass, blocks};
use super::{BLOCK, Block, Keys, STRIDE, TILES, Task, whole_tiles};
use crate::runtime::cpu::gemm::tiles::SPAN;
use crate::runtime::cpu::vector::softmax::{Numbers, QUERIES};

impl AttentionProgram {
    /// Keys and values, and where their gradients are added up.
    pub(super) unsafe fn begin_keys(&self, task: &Task<'_>) -> Keys {
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
    pub(super) unsafe fn begin_queries(
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

    /// Completes the gradients of a block of queries.
    pub(super) unsafe fn finish_queries(&self, task: &Task<'_>, block: &Block) {
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
    pub(super) unsafe fn finish_keys(&self, task: &Task<'_>, of_keys: &Keys) {
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
