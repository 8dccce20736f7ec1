//! How values come from memory.

use super::super::super::memory::Element;
use super::super::super::vector::Form;
use super::super::program::{NO_SLOT, Origin, Shape, Slot, Walk, Work};
use super::{Compiler, Place};
use crate::schedule::kernel::{Access, Level};

impl Compiler<'_> {
    /// A pointer that follows an access.
    pub(super) fn walk(&mut self, access: &Access, listed: bool) -> usize {
        let walk = self.code.walks.len();
        let slot = self.slot(Origin::Walk(walk));
        let region = self.buffers[access.buffer.index()];
        let base = region.at(access.offset);
        let same = |other: &Walk| other.base == base && other.strides == access.strides;
        let known = self.code.walks.iter().any(same);
        let pitch = match pitch(&self.domain.outer, &access.strides) {
            Some(0) if self.code.rows > 1 => None,
            pitch => pitch,
        };
        self.code.walks.push(Walk {
            slot,
            base,
            element: Element::of(access.dtype),
            region,
            strides: access.strides.clone(),
            column_stride: access.column_stride,
            listed,
            again: known,
            written: false,
            ahead: pitch.filter(|_| access.column_stride == 1 && self.wide() && !known),
        });
        walk
    }

    /// A pointer that follows what is stored.
    pub(super) fn written_walk(&mut self, access: &Access, listed: bool) -> usize {
        let index = self.walk(access, listed);
        let (base, strides) = {
            let walk = &self.code.walks[index];
            (walk.base, walk.strides.clone())
        };
        let walks = self.code.walks.iter_mut();
        walks
            .filter(|walk| walk.base == base && walk.strides == strides)
            .for_each(|walk| walk.written = true);
        index
    }

    pub(super) fn row_load(&mut self, value: usize, access: &Access) -> Place {
        let element = Element::of(access.dtype);
        let pitch = pitch(&self.domain.outer, &access.strides);
        let shape = match pitch {
            _ if self.wide() => Some(Shape::Row),
            Some(1) => Some(Shape::Row),
            Some(0) => Some(Shape::Uniform),
            _ => None,
        };
        match shape {
            Some(shape) if element == Element::Float && !self.schedule.overwritten[value] => {
                let walk = self.walk(access, false);
                Place {
                    slot: self.code.walks[walk].slot,
                    shape,
                }
            }
            _ if self.wide() => {
                let walk = self.walk(access, false);
                let from = [self.code.walks[walk].slot, NO_SLOT, NO_SLOT];
                let slot = self.register(false);
                let work = Work::Gather { stride: 0, element };
                self.push(Level::Row, work, slot, from);
                Place {
                    slot,
                    shape: Shape::Row,
                }
            }
            _ => Place {
                slot: self.gather_rows(access, false),
                shape: Shape::Row,
            },
        }
    }

    pub(super) fn gather_rows(&mut self, access: &Access, full: bool) -> Slot {
        let walk = self.walk(access, true);
        let slot = self.register(full);
        let work = Work::GatherRows {
            walk,
            stride: access.column_stride,
            element: Element::of(access.dtype),
            full,
        };
        let level = if full { Level::Full } else { Level::Row };
        self.push(level, work, slot, [NO_SLOT; 3]);
        slot
    }

    /// Whether the tiles of an access are dense floats, so that steps can work in place.
    pub(super) fn in_place(&self, access: &Access) -> bool {
        Element::of(access.dtype) == Element::Float && self.is_dense(access)
    }

    /// Whether they are dense halves.
    pub(super) fn is_dense_halves(&self, access: &Access) -> bool {
        Element::of(access.dtype) == Element::Half && self.is_dense(access)
    }

    fn is_dense(&self, access: &Access) -> bool {
        let rows = pitch(&self.domain.outer, &access.strides) == Some(self.domain.columns);
        access.column_stride == 1 && (self.wide() || rows)
    }

    pub(super) fn full_load(&mut self, value: usize, access: &Access) -> Slot {
        let mut repeated = self.domain.repeated.iter();
        if let Some(&(_, period)) = repeated.find(|(load, _)| *load == value) {
            let walk = self.walk(access, !self.wide());
            let slot = self.register(true);
            if self.wide() {
                // Joined rows are one tile.
                let from = [self.code.walks[walk].slot, NO_SLOT, NO_SLOT];
                self.push(Level::Full, Work::Repeat { period }, slot, from);
            } else {
                let work = Work::RepeatRows { walk, period };
                self.push(Level::Full, work, slot, [NO_SLOT; 3]);
            }
            return slot;
        }
        if self.in_place(access) {
            let walk = self.walk(access, false);
            return self.code.walks[walk].slot;
        }
        if self.is_dense_halves(access) {
            let walk = self.walk(access, false);
            let from = [self.code.walks[walk].slot, NO_SLOT, NO_SLOT];
            let slot = self.register(true);
            self.vector(Level::Full, Form::Widen, slot, from);
            return slot;
        }
        if !self.wide() {
            return self.gather_rows(access, true);
        }
        let walk = self.walk(access, false);
        let from = [self.code.walks[walk].slot, NO_SLOT, NO_SLOT];
        let slot = self.register(true);
        let work = Work::Gather {
            stride: access.column_stride,
            element: Element::of(access.dtype),
        };
        self.push(Level::Full, work, slot, from);
        slot
    }
}

/// The distance between the first elements of neighbouring rows, if it is always the same.
pub(super) fn pitch(outer: &[usize], strides: &[usize]) -> Option<usize> {
    let pitch = strides.last().copied().unwrap_or(0);
    let mut expected = pitch;
    for (&dim, &stride) in outer.iter().zip(strides).rev() {
        if stride != expected {
            return None;
        }
        expected *= dim;
    }
    Some(pitch)
}
