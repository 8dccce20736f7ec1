//! Mixed values and normalizers, with the online softmax.

use std::ops::Range;

use super::operand::Sums;
use super::{AttentionProgram, KEYS, Layout, PARTS, Pass, Target, blocks};
use crate::runtime::cpu::gemm::tiles::{Left, Rows};
use crate::runtime::cpu::pool::Pool;

/// Where things lie in a worker's scratch memory.
pub(super) struct Scratch {
    keys: usize,
    values: usize,
    queries: usize,
    scores: usize,
    /// The largest score so far and the sum of exponentials of each query of a task.
    largest: usize,
    sums: usize,
    /// Mixed values, if they are rounded at the end.
    mixed: usize,
    /// Keys of a panel, if they are halves.
    wide: usize,
    pub total: usize,
}

/// What a task works on.
struct Task<'a> {
    batch: usize,
    head: usize,
    queries: Range<usize>,
    output: Option<Sums<'a>>,
    scratch: *mut f32,
    places: Scratch,
}

impl Task<'_> {
    fn at(&self, place: usize) -> *mut f32 {
        self.scratch.wrapping_add(place)
    }
}

impl AttentionProgram {
    /// Queries of a task: all of a head, unless there are few heads.
    fn queries_of_task(&self) -> usize {
        let heads = (self.batches() * self.kernel.heads).max(1);
        let parts = PARTS.div_ceil(heads);
        self.kernel
            .queries
            .div_ceil(parts)
            .next_multiple_of(self.block)
            .max(1)
    }

    pub(super) fn forward_scratch(&self) -> Scratch {
        let (mut layout, kernel) = (Layout::default(), &self.kernel);
        let panels = KEYS.next_multiple_of(self.tiles.panel());
        let queries = self.queries_of_task().min(kernel.queries);
        let mixed = match &self.pass {
            Pass::Forward {
                output: Some(output),
                ..
            } => output.room(queries),
            _ => 0,
        };
        Scratch {
            keys: layout.take(panels * kernel.width),
            values: layout.take(KEYS * self.tiles.padded(kernel.value_width)),
            queries: layout.take(self.block * kernel.width),
            scores: layout.take(self.block * panels),
            largest: layout.take(queries),
            sums: layout.take(queries),
            mixed: layout.take(mixed),
            wide: layout.take(self.panel_room()),
            total: layout.total,
        }
    }

    /// # Safety
    /// The buffers are there and nobody else uses them.
    pub(super) unsafe fn forward(
        &self,
        pool: &Pool,
        output: Option<&Target>,
        normalizer: Option<&Target>,
    ) {
        let each = self.queries_of_task();
        let parts = self.kernel.queries.div_ceil(each);
        let tasks = self.batches() * self.kernel.heads * parts;
        self.share(pool, tasks, |task, scratch| {
            let (head, part) = (task / parts, task % parts);
            let start = part * each;
            let (batch, head) = (head / self.kernel.heads, head % self.kernel.heads);
            let queries = start..(start + each).min(self.kernel.queries);
            let places = self.forward_scratch();
            let mixed = scratch.wrapping_add(places.mixed);
            let task = Task {
                batch,
                head,
                output: output.map(|output| output.sums([batch, head], &queries, mixed)),
                queries,
                scratch,
                places,
            };
            // SAFETY: the caller's promise; a task has its own rows of the results and its
            // worker's scratch memory.
            unsafe {
                self.mix(&task);
                self.finish(&task, normalizer);
            }
        });
    }

    unsafe fn mix(&self, task: &Task<'_>) {
        let count = task.queries.len();
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(output) = &task.output {
                output.clear();
            }
            let (largest, sums) = (task.at(task.places.largest), task.at(task.places.sums));
            std::slice::from_raw_parts_mut(largest, count).fill(f32::NEG_INFINITY);
            std::slice::from_raw_parts_mut(sums, count).fill(0.0);
            for keys in blocks(0..self.kernel.keys, KEYS) {
                let [start, end] = self.seen(&task.queries, &keys);
                if start == end {
                    continue;
                }
                self.pack_block(task, &keys);
                for queries in blocks(task.queries.clone(), self.block) {
                    self.meet(task, &queries, &keys);
                }
            }
        }
    }

    unsafe fn pack_block(&self, task: &Task<'_>, keys: &Range<usize>) {
        let at = [task.batch, task.head / self.kernel.group];
        // SAFETY: the caller's promise.
        unsafe {
            let to = task.at(task.places.keys);
            let wide = task.at(task.places.wide);
            self.pack(&self.key, at, keys, (self.kernel.width, wide), to);
            if let (Some(value), Some(_)) = (&self.value, &task.output) {
                let width = self.kernel.value_width;
                let to = (task.at(task.places.values), self.tiles.padded(width));
                self.copy(value, at, keys, (width, 1.0), to);
            }
        }
    }

    /// A block of queries meets a block of keys.
    unsafe fn meet(&self, task: &Task<'_>, queries: &Range<usize>, keys: &Range<usize>) {
        let [start, end] = self.seen(queries, keys);
        if start == end {
            return;
        }
        let (width, scale) = (self.kernel.width, self.kernel.scale);
        let (from, at) = (task.at(task.places.queries), [task.batch, task.head]);
        let stride = KEYS.next_multiple_of(self.tiles.panel());
        let scores = task.at(task.places.scores);
        // SAFETY: the caller's promise.
        unsafe {
            self.copy(&self.query, at, queries, (width, scale), (from, width));
            for rows in blocks(queries.clone(), self.tiles.rows()) {
                let seen = self.seen(&rows, keys);
                if seen[0] == seen[1] {
                    continue;
                }
                let first = rows.start - queries.start;
                let left = Left::Rows(from.add(first * width), width);
                let packed = task.at(task.places.keys);
                self.scores(
                    left,
                    rows.len(),
                    width,
                    packed,
                    keys,
                    seen,
                    (scores, stride),
                );
                self.soften(task, &rows, keys, seen, (scores, stride));
                self.add_values(task, &rows, keys, seen, (scores, stride));
            }
        }
    }

    /// Products of rows with packed keys (or values) for at least the keys `seen`, each row at
    /// `stride` from the block's first key on.
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn scores(
        &self,
        left: Left,
        rows: usize,
        width: usize,
        packed: *const f32,
        keys: &Range<usize>,
        [start, end]: [usize; 2],
        (to, stride): (*mut f32, usize),
    ) {
        let panel = self.tiles.panel();
        let first = (start - keys.start) / panel;
        for index in first..(end - keys.start).div_ceil(panel) {
            let right = Rows {
                from: packed.wrapping_add(index * panel * width),
                stride: panel,
            };
            // SAFETY: the caller's promise.
            unsafe {
                let to = (to.add(index * panel), stride);
                let columns = end - keys.start - index * panel;
                let columns = self.tiles.padded(columns.min(panel));
                self.tiles
                    .multiply([rows, columns, width], left, right, to, false);
            }
        }
    }

    /// Scores become exponentials of their distance to the largest so far; what a query has
    /// gathered before is scaled to that.
    unsafe fn soften(
        &self,
        task: &Task<'_>,
        rows: &Range<usize>,
        keys: &Range<usize>,
        seen: [usize; 2],
        (scores, stride): (*mut f32, usize),
    ) {
        for (index, query) in rows.clone().enumerate() {
            let own = self.seen(&(query..query + 1), keys);
            let place = query - task.queries.start;
            // SAFETY: the caller's promise.
            unsafe {
                let row = scores.add(index * stride);
                let [before, after] = [[seen[0], own[0]], [own[1], seen[1]]]
                    .map(|[from, to]| (from - keys.start)..(to.max(from) - keys.start));
                for hidden in [before, after] {
                    let hidden =
                        std::slice::from_raw_parts_mut(row.add(hidden.start), hidden.len());
                    hidden.fill(0.0);
                }
                let count = own[1] - own[0];
                let scores = row.add(own[0] - keys.start);
                self.masked([task.batch, task.head, query], own[0], scores, count);
                let largest = task.at(task.places.largest).add(place);
                let sum = task.at(task.places.sums).add(place);
                let most = (self.loops.largest)(scores, count);
                let most = if most.is_nan() || most > *largest {
                    most
                } else {
                    *largest
                };
                // Where nothing is seen yet all exponentials are 0, whatever the shift.
                let shift = if most == f32::NEG_INFINITY { 0.0 } else { most };
                if most > *largest || most.is_nan() {
                    let factor = (*largest - shift).exp();
                    *sum *= factor;
                    if let Some(output) = task.output.as_ref().filter(|_| factor != 0.0) {
                        let row = output.row(query);
                        (self.loops.scaled)(row, row, output.width(), factor);
                    }
                    *largest = most;
                }
                *sum += (self.loops.exponentials)(scores, count, shift);
            }
        }
    }

    unsafe fn add_values(
        &self,
        task: &Task<'_>,
        rows: &Range<usize>,
        keys: &Range<usize>,
        [start, end]: [usize; 2],
        (scores, stride): (*mut f32, usize),
    ) {
        let Some(output) = &task.output else { return };
        let (width, first) = (self.kernel.value_width, start - keys.start);
        let padded = self.tiles.padded(width);
        // SAFETY: the caller's promise.
        unsafe {
            let right = Rows {
                from: task.at(task.places.values).add(first * padded),
                stride: padded,
            };
            let left = Left::Rows(scores.add(first), stride);
            let to = (output.row(rows.start), output.stride);
            self.tiles
                .multiply([rows.len(), width, end - start], left, right, to, true);
        }
    }

    /// Divides by the sums and writes the normalizers.
    unsafe fn finish(&self, task: &Task<'_>, normalizer: Option<&Target>) {
        for (place, query) in task.queries.clone().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let largest = *task.at(task.places.largest).add(place);
                let sum = *task.at(task.places.sums).add(place);
                if let Some(normalizer) = normalizer {
                    let value = if sum == 0.0 {
                        f32::INFINITY
                    } else {
                        largest + sum.ln()
                    };
                    *normalizer.row(task.batch, query, task.head) = value;
                }
                if let Some(output) = &task.output {
                    let row = output.row(query);
                    let factor = if sum == 0.0 { 0.0 } else { 1.0 / sum };
                    (self.loops.scaled)(row, row, output.width(), factor);
                    output.finish_row(query, &self.loops);
                }
            }
        }
    }
}
