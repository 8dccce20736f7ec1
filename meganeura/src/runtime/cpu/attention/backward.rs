//! Gradients, from probabilities that are computed again.

use std::ops::Range;

use super::operand::Sums;
use super::{AttentionProgram, KEYS, Layout, PARTS, Pass, Target, blocks};
use crate::runtime::cpu::gemm::tiles::{Left, Rows};
use crate::runtime::cpu::pool::Pool;

/// Where things lie in a worker's scratch memory.
pub(super) struct Scratch {
    /// Panels whose lanes are keys.
    keys: usize,
    values: usize,
    /// Rows of keys, scaled.
    key_rows: usize,
    /// Rows of queries, scaled, and of the output's gradient.
    queries: usize,
    upstream: usize,
    probabilities: usize,
    scores: usize,
    /// Gradients of queries of a task, of keys and of values of a block, if they are rounded
    /// at the end.
    sums: [usize; 3],
    /// Keys of a panel, if they are halves.
    wide: usize,
    pub total: usize,
}

/// What a task works on: one head of keys, and which gradients it adds to.
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

impl<'a> Task<'a> {
    fn at(&self, place: usize) -> *mut f32 {
        self.scratch.wrapping_add(place)
    }

    /// The gradients of a block of keys.
    fn key_sums(&self, keys: &Range<usize>) -> Option<Sums<'a>> {
        let room = self.at(self.places.sums[1]);
        let sums = |target: &'a Target| target.sums([self.batch, self.key_head], keys, room);
        self.key.map(sums)
    }

    /// The gradients of a block of values.
    fn value_sums(&self, keys: &Range<usize>) -> Option<Sums<'a>> {
        let room = self.at(self.places.sums[2]);
        let sums = |target: &'a Target| target.sums([self.batch, self.key_head], keys, room);
        self.value.map(sums)
    }
}

impl AttentionProgram {
    pub(super) fn backward_scratch(&self) -> Scratch {
        let (mut layout, kernel) = (Layout::default(), &self.kernel);
        let panels = KEYS.next_multiple_of(self.tiles.panel());
        let [width, value_width] =
            [kernel.width, kernel.value_width].map(|width| self.tiles.padded(width));
        let targets = match &self.pass {
            Pass::Backward {
                query, key, value, ..
            } => [query, key, value].map(Option::as_ref),
            Pass::Forward { .. } => [None; 3],
        };
        let rows = [kernel.queries * kernel.group, KEYS, KEYS];
        let room = |index: usize| targets[index].map_or(0, |target| target.room(rows[index]));
        Scratch {
            keys: layout.take(panels * kernel.width),
            values: layout.take(panels * kernel.value_width),
            key_rows: layout.take(KEYS * width),
            queries: layout.take(self.block * width),
            upstream: layout.take(self.block * value_width),
            probabilities: layout.take(self.block * panels),
            scores: layout.take(self.block * panels),
            sums: [0, 1, 2].map(|index| layout.take(room(index))),
            wide: layout.take(self.panel_room()),
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
        let (kernel, heads) = (&self.kernel, self.kernel.key_heads());
        let task = |head: usize, scratch| Task {
            batch: head / heads,
            key_head: head % heads,
            keys: 0..kernel.keys,
            queries: 0..kernel.queries,
            query: None,
            key: None,
            value: None,
            scratch,
            places: self.backward_scratch(),
        };
        let all = self.batches() * heads;
        // SAFETY (of all tasks): the caller's promise; each has rows of the results and its
        // worker's scratch memory for itself.
        if all >= PARTS {
            return self.share(pool, all, |head, scratch| unsafe {
                let task = Task {
                    query: query.as_ref(),
                    key: key.as_ref(),
                    value: value.as_ref(),
                    ..task(head, scratch)
                };
                self.gradients(&task);
            });
        }
        // Few heads are cut along keys for the gradients of those, and along queries.
        if key.is_some() || value.is_some() {
            let parts = kernel.keys.div_ceil(KEYS).max(1);
            self.share(pool, all * parts, |index, scratch| unsafe {
                let start = index % parts * KEYS;
                let task = Task {
                    key: key.as_ref(),
                    value: value.as_ref(),
                    keys: start..(start + KEYS).min(kernel.keys),
                    ..task(index / parts, scratch)
                };
                self.gradients(&task);
            });
        }
        if query.is_some() {
            let parts = kernel.queries.div_ceil(self.block).max(1);
            self.share(pool, all * parts, |index, scratch| unsafe {
                let start = index % parts * self.block;
                let task = Task {
                    query: query.as_ref(),
                    queries: start..(start + self.block).min(kernel.queries),
                    ..task(index / parts, scratch)
                };
                self.gradients(&task);
            });
        }
    }

    /// The gradients that these keys and queries give each other.
    unsafe fn gradients(&self, task: &Task<'_>) {
        let group = self.kernel.group;
        let heads = task.key_head * group..(task.key_head + 1) * group;
        // SAFETY: the caller's promise.
        unsafe {
            for head in heads.clone() {
                if let Some(sums) = self.query_sums(task, head) {
                    sums.clear();
                }
            }
            for keys in blocks(task.keys.clone(), KEYS) {
                let complete = [task.key_sums(&keys), task.value_sums(&keys)];
                complete.iter().flatten().for_each(|sums| sums.clear());
                let [start, end] = self.seen(&task.queries, &keys);
                if start != end {
                    self.pack_keys(task, &keys);
                    for head in heads.clone() {
                        for queries in blocks(task.queries.clone(), self.block) {
                            let [start, end] = self.seen(&queries, &keys);
                            if start != end {
                                self.pair(task, head, &queries, &keys);
                            }
                        }
                    }
                }
                let complete = complete.iter().flatten();
                complete.for_each(|sums| sums.finish(&self.loops));
            }
            for head in heads {
                if let Some(sums) = self.query_sums(task, head) {
                    sums.finish(&self.loops);
                }
            }
        }
    }

    /// The gradients of a head's queries.
    fn query_sums<'a>(&self, task: &Task<'a>, head: usize) -> Option<Sums<'a>> {
        let target = task.query?;
        let before = head - task.key_head * self.kernel.group;
        let room = task.at(task.places.sums[0]);
        let room = room.wrapping_add(before * task.queries.len() * target.width);
        Some(target.sums([task.batch, head], &task.queries, room))
    }

    unsafe fn pack_keys(&self, task: &Task<'_>, keys: &Range<usize>) {
        let (at, kernel) = ([task.batch, task.key_head], &self.kernel);
        // SAFETY: the caller's promise.
        unsafe {
            let (wide, to) = (task.at(task.places.wide), task.at(task.places.keys));
            self.pack(&self.key, at, keys, (kernel.width, wide), to);
            if let Some(value) = &self.value {
                let to = task.at(task.places.values);
                self.pack(value, at, keys, (kernel.value_width, wide), to);
            }
            if task.query.is_some() {
                let to = (
                    task.at(task.places.key_rows),
                    self.tiles.padded(kernel.width),
                );
                self.copy(&self.key, at, keys, (kernel.width, kernel.scale), to);
            }
        }
    }

    /// A block of queries and a block of keys.
    unsafe fn pair(
        &self,
        task: &Task<'_>,
        head: usize,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let Pass::Backward { upstream, .. } = &self.pass else {
            return;
        };
        let (kernel, at) = (&self.kernel, [task.batch, head]);
        let [width, value_width] = [kernel.width, kernel.value_width];
        let rows_of_queries = (task.at(task.places.queries), self.tiles.padded(width));
        let rows_upstream = (
            task.at(task.places.upstream),
            self.tiles.padded(value_width),
        );
        // SAFETY: the caller's promise.
        unsafe {
            self.copy(
                &self.query,
                at,
                queries,
                (width, kernel.scale),
                rows_of_queries,
            );
            self.copy(upstream, at, queries, (value_width, 1.0), rows_upstream);
            for rows in blocks(queries.clone(), self.tiles.rows()) {
                self.rows(task, head, &rows, queries, keys);
            }
            for tile in blocks(keys.clone(), self.tiles.rows()) {
                self.columns(task, &tile, queries, keys);
            }
        }
    }

    /// Probabilities and gradients of scores of some queries, and the queries' own gradients.
    unsafe fn rows(
        &self,
        task: &Task<'_>,
        head: usize,
        rows: &Range<usize>,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let Pass::Backward {
            normalizer, sums, ..
        } = &self.pass
        else {
            return;
        };
        let kernel = &self.kernel;
        let stride = KEYS.next_multiple_of(self.tiles.panel());
        let [width, value_width] =
            [kernel.width, kernel.value_width].map(|width| self.tiles.padded(width));
        let first = rows.start - queries.start;
        let seen = self.seen(rows, keys);
        // SAFETY: the caller's promise.
        unsafe {
            let [probabilities, scores] = [task.places.probabilities, task.places.scores]
                .map(|place| task.at(place).add(first * stride));
            if seen[0] < seen[1] {
                let left = Left::Rows(task.at(task.places.queries).add(first * width), width);
                let (packed, to) = (task.at(task.places.keys), (probabilities, stride));
                self.scores(left, rows.len(), kernel.width, packed, keys, seen, to);
                let from = task.at(task.places.upstream).add(first * value_width);
                let left = Left::Rows(from, value_width);
                let (packed, to) = (task.at(task.places.values), (scores, stride));
                self.scores(left, rows.len(), kernel.value_width, packed, keys, seen, to);
            }
            for (index, query) in rows.clone().enumerate() {
                let [start, end] = self.seen(&(query..query + 1), keys);
                let (at, count) = (start - keys.start, end - start);
                let [p, s] = [probabilities, scores].map(|row| row.add(index * stride));
                self.masked([task.batch, head, query], start, p.add(at), count);
                let shift = *normalizer.row(task.batch, query, head);
                (self.loops.exponentials)(p.add(at), count, shift);
                let mean = *sums.row(task.batch, query, head);
                (self.loops.centered)(s.add(at), p.add(at), count, mean);
                let [before, after] = self.read_beside(keys, seen, [start, end]);
                for hidden in [before, after]
                    .into_iter()
                    .filter(|hidden| !hidden.is_empty())
                {
                    for row in [p, s] {
                        let row = row.add(hidden.start);
                        std::slice::from_raw_parts_mut(row, hidden.len()).fill(0.0);
                    }
                }
            }
            let sums = self.query_sums(task, head);
            if let Some(sums) = sums.filter(|_| seen[0] < seen[1]) {
                let first = seen[0] - keys.start;
                let right = Rows {
                    from: task.at(task.places.key_rows).add(first * width),
                    stride: width,
                };
                let size = [rows.len(), kernel.width, seen[1] - seen[0]];
                let to = (sums.row(rows.start), sums.stride);
                let left = Left::Rows(scores.add(first), stride);
                self.tiles.multiply(size, left, right, to, true);
            }
        }
    }

    /// What products read of a query's scores beside those of the keys from `start` to `end`
    /// that it sees: as far as other queries of its tile see, and tiles of keys that it sees a
    /// part of.
    fn read_beside(
        &self,
        keys: &Range<usize>,
        seen: [usize; 2],
        [start, end]: [usize; 2],
    ) -> [Range<usize>; 2] {
        let [start, end] = [start, end].map(|key| key - keys.start);
        if start == end {
            return [0..keys.len(), 0..0];
        }
        let tile = self.tiles.rows();
        let first = (start / tile * tile).min(seen[0] - keys.start);
        let last = end.next_multiple_of(tile).max(seen[1] - keys.start);
        [first..start, end..last.min(keys.len())]
    }

    /// The gradients of some keys and values, from the queries of a block that see them.
    unsafe fn columns(
        &self,
        task: &Task<'_>,
        tile: &Range<usize>,
        queries: &Range<usize>,
        keys: &Range<usize>,
    ) {
        let stride = KEYS.next_multiple_of(self.tiles.panel());
        let start = self.kernel.seeing(tile.start).start.max(queries.start);
        let end = self.kernel.seeing(tile.end - 1).end.min(queries.end);
        if start >= end {
            return;
        }
        let first = start - queries.start;
        let places = &task.places;
        let products = [
            (task.key_sums(keys), places.scores, places.queries),
            (task.value_sums(keys), places.probabilities, places.upstream),
        ];
        for (sums, left, right) in products {
            let Some(sums) = sums else { continue };
            let width = self.tiles.padded(sums.width());
            // SAFETY: the caller's promise.
            unsafe {
                let at = task.at(left).add(first * stride + tile.start - keys.start);
                let right = Rows {
                    from: task.at(right).add(first * width),
                    stride: width,
                };
                let size = [tile.len(), sums.width(), end - start];
                let to = (sums.row(tile.start), sums.stride);
                self.tiles
                    .multiply(size, Left::Columns(at, stride), right, to, true);
            }
        }
    }
}
