//! Folded products: the sums over both halves of the depth are made by themselves and added at
//! the end.
//!
//! Cut by rows of the result, each thread reads all of one operand and some columns of every row
//! of the other, and before a row of either is written again, the core that does so has to take
//! its lines back from the others. In a weight's gradient depth are tokens: folded, half of the
//! threads read the first half of the tokens, which they mostly wrote themselves, and the others
//! the rest. Each thread first makes sums over its half for results that belong to the other
//! threads, in memory that all share, then those for its own, which it adds to what the others
//! left it. Which sums there are and in what order each is added up depends on sizes alone, and
//! the sum of two does not depend on their order.

use super::block::{Block, Job};
use super::prepare::Buffer;
use super::split;
use crate::plan::depth::folded_elements;
use crate::runtime::cpu::memory::Region;
use std::ops::Range;

/// That a product is folded.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime::cpu) struct Fold {
    /// Room for one sum of every element, as [`folded_elements`] says. Without it, a thread makes both sums
    /// of what belongs to it.
    pub room: Option<Region>,
}

/// Which sums are made while all threads walk over the result once.
#[derive(Clone, Copy)]
pub(super) enum Pass {
    /// Those over the whole depth.
    Whole,
    /// Those over the first half and then those over the other, by whom the unit belongs to.
    Both,
    /// Those over the other threads' half, which are left in the room.
    ForOthers(Region),
    /// Those over the half of whom the unit belongs to, added to what was left.
    Own(Region),
}

/// What becomes of a sum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    /// It is the result.
    Whole,
    /// It is kept.
    Kept,
    /// It is added to what was kept.
    Added,
}

impl Pass {
    /// The passes of a product whose result is cut into so many units.
    pub fn of(problem: &super::Problem<'_>, units: usize, threads: usize) -> [Option<Pass>; 2] {
        let [m, n, _] = problem.size;
        let Some(fold) = problem.fold else {
            return [Some(Pass::Whole), None];
        };
        let enough = |region: &Region| region.elements >= folded_elements(m, n);
        match fold.room.filter(enough) {
            Some(region) if threads > 1 && units > 1 => {
                [Some(Pass::ForOthers(region)), Some(Pass::Own(region))]
            }
            _ => [Some(Pass::Both), None],
        }
    }

    /// How many sums are made of each element.
    pub fn sums(self) -> usize {
        match self {
            Pass::Both => 2,
            Pass::Whole | Pass::ForOthers(_) | Pass::Own(_) => 1,
        }
    }

    /// The unit at a place of the walk: a thread begins with units that belong to it, or with
    /// those of a thread that has the other half of the depth.
    pub fn unit(self, place: usize, units: usize) -> usize {
        match self {
            Pass::ForOthers(_) => (place + units / 2) % units,
            Pass::Whole | Pass::Both | Pass::Own(_) => place,
        }
    }

    /// The depth of a unit's sum.
    pub fn sum(self, index: usize, [unit, units]: [usize; 2], depth: usize) -> (Range<usize>, Sum) {
        let half = |half: usize| split::part(depth, split::DEPTH_UNIT, 2, half);
        let own = usize::from(2 * unit >= units);
        match self {
            Pass::Whole => (0..depth, Sum::Whole),
            Pass::Both if index == 0 => (half(0), Sum::Kept),
            Pass::Both => (half(1), Sum::Added),
            Pass::ForOthers(_) => (half(1 - own), Sum::Kept),
            Pass::Own(_) => (half(own), Sum::Added),
        }
    }
}

impl Job<'_> {
    /// Whether a block's sums are made where others are kept: those that are to be, or those that
    /// one block of depth completes, which micro-kernels add to them as they store.
    pub(super) fn adds_to_kept(&self, block: &Block) -> bool {
        match block.sum {
            Sum::Whole => false,
            Sum::Kept => true,
            Sum::Added => self.depth_blocks == 1,
        }
    }

    /// Where sums of some rows of a block are kept, and from one row to the next.
    pub(super) fn kept(
        &self,
        block: &Block,
        rows: &Range<usize>,
        sums: &mut Buffer,
    ) -> (*mut f32, usize) {
        let (height, first) = (block.rows.len(), rows.start - block.rows.start);
        let columns = block.columns.len();
        match self.pass {
            Pass::ForOthers(room) | Pass::Own(room) => {
                // A block's rows are neighbours.
                let lanes = self.kernels.lanes;
                let stride = columns.next_multiple_of(lanes);
                let row = self.problem.size[1].next_multiple_of(lanes);
                let at = block.rows.start * row + block.columns.start * height + first * stride;
                (room.base.wrapping_add(at), stride)
            }
            Pass::Whole | Pass::Both => {
                let stride = columns.next_multiple_of(self.kernels.panel());
                let kept = sums.get(height * stride);
                (kept[first * stride..].as_mut_ptr(), stride)
            }
        }
    }

    /// Such rows in the room, if some of a block are written soon.
    pub(super) fn soon_in_room(
        &self,
        block: &Block,
        rows: &Range<usize>,
        sums: &mut Buffer,
    ) -> Option<(*mut f32, usize)> {
        let written = self.adds_to_kept(block) || block.last_depth;
        match self.pass {
            Pass::ForOthers(_) | Pass::Own(_) if written => Some(self.kept(block, rows, sums)),
            _ => None,
        }
    }
}

/// Adds some rows of sums to those that were kept.
///
/// # Safety
///
/// Both have so many rows and columns, and nobody else uses them.
pub(super) unsafe fn add_to_kept(
    [rows, columns]: [usize; 2],
    (to, to_stride): (*mut f32, usize),
    (from, from_stride): (*const f32, usize),
) {
    for row in 0..rows {
        // SAFETY: the caller's promise.
        let (to, from) = unsafe {
            (
                std::slice::from_raw_parts_mut(to.add(row * to_stride), columns),
                std::slice::from_raw_parts(from.add(row * from_stride), columns),
            )
        };
        for (to, from) in to.iter_mut().zip(from) {
            *to += from;
        }
    }
}
