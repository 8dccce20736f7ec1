//! Where values go: reductions, accumulates and stores.

use super::super::super::memory::Element;
use super::super::super::vector::{Form, Kind, PairOp, lookup};
use super::super::program::{Fold, NO_SLOT, Origin, Pending, Shape, Slot, Step, Sum, Work};
use super::{Compiler, combining};
use crate::ir::{Combine, ScalarOp};
use crate::schedule::kernel::{Access, Instruction, Level};

impl Compiler<'_> {
    pub(super) fn declare_sums(&mut self) {
        for sum in &self.domain.accumulates {
            let access = &sum.access;
            let start = f64::from(sum.combine.identity());
            let pending = if access.column_stride == 0 {
                Pending::Cell(self.cell(start).1)
            } else if !self.wide() {
                let first = self.code.cells.len();
                let columns = first + self.domain.columns;
                self.code.cells.resize(columns, start);
                Pending::Columns(first)
            } else {
                let room = self.code.scratch;
                self.code.scratch += self.domain.columns.next_multiple_of(16);
                Pending::Row(room)
            };
            let steps = self.domain.outer.iter().zip(&access.strides);
            let span = steps.map(|(&dim, &stride)| dim.saturating_sub(1) * stride);
            let last_column = self.domain.columns.saturating_sub(1) * access.column_stride;
            let merge = Form::Binary(combining(sum.combine), [Kind::Stream, Kind::Stream]);
            self.code.sums.push(Sum {
                combine: sum.combine,
                strides: access.strides.clone(),
                column_stride: access.column_stride,
                output: self.buffers[access.buffer.index()].at(access.offset),
                span: span.sum::<usize>() + last_column + 1,
                pending,
                merge: lookup(self.set, merge),
            });
        }
    }

    /// Everything that is made of a value: reductions, accumulates, stores.
    pub(super) fn results(&mut self, value: usize) {
        let domain = self.domain;
        for (index, instruction) in domain.program.instructions.iter().enumerate() {
            if let Instruction::Reduce(combine, operand) = instruction
                && operand.index() == value
                && self.schedule.needed[index]
            {
                self.fold(index, *combine, value);
            }
        }
        for (index, sum) in domain.accumulates.iter().enumerate() {
            if sum.value.index() == value && (self.is_full(value) || domain.each_column[index]) {
                self.accumulate(index, sum.combine, value);
            }
        }
        for (index, store) in domain.stores.iter().enumerate() {
            let direct = self.schedule.direct_store[value] == Some(index)
                && self.is_full(value)
                && self.in_place(&store.access);
            let of_row = store.access.column_stride == 0 && !self.is_full(value);
            let delayed = self.schedule.delayed_store[index].is_some();
            if store.value.index() == value && !direct && !of_row && !delayed {
                self.store(value, &store.access);
            }
        }
    }

    /// The form and operands of a fold of a value.
    pub(super) fn fold_of(&mut self, combine: Combine, value: usize) -> (Form, [Slot; 3]) {
        if let Some(factors) = self.product(value) {
            let (from, kinds) = self.operands(&factors, Level::Full);
            return (Form::Dot([kinds[0], kinds[1]]), from);
        }
        let (slot, kind) = self.operand(value, Level::Full);
        (Form::Fold(combine, kind), [slot, NO_SLOT, NO_SLOT])
    }

    pub(super) fn fold(&mut self, reduction: usize, combine: Combine, value: usize) {
        if self.wide() {
            let (slot, cell) = self.cell(f64::from(combine.identity()));
            self.cells[reduction] = slot;
            self.code.folds.push(Fold {
                cell,
                phase: self.phase,
                combine,
            });
            let (form, from) = self.fold_of(combine, value);
            self.vector(Level::Full, form, slot, from);
        } else {
            let (slot, _) = self.operand(value, Level::Full);
            let result = self.register(false);
            self.cells[reduction] = result;
            let fold = lookup(self.set, Form::Fold(combine, Kind::Stream));
            let work = Work::FoldRows(combine, fold);
            self.push(Level::Full, work, result, [slot, NO_SLOT, NO_SLOT]);
        }
    }

    pub(super) fn accumulate(&mut self, index: usize, combine: Combine, value: usize) {
        if !self.wide() {
            self.accumulate_rows(index, combine, value);
            return;
        }
        let (pending, origin) = match self.code.sums[index].pending {
            Pending::Row(room) => (true, Origin::ScratchRow(room)),
            Pending::Cell(cell) | Pending::Columns(cell) => (false, Origin::Cell(cell)),
        };
        let slot = self.slot(origin);
        if !pending {
            let (form, from) = self.fold_of(combine, value);
            self.vector(Level::Full, form, slot, from);
        } else if let Some(factors) = self.product(value) {
            let (mut from, mut kinds) = self.operands(&factors, Level::Full);
            (from[2], kinds[2]) = (slot, Kind::Stream);
            let form = Form::Pair(PairOp::Multiply, PairOp::Add, kinds);
            self.vector(Level::Full, form, slot, from);
        } else {
            let (operand, kind) = self.operand(value, Level::Full);
            let form = Form::Binary(combining(combine), [kind, Kind::Stream]);
            self.vector(Level::Full, form, slot, [operand, slot, NO_SLOT]);
        }
    }

    pub(super) fn accumulate_rows(&mut self, index: usize, combine: Combine, value: usize) {
        let Some(place) = self.places[value] else {
            return;
        };
        let kind = match place.shape {
            Shape::Full => Kind::Stream,
            _ => Kind::Splat,
        };
        let work = Work::Accumulate {
            sum: index,
            shape: place.shape,
            fold: lookup(self.set, Form::Fold(combine, kind)),
        };
        self.push(Level::Full, work, NO_SLOT, [place.slot, NO_SLOT, NO_SLOT]);
    }

    /// A store for each column.
    pub(super) fn store(&mut self, value: usize, access: &Access) {
        let element = Element::of(access.dtype);
        let (slot, kind) = self.operand(value, Level::Full);
        let from = [slot, NO_SLOT, NO_SLOT];
        let stride = access.column_stride;
        let splat = kind == Kind::Splat;
        if self.in_place(access) {
            let walk = self.written_walk(access, false);
            let to = self.code.walks[walk].slot;
            let form = Form::Unary(ScalarOp::Identity, kind);
            self.vector(Level::Full, form, to, from);
        } else if self.is_dense_halves(access) {
            let walk = self.written_walk(access, false);
            let to = self.code.walks[walk].slot;
            self.vector(Level::Full, Form::Round(kind), to, from);
        } else if self.wide() {
            let walk = self.written_walk(access, false);
            let to = self.code.walks[walk].slot;
            let work = Work::Scatter {
                stride,
                element,
                splat,
            };
            self.push(Level::Full, work, to, from);
        } else {
            let walk = self.written_walk(access, true);
            let work = Work::ScatterRows {
                walk,
                stride,
                element,
                full: true,
                splat,
            };
            self.push(Level::Full, work, NO_SLOT, from);
        }
    }

    /// Row values stored or accumulated once for their row, after all else.
    pub(super) fn row_results(&mut self) {
        let domain = self.domain;
        for (index, sum) in domain.accumulates.iter().enumerate() {
            let Some(place) = self.places[sum.value.index()] else {
                continue;
            };
            if self.is_full(sum.value.index()) || domain.each_column[index] {
                continue;
            }
            let kind = match place.shape {
                Shape::Uniform => Kind::Splat,
                _ => Kind::Stream,
            };
            let work = Work::Accumulate {
                sum: index,
                shape: place.shape,
                fold: lookup(self.set, Form::Fold(sum.combine, kind)),
            };
            self.push_last(work, NO_SLOT, place.slot);
        }
        for store in &domain.stores {
            let Some(place) = self.places[store.value.index()] else {
                continue;
            };
            if self.is_full(store.value.index()) || store.access.column_stride != 0 {
                continue;
            }
            let element = Element::of(store.access.dtype);
            let splat = place.shape == Shape::Uniform;
            let walk = self.written_walk(&store.access, !self.wide());
            if self.wide() {
                let to = self.code.walks[walk].slot;
                let work = Work::Scatter {
                    stride: 0,
                    element,
                    splat,
                };
                self.push_last(work, to, place.slot);
            } else {
                let work = Work::ScatterRows {
                    walk,
                    stride: 0,
                    element,
                    full: false,
                    splat,
                };
                self.push_last(work, NO_SLOT, place.slot);
            }
        }
    }

    pub(super) fn push_last(&mut self, work: Work, to: Slot, from: Slot) {
        self.code.last.push(Step {
            work,
            to,
            from: [from, NO_SLOT, NO_SLOT],
        });
    }
}
