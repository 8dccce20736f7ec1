//! Several steps as one loop: machine code made when a kernel is compiled.
//!
//! A step that is a loop by itself reads its operands from memory and writes its result there,
//! if only to the nearest cache: that takes longer than the arithmetic. Steps that follow each
//! other are written down ([`trace`]) and become code for one loop ([`emit`], [`encode`]) that
//! has values in registers from one to the next. Where that cannot be, on other processors or
//! where a system lets nobody make code ([`pages`]), the steps run one by one; results differ in
//! rounding of sums at most.

mod emit;
mod encode;
mod pages;
mod registers;
#[cfg(test)]
mod tests;
mod trace;

use self::pages::Pages;
use self::trace::Instruction;
pub(in super::super) use self::trace::{Recording, Slot, Value, traceable, turn};
use super::steps::{combine, halve};
use crate::ir::Combine;

/// How many folds one loop may have.
const FOLDS: usize = 4;

#[cfg(target_arch = "x86_64")]
type Entry = unsafe extern "sysv64" fn(table: *const *mut f32, count: usize, folds: *mut f32);

/// Never called.
#[cfg(not(target_arch = "x86_64"))]
type Entry = unsafe extern "C" fn(table: *const *mut f32, count: usize, folds: *mut f32);

/// A loop in machine code.
#[derive(Debug)]
pub(in super::super) struct Fused {
    entry: Entry,
    /// Elements come in multiples of this.
    turn: usize,
    folds: Vec<(Combine, Slot)>,
    /// The slots whose elements, floats or doubles it reads.
    pub(in super::super) reads: Vec<Slot>,
    /// The slots whose elements it writes.
    pub(in super::super) writes: Vec<Slot>,
    _pages: Pages,
}

/// Where the vectors of folds go.
#[repr(align(64))]
struct Folded([[f32; 16]; FOLDS]);

impl Fused {
    /// Code for a recording, if it can be.
    pub(in super::super) fn new(recording: &Recording) -> Option<Self> {
        let instructions = &recording.instructions;
        let folds: Vec<_> = instructions
            .iter()
            .filter_map(|instruction| match *instruction {
                Instruction::Fold(how, _, slot) => Some((how, slot)),
                _ => None,
            })
            .collect();
        if folds.len() > FOLDS {
            return None;
        }
        let reads = instructions
            .iter()
            .filter_map(|instruction| match *instruction {
                Instruction::Load(slot, _)
                | Instruction::Splat(slot)
                | Instruction::Count(slot)
                | Instruction::Cycle(slot, _)
                | Instruction::Fold(_, _, slot) => Some(slot),
                _ => None,
            });
        let writes = instructions
            .iter()
            .filter_map(|instruction| match *instruction {
                Instruction::Store(slot, ..) | Instruction::Whole(_, _, slot) => Some(slot),
                _ => None,
            });
        let (reads, writes) = (reads.collect(), writes.collect());
        let turns = instructions
            .iter()
            .filter_map(|instruction| match *instruction {
                Instruction::Cycle(_, period) => turn(usize::from(period)),
                _ => None,
            });
        let turn = turns.max().map_or(1, |vectors| vectors * 16);
        let pages = Pages::new(&emit::emit(recording)?)?;
        // SAFETY: the pages hold a function of this type from their start on.
        let entry = unsafe { std::mem::transmute::<*const _, Entry>(pages.start()) };
        Some(Fused {
            entry,
            turn,
            folds,
            reads,
            writes,
            _pages: pages,
        })
    }

    /// Runs the loop; with cycles, over whole turns of them.
    ///
    /// # Safety
    /// The machine must have AVX-512 and BMI2; the table's pointers must lead to so many
    /// elements, twice as many where those are pairs, to floats where they are splats, to doubles where they are folds.
    pub(in super::super) unsafe fn run(&self, table: &[*mut f32], count: usize) {
        // SAFETY: the caller's promise; there is room for every fold.
        unsafe {
            debug_assert!(count.is_multiple_of(self.turn));
            let mut folded = std::mem::MaybeUninit::<Folded>::uninit();
            (self.entry)(table.as_ptr(), count, folded.as_mut_ptr().cast());
            for (number, &(how, slot)) in self.folds.iter().enumerate() {
                let lanes = (&raw const (*folded.as_ptr()).0[number]).read();
                let to = table[usize::from(slot)].cast::<f64>();
                to.write(combine(how, to.read(), halve(how, lanes)));
            }
        }
    }
}
