//! Attention in tiles that stay in the caches, forward and backward.
//!
//! A block of keys is packed once for all queries of a task. Scores of a few queries with it
//! are a product of the contraction engine's micro-kernels; what follows works on their rows
//! while they are in the first-level cache. Pairs of blocks in which no query sees a key are
//! skipped, and products end at the last key that a tile's queries see.
//!
//! How the work is cut depends on sizes only: results are the same for any number of threads.

mod backward;
mod forward;
mod operand;

use self::operand::{Operand, Target};
use super::gemm::tiles::Tiles;
use super::memory::{Element, Region};
use super::pool::Pool;
use super::vector::InstructionSet;
use super::vector::softmax::Loops;
use crate::ir::bf16;
use crate::schedule::attention::{AttentionKernel, AttentionPass};

/// Keys of a block.
const KEYS: usize = 128;
/// About how many queries a block has.
const QUERIES: usize = 48;
/// Heads below this number are cut along time, too.
const PARTS: usize = 8;
/// Products that are worth sharing among threads.
const WORTH_SHARING: usize = 1 << 16;

/// An attention with its buffers.
pub(super) struct AttentionProgram {
    kernel: AttentionKernel,
    query: Operand,
    key: Operand,
    value: Option<Operand>,
    mask: Option<Operand>,
    pass: Pass,
    tiles: Tiles,
    loops: Loops,
    /// Queries of a block.
    block: usize,
    scratch: Vec<*mut f32>,
}

// SAFETY: plain addresses; who uses them when is the executor's business.
unsafe impl Send for AttentionProgram {}
// SAFETY: as above; each worker has scratch memory of its own.
unsafe impl Sync for AttentionProgram {}

#[allow(clippy::large_enum_variant, reason = "there is one for each program")]
enum Pass {
    Forward {
        output: Option<Target>,
        normalizer: Option<Target>,
    },
    Backward {
        upstream: Operand,
        normalizer: Operand,
        sums: Operand,
        query: Option<Target>,
        key: Option<Target>,
        value: Option<Target>,
    },
}

impl AttentionProgram {
    /// The kernel has been checked against the buffers.
    pub(super) fn new(kernel: &AttentionKernel, buffers: &[Region], set: InstructionSet) -> Self {
        let operand = |access| Operand::new(access, &kernel.batch, buffers);
        let (heads, key_heads) = (kernel.heads, kernel.key_heads());
        let target = |buffer: Option<_>, time, heads, width| {
            buffer.map(|buffer| Target::new(buffer, [time, heads, width], buffers))
        };
        let (queries, keys) = (kernel.queries, kernel.keys);
        let pass = match &kernel.pass {
            AttentionPass::Forward { output, normalizer } => Pass::Forward {
                output: target(*output, queries, heads, kernel.value_width),
                normalizer: target(*normalizer, queries, heads, 1),
            },
            AttentionPass::Backward {
                upstream,
                normalizer,
                sums,
                query,
                key,
                value,
            } => Pass::Backward {
                upstream: operand(upstream),
                normalizer: operand(normalizer),
                sums: operand(sums),
                query: target(*query, queries, heads, kernel.width),
                key: target(*key, keys, key_heads, kernel.width),
                value: target(*value, keys, key_heads, kernel.value_width),
            },
        };
        let tiles = Tiles::new();
        Self {
            query: operand(&kernel.query),
            key: operand(&kernel.key),
            value: kernel.value.as_ref().map(operand),
            mask: kernel.mask.as_ref().map(operand),
            pass,
            loops: Loops::of(set),
            block: tiles.rows() * QUERIES.div_ceil(tiles.rows()),
            tiles,
            kernel: kernel.clone(),
            scratch: Vec::new(),
        }
    }

    /// Floats that each worker needs.
    pub(super) fn scratch_elements(&self) -> usize {
        match self.pass {
            Pass::Forward { .. } => self.forward_scratch().total,
            Pass::Backward { .. } => self.backward_scratch().total,
        }
    }

    /// Gives each worker its scratch memory.
    pub(super) fn bind(&mut self, scratch: &[*mut f32]) {
        self.scratch = scratch.to_vec();
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// The buffers are still there and nobody else uses them.
    pub(super) unsafe fn run(&self, pool: &Pool) {
        // SAFETY: the caller's promise.
        unsafe {
            match &self.pass {
                Pass::Forward { output, normalizer } => {
                    self.forward(pool, output.as_ref(), normalizer.as_ref());
                }
                Pass::Backward { .. } => self.backward(pool),
            }
        }
    }

    /// Floats to widen the keys of a panel in, if they are halves.
    fn panel_room(&self) -> usize {
        let operands = [Some(&self.key), self.value.as_ref()];
        let halves = |operand: &&Operand| operand.element == Element::Half;
        match operands
            .into_iter()
            .flatten()
            .any(|operand| halves(&operand))
        {
            true => self.tiles.panel() * self.kernel.width.max(self.kernel.value_width),
            false => 0,
        }
    }

    fn batches(&self) -> usize {
        self.kernel.batch.iter().product()
    }

    /// Runs tasks with their worker's scratch memory, on the caller's thread alone when there
    /// is little to do.
    fn share(&self, pool: &Pool, tasks: usize, task: impl Fn(usize, *mut f32) + Sync) {
        let products = self.kernel.pairs() * (self.kernel.width + self.kernel.value_width);
        if products < WORTH_SHARING {
            pool.run(1, |_, worker| {
                (0..tasks).for_each(|index| task(index, self.scratch[worker]));
            });
        } else {
            pool.run(tasks, |index, worker| task(index, self.scratch[worker]));
        }
    }

    /// The keys that some of these queries see, within a block.
    fn seen(&self, queries: &std::ops::Range<usize>, keys: &std::ops::Range<usize>) -> [usize; 2] {
        if queries.is_empty() {
            return [keys.start; 2];
        }
        let inside = |key: usize| key.clamp(keys.start, keys.end);
        let start = inside(self.kernel.seen(queries.start).start);
        let end = inside(self.kernel.seen(queries.end - 1).end);
        [start, end.max(start)]
    }

    /// Adds a float mask to a row of scores, or hides what a truth mask does not show.
    ///
    /// # Safety
    /// The mask must be there, and `count` scores from key `key` on.
    unsafe fn masked(&self, at: [usize; 3], key: usize, scores: *mut f32, count: usize) {
        let Some(mask) = &self.mask else { return };
        let [batch, head, query] = at;
        let added = self.kernel.mask.as_ref().map(|mask| mask.dtype) == Some(crate::ir::DType::F32);
        // SAFETY: the caller's promise.
        unsafe {
            let row = mask.row(batch, head, query);
            for i in 0..count {
                let (score, mask) = (scores.add(i), *row.add((key + i) * mask.column));
                if added {
                    *score += mask;
                } else if mask == 0.0 {
                    *score = f32::NEG_INFINITY;
                }
            }
        }
    }

    /// Packs keys or values of a block as panels whose lanes are keys.
    ///
    /// # Safety
    /// The operand and `to` must be there, and `room` for the keys of a panel.
    unsafe fn pack(
        &self,
        operand: &Operand,
        [batch, head]: [usize; 2],
        keys: &std::ops::Range<usize>,
        (width, room): (usize, *mut f32),
        to: *mut f32,
    ) {
        let panel = self.tiles.panel();
        for (index, key) in keys.clone().step_by(panel).enumerate() {
            let strides = [operand.time, operand.column];
            let count = panel.min(keys.end - key);
            // SAFETY: the caller's promise.
            unsafe {
                let to = to.add(index * panel * width);
                if operand.element == Element::Half {
                    let keys = key..key + count;
                    self.copy(operand, [batch, head], &keys, (width, 1.0), (room, width));
                    self.tiles.pack(room, [width, 1], [count, width], to);
                } else {
                    let from = operand.row(batch, key, head);
                    self.tiles.pack(from, strides, [count, width], to);
                }
            }
        }
    }

    /// Copies rows times a factor to scratch memory, where they are `stride` apart.
    ///
    /// # Safety
    /// The operand and `to` must be there.
    unsafe fn copy(
        &self,
        operand: &Operand,
        [batch, head]: [usize; 2],
        rows: &std::ops::Range<usize>,
        (width, factor): (usize, f32),
        (to, stride): (*mut f32, usize),
    ) {
        for (index, row) in rows.clone().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (operand.row(batch, row, head), to.add(index * stride));
                if operand.column == 1 && operand.element == Element::Half {
                    (self.loops.widened)(to, from.cast(), width, factor);
                } else if operand.column == 1 {
                    (self.loops.scaled)(to, from, width, factor);
                } else if operand.element == Element::Half {
                    let from = from.cast::<u16>();
                    for i in 0..width {
                        *to.add(i) = bf16::widen(*from.add(i * operand.column)) * factor;
                    }
                } else {
                    for i in 0..width {
                        *to.add(i) = *from.add(i * operand.column) * factor;
                    }
                }
            }
        }
    }
}

/// Pieces of a worker's scratch memory, one after the other on cache lines of their own.
#[derive(Default)]
struct Layout {
    total: usize,
}

impl Layout {
    fn take(&mut self, elements: usize) -> usize {
        let start = self.total;
        self.total += elements.next_multiple_of(16);
        start
    }
}

/// The parts of `0..count` of at most `size`.
fn blocks(
    range: std::ops::Range<usize>,
    size: usize,
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let end = range.end;
    range
        .step_by(size)
        .map(move |start| start..(start + size).min(end))
}
