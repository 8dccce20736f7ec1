//! What the queries of a tile see.

use std::ops::Range;

use crate::runtime::cpu::vector::softmax::{Loops, Tile};
use crate::schedule::attention::AttentionKernel;

/// The keys that neighbouring queries see by their position.
pub(super) struct Sight<'a> {
    kernel: &'a AttentionKernel,
    /// The first query.
    first: usize,
    /// Some of them see.
    pub some: Range<usize>,
    /// All of them see.
    all: Range<usize>,
}

/// What is in both ranges, at least a place in the second.
pub(super) fn common(range: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    let inside = |index: usize| index.clamp(other.start, other.end);
    inside(range.start)..inside(range.end.max(range.start))
}

/// The keys that some of neighbouring queries see.
pub(super) fn seen(kernel: &AttentionKernel, queries: &Range<usize>) -> Range<usize> {
    if queries.is_empty() {
        return 0..0;
    }
    let (first, last) = (kernel.seen(queries.start), kernel.seen(queries.end - 1));
    first.start..last.end.max(first.start)
}

/// The queries that see some of neighbouring keys.
pub(super) fn seeing(kernel: &AttentionKernel, keys: &Range<usize>) -> Range<usize> {
    if keys.is_empty() {
        return 0..0;
    }
    let (first, last) = (kernel.seeing(keys.start), kernel.seeing(keys.end - 1));
    first.start..last.end.max(first.start)
}

impl<'a> Sight<'a> {
    /// Of at least one query.
    pub fn new(kernel: &'a AttentionKernel, queries: &Range<usize>) -> Self {
        let (first, last) = (kernel.seen(queries.start), kernel.seen(queries.end - 1));
        Self {
            kernel,
            first: queries.start,
            some: seen(kernel, queries),
            all: last.start..first.end.max(last.start),
        }
    }

    /// Hides scores with keys that a query does not see.
    ///
    /// # Safety
    /// As [`Loops`].
    pub unsafe fn hide(&self, loops: &Loops, tile: Tile, keys: &Range<usize>) {
        let all = common(&self.all, keys);
        let reach = [0, 1].map(|lane| self.kernel.reach(self.first + lane));
        for part in [keys.start..all.start, all.end..keys.end] {
            if part.is_empty() {
                continue;
            }
            let tile = tile.part(part.start - keys.start..part.end - keys.start);
            let [first, end] = [0, 1].map(|bound| {
                let place = reach[0][bound] - part.start as i64;
                [place as f32, (reach[1][bound] - reach[0][bound]) as f32]
            });
            // SAFETY: the caller's promise.
            unsafe { (loops.hide)(tile, first, end) };
        }
    }
}
