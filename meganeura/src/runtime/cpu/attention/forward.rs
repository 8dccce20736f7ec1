//! Mixed values and normalizers, with the online softmax.

use std::cell::RefCell;
use std::ops::Range;

use super::operand::{Matrix, Target};
use super::sight::{Sight, common, seen};
use super::{AHEAD, AttentionProgram, KEYS, Layout, blocks};
use crate::runtime::cpu::gemm::tiles::{Left, Queue, SPAN, Span};
use crate::runtime::cpu::pool::Pool;
use crate::runtime::cpu::vector::softmax::{self, Numbers, QUERIES, Seen, Tile};

/// Parts of a head have at least as many queries.
const LEAST_QUERIES: usize = 64;

/// Where things lie in a worker's scratch memory.
pub(super) struct Scratch {
    /// Rows of keys and of values, where they are copied.
    keys: usize,
    values: usize,
    /// Rows of a tile's queries, if they are copied, and their transpose.
    rows: usize,
    columns: usize,
    scores: usize,
    mask: usize,
    /// What the queries of a tile have gathered.
    mixed: usize,
    pub total: usize,
}

/// What a task works on.
struct Task<'a> {
    /// Batch and head.
    at: [usize; 2],
    queries: Range<usize>,
    /// The keys that lie in scratch memory.
    keys: Range<usize>,
    output: Option<&'a Target>,
    normalizer: Option<&'a Target>,
    scratch: *mut f32,
    places: Scratch,
    queue: RefCell<Queue>,
}

impl Task<'_> {
    fn place(&self, place: usize) -> *mut f32 {
        self.scratch.wrapping_add(place)
    }
}

impl AttentionProgram {
    pub(super) fn forward_scratch(&self) -> Scratch {
        let (mut layout, kernel) = (Layout::default(), &self.kernel);
        let value_width = self.tiles.padded(kernel.value_width);
        Scratch {
            keys: layout.take(self.copies(&self.key, kernel.keys, kernel.width)),
            values: layout.take(self.value.as_ref().map_or(0, |value| {
                self.copies(value, kernel.keys, kernel.value_width)
            })),
            rows: layout.take(self.copies(&self.query, QUERIES, kernel.width)),
            columns: layout.take(QUERIES * kernel.width),
            scores: layout.take(KEYS * QUERIES),
            mask: layout.take(KEYS * QUERIES),
            mixed: layout.take(QUERIES * value_width),
            total: layout.total,
        }
    }

    /// Queries of a task: all of a head, unless there are too few heads for the threads.
    fn queries_of_task(&self, heads: usize, threads: usize) -> usize {
        let queries = self.kernel.queries;
        if heads.is_multiple_of(threads) || heads >= 4 * threads {
            return queries.max(1);
        }
        let parts = (4 * threads).div_ceil(heads.max(1));
        let each = queries.div_ceil(parts).max(LEAST_QUERIES);
        each.next_multiple_of(QUERIES)
    }

    /// # Safety
    /// The buffers are there and nobody else uses them.
    pub(super) unsafe fn forward(
        &self,
        pool: &Pool,
        output: Option<&Target>,
        normalizer: Option<&Target>,
    ) {
        let kernel = &self.kernel;
        let heads = self.batches() * kernel.heads;
        let each = self.queries_of_task(heads, pool.threads());
        let parts = kernel.queries.div_ceil(each);
        self.share(pool, heads * parts, |task, scratch| {
            let (head, part) = (task / parts, task % parts);
            let start = part * each;
            let queries = start..(start + each).min(kernel.queries);
            let task = Task {
                at: [head / kernel.heads, head % kernel.heads],
                keys: seen(kernel, &queries),
                queries,
                output,
                normalizer,
                scratch,
                places: self.forward_scratch(),
                queue: RefCell::new(Queue::new()),
            };
            if task.queries.end == kernel.queries && head + 1 < heads {
                self.fetch_next_head(&task, head + 1);
            }
            // SAFETY: the caller's promise; a task has its own rows of the results and its
            // worker's scratch memory.
            unsafe {
                let rows = self.keys(&task);
                for queries in blocks(task.queries.clone(), QUERIES) {
                    self.mix(&task, rows, &queries);
                }
            }
        });
    }

    /// Keys and values that a task's queries see.
    unsafe fn keys(&self, task: &Task<'_>) -> [Matrix; 2] {
        let ([batch, head], kernel) = (task.at, &self.kernel);
        let at = [batch, head / kernel.group];
        // SAFETY: the caller's promise.
        unsafe {
            let to = task.place(task.places.keys);
            let keys = self.rows(&self.key, at, &task.keys, kernel.width, to);
            let values = match &self.value {
                Some(value) if task.output.is_some() => {
                    let to = task.place(task.places.values);
                    self.rows(value, at, &task.keys, kernel.value_width, to)
                }
                _ => keys,
            };
            [keys, values]
        }
    }

    /// Fetches what a head needs first.
    fn fetch_next_head(&self, task: &Task<'_>, head: usize) {
        let kernel = &self.kernel;
        let (batch, head) = (head / kernel.heads, head % kernel.heads);
        let (queries, keys) = (kernel.queries.min(QUERIES), kernel.keys.min(AHEAD));
        let mut queue = task.queue.borrow_mut();
        let at = [batch, head / kernel.group];
        if let Some(value) = &self.value {
            queue.push(value.soon(at, 0..keys, kernel.value_width));
        }
        queue.push(self.key.soon(at, 0..keys, kernel.width));
        queue.push(self.query.soon([batch, head], 0..queries, kernel.width));
    }

    /// Fetches a tile's results, and the next tile's queries, before anything else.
    fn fetch_next_tile(&self, task: &Task<'_>, queries: &Range<usize>) {
        let mut queue = task.queue.borrow_mut();
        let end = (queries.end + QUERIES).min(self.kernel.queries);
        let next = queries.end..end;
        queue.push(self.query.soon(task.at, next, self.kernel.width));
        if let Some(output) = task.output {
            queue.push(output.soon(task.at, queries.clone()));
        }
    }

    /// The results of a tile of queries.
    unsafe fn mix(
        &self,
        task: &Task<'_>,
        [key_rows, value_rows]: [Matrix; 2],
        queries: &Range<usize>,
    ) {
        let width = self.kernel.width;
        self.fetch_next_tile(task, queries);
        let sight = Sight::new(&self.kernel, queries);
        let (mut state, mut first) = (Seen::NOTHING, true);
        let tile = Tile {
            start: task.place(task.places.scores),
            stride: QUERIES,
            keys: 0,
        };
        // SAFETY: the caller's promise.
        unsafe {
            let rows = task.place(task.places.rows);
            let rows = self.rows(&self.query, task.at, queries, width, rows);
            let columns = (task.place(task.places.columns), QUERIES);
            self.turn((rows, self.factor()), [queries.len(), width], columns);
            let columns = (columns.0.cast_const(), QUERIES);
            for keys in blocks(sight.some.clone(), KEYS) {
                let tile = Tile {
                    keys: keys.len(),
                    ..tile
                };
                let rows = key_rows.skip(keys.start - task.keys.start);
                self.scores((rows, width), columns, (tile, QUERIES), &task.queue);
                let mask = task.place(task.places.mask);
                self.mask(task.at, queries, &keys, mask, tile);
                sight.hide(&self.loops, tile, &keys);
                if (self.loops.raise)(tile, &mut state) && !first {
                    self.lower(task, &state.factors);
                }
                (self.loops.powers)(tile, &mut state);
                self.add_values(task, value_rows, queries, &keys, !first);
                first = false;
            }
            self.finish(task, queries, &state);
        }
    }

    /// Scales what the queries of a tile have gathered.
    unsafe fn lower(&self, task: &Task<'_>, factors: &Numbers) {
        if task.output.is_none() {
            return;
        }
        let (mixed, width) = (task.place(task.places.mixed), self.padded()[1]);
        let rows = softmax::Rows {
            from: mixed,
            from_stride: width,
            to: mixed,
            to_stride: width,
            count: QUERIES,
            width,
        };
        // SAFETY: the caller's promise.
        unsafe { (self.loops.copy)(&rows, factors.0.as_ptr(), 1) };
    }

    unsafe fn add_values(
        &self,
        task: &Task<'_>,
        values: Matrix,
        queries: &Range<usize>,
        keys: &Range<usize>,
        accumulate: bool,
    ) {
        if task.output.is_none() {
            return;
        }
        let mut spans = [Span::default(); QUERIES / SPAN];
        for (span, some) in spans.iter_mut().zip(blocks(queries.clone(), SPAN)) {
            let seen = common(&seen(&self.kernel, &some), keys);
            *span = Span {
                first: seen.start - keys.start,
                count: seen.len(),
                accumulate,
            };
        }
        let size = [queries.len(), self.kernel.value_width];
        let left = Left::Columns(task.place(task.places.scores), QUERIES);
        let right = values.right(keys.start - task.keys.start);
        let to = (task.place(task.places.mixed), self.padded()[1]);
        // SAFETY: the caller's promise.
        unsafe {
            self.tiles
                .multiply_each(size, &spans, left, right, to, &task.queue);
        }
    }

    /// Divides by the sums and writes a tile's results.
    unsafe fn finish(&self, task: &Task<'_>, queries: &Range<usize>, state: &Seen) {
        let mut normalizers = Numbers([0.0; QUERIES]);
        let mut factors = normalizers;
        // SAFETY: the caller's promise.
        unsafe {
            (self.loops.finish)(state, &mut normalizers, &mut factors);
            if let Some(normalizer) = task.normalizer {
                for (query, &value) in queries.clone().zip(&normalizers.0) {
                    normalizer.number(task.at, query, value);
                }
            }
            if let Some(output) = task.output {
                let (mixed, width) = (task.place(task.places.mixed), self.padded()[1]);
                let from = (mixed.cast_const(), width, &factors);
                output.store_each(&self.loops, task.at, queries, from);
            }
        }
    }
}
