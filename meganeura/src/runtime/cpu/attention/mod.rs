//! Attention in tiles that stay in the caches, forward and backward.
//!
//! Rows are read where they lie, if products can and the cache holds them there; else they are
//! copied once. Gradients are added up where they belong. What comes next is fetched between the
//! steps of products, since a head is too short for the hardware to foresee its rows.
//!
//! Scores are computed transposed, for tiles of as many queries as a tile of
//! [`softmax`](super::vector::softmax) has lanes: maxima, sums and normalizers then need no step
//! across lanes. Products go over many small [`tiles`](super::gemm::tiles) in one call, each of which
//! ends at the last key that its queries see; they reach 95 to 98 % of the peak.
//!
//! A tile of scores of 128 keys (8 KiB) lies in the first-level cache with what meets it; a head's
//! keys, values and their gradients pass through it once for 16 (forward) or 128 queries (backward).
//!
//! A query's sums go over keys in order, a key's over queries in order, by blocks that begin at
//! multiples of their size wherever tasks are cut: results are the same for any number of threads.

mod backward;
mod forward;
mod operand;
mod sight;

use std::cell::RefCell;
use std::f32::consts::LOG2_E;
use std::ops::Range;

use self::operand::{Matrix, Operand, Target};
use super::gemm::tiles::{Left, Queue, Rows, Tiles};
use super::memory::Region;
use super::pool::Pool;
use super::vector::InstructionSet;
use super::vector::softmax::{self, Loops, QUERIES, Tile};
use crate::ir::DType;
use crate::schedule::attention::{AttentionKernel, AttentionPass};

/// Keys of a block.
const KEYS: usize = 128;
/// Keys of the next head that are fetched ahead: more would not stay in the second-level cache.
const AHEAD: usize = 256;
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
    /// Pairs of queries and keys that meet.
    pairs: usize,
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
        Self {
            query: operand(&kernel.query),
            key: operand(&kernel.key),
            value: kernel.value.as_ref().map(operand),
            mask: kernel.mask.as_ref().map(operand),
            pass,
            loops: Loops::of(set),
            tiles: Tiles::new(),
            pairs: kernel.pairs(),
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

    fn batches(&self) -> usize {
        self.kernel.batch.iter().product()
    }

    /// Runs tasks with their worker's scratch memory, on the caller's thread alone when there
    /// is little to do.
    fn share(&self, pool: &Pool, tasks: usize, task: impl Fn(usize, *mut f32) + Sync) {
        let products = self.pairs * (self.kernel.width + self.kernel.value_width);
        if products < WORTH_SHARING {
            pool.run(1, |_, worker| {
                (0..tasks).for_each(|index| task(index, self.scratch[worker]));
            });
        } else {
            pool.run(tasks, |index, worker| task(index, self.scratch[worker]));
        }
    }

    /// From one row of queries or keys, and of values, to the next in scratch memory.
    fn padded(&self) -> [usize; 2] {
        [self.kernel.width, self.kernel.value_width].map(|width| self.tiles.padded(width))
    }

    /// What queries are multiplied with, so that scores are logarithms to the base 2.
    fn factor(&self) -> f32 {
        self.kernel.scale * LOG2_E
    }

    /// Rows of a head: where they lie, or copied to scratch memory.
    ///
    /// # Safety
    /// The operand and scratch memory must be there.
    unsafe fn rows(
        &self,
        operand: &Operand,
        at: [usize; 2],
        times: &Range<usize>,
        width: usize,
        to: *mut f32,
    ) -> Matrix {
        // SAFETY: the caller's promise.
        unsafe { operand.rows((&self.loops, self.tiles), at, times, width, to) }
    }

    /// Floats for copies of so many rows, if they are copied.
    fn copies(&self, operand: &Operand, rows: usize, width: usize) -> usize {
        match operand.in_place(self.tiles, width) {
            true => 0,
            false => rows * self.tiles.padded(width),
        }
    }

    /// The transpose of rows of a tile of queries, times a factor.
    ///
    /// # Safety
    /// The rows and scratch memory must be there.
    unsafe fn turn(
        &self,
        (rows, factor): (Matrix, f32),
        size: [usize; 2],
        (columns, stride): (*mut f32, usize),
    ) {
        let turned = softmax::Rows {
            from: columns,
            from_stride: stride,
            to: columns,
            to_stride: stride,
            count: size[1],
            width: QUERIES,
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.tiles
                .transpose((rows.from, rows.stride), size, (columns, stride));
            (self.loops.copy)(&turned, &raw const factor, 0);
        }
    }

    /// Products of rows with transposed queries of one tile or more that lie side by side, like
    /// the tiles of scores.
    ///
    /// # Safety
    /// All must be there.
    unsafe fn scores(
        &self,
        (rows, width): (Matrix, usize),
        (columns, stride): (*const f32, usize),
        (tile, queries): (Tile, usize),
        queue: &RefCell<Queue>,
    ) {
        let left = Left::Rows(rows.from, rows.stride);
        let right = Rows {
            from: columns,
            stride,
        };
        let (size, to) = ([tile.keys, queries, width], (tile.start, tile.stride));
        // SAFETY: the caller's promise.
        unsafe { self.tiles.multiply(size, left, right, to, false, queue) };
    }

    /// Adds a float mask to scores, or hides what a truth mask does not show.
    ///
    /// # Safety
    /// The mask must be there, the tile and as much scratch memory.
    unsafe fn mask(
        &self,
        at: [usize; 2],
        queries: &Range<usize>,
        keys: &Range<usize>,
        scratch: *mut f32,
        tile: Tile,
    ) {
        let (Some(mask), Some(access)) = (&self.mask, &self.kernel.mask) else {
            return;
        };
        // SAFETY: the caller's promise.
        unsafe {
            mask.turn(self.tiles, at, queries, keys, (scratch, QUERIES));
            match access.dtype {
                DType::F32 => (self.loops.add)(tile, scratch),
                _ => (self.loops.show)(tile, scratch),
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
fn blocks(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(size)
        .map(move |start| start..(start + size).min(end))
}
