//! Where the walks of a kernel are, from row to row and from tile to tile.

use std::ops::Range;

use super::super::vector::Rows;
use super::moves::{address, fetch, unflatten};
use super::program::{Origin, Tiling};
use super::run::{LoopProgram, State, Tile};

impl LoopProgram {
    /// Points everything at the start of a row.
    #[inline]
    pub(super) fn enter_row(&self, state: &mut State, row: usize) {
        unflatten(&self.code.outer, row, &mut state.index);
        for (walk, start) in self.code.walks.iter().zip(state.starts.iter_mut()) {
            *start = walk.at(address(&walk.strides, &state.index));
            state.table[usize::from(walk.slot)] = *start;
        }
    }

    /// Counts one row further along the last axis, if there is one.
    #[inline(always)]
    fn count_row(&self, state: &mut State) -> bool {
        let (Some(&length), Some(along)) = (self.code.outer.last(), state.index.last_mut()) else {
            return false;
        };
        if *along + 1 >= length {
            return false;
        }
        *along += 1;
        true
    }

    /// Points everything at the start of the next row, if it lies as far from this one as others along
    /// the last axis.
    #[inline]
    pub(super) fn follow_row(&self, state: &mut State) -> bool {
        if !self.count_row(state) {
            return false;
        }
        for (walk, start) in self.code.walks.iter().zip(state.starts.iter_mut()) {
            *start = walk.element.step(*start, walk.along());
            state.table[usize::from(walk.slot)] = *start;
        }
        true
    }

    /// The same, but from whichever column everything points at; starts stay behind.
    #[inline]
    pub(super) fn step_row(&self, state: &mut State) -> bool {
        if !self.count_row(state) {
            return false;
        }
        for walk in &self.code.walks {
            let place = &mut state.table[usize::from(walk.slot)];
            *place = walk.element.step(*place, walk.along());
        }
        true
    }

    /// Fetches what the next row will read and write, an equal share in every phase. Rows
    /// are too short for the hardware to notice that they follow each other.
    #[inline]
    pub(super) fn fetch_next_row(&self, state: &State, phase: usize) {
        let (columns, phases) = (self.code.columns, self.code.phases.len());
        let part = columns * phase / phases..columns * (phase + 1) / phases;
        self.fetch_next(state, part);
    }

    /// Fetches some columns of the next row.
    #[inline]
    fn fetch_next(&self, state: &State, part: Range<usize>) {
        for (walk, start) in self.code.walks.iter().zip(state.starts.iter()) {
            if let Some(ahead) = walk.ahead {
                let element = walk.element;
                let [from, to] = [part.start, part.end]
                    .map(|at| element.step(*start, ahead + at * walk.column_stride));
                fetch(from, to);
            }
        }
    }

    /// Moves everything that follows the columns.
    #[inline]
    pub(super) fn move_to(&self, state: &mut State, column: usize) {
        for (walk, start) in self.code.walks.iter().zip(state.starts.iter()) {
            state.table[usize::from(walk.slot)] =
                walk.element.step(*start, column * walk.column_stride);
        }
        for (pointer, origin) in state.table.iter_mut().zip(&self.code.slots) {
            if let Origin::ScratchRow(offset) = origin {
                *pointer = state.scratch.wrapping_add(offset + column);
            }
        }
    }

    /// Points everything at the first of a few short rows.
    pub(super) fn enter_tile(&self, state: &mut State, first: usize, rows: usize, end: usize) {
        let code = &self.code;
        unflatten(&code.outer, first, &mut state.index);
        for (walk, start) in code.walks.iter().zip(state.starts.iter_mut()) {
            *start = walk.base;
            if !walk.listed {
                *start = walk.at(address(&walk.strides, &state.index));
            }
            state.table[usize::from(walk.slot)] = *start;
        }
        self.list_tile(state, first, rows, end);
    }

    /// Lists the addresses of a tile's rows, and of those behind it up to `end`.
    fn list_tile(&self, state: &mut State, first: usize, rows: usize, end: usize) {
        let height = self.code.tile_rows();
        if self.code.walks.iter().all(|walk| !walk.listed) {
            return;
        }
        if state.next == (first..first + rows) {
            for listed in state.listed.iter_mut().filter(|listed| !listed.is_empty()) {
                listed.copy_within(height..height + rows, 0);
            }
        } else {
            self.list_rows(state, first..first + rows, 0);
        }
        state.next = first + rows..end.min(first + rows + height);
        self.list_rows(state, state.next.clone(), height);
        unflatten(&self.code.outer, first, &mut state.index);
    }

    /// Lists the addresses of rows, a run along the last outer axis at a time.
    fn list_rows(&self, state: &mut State, rows: Range<usize>, at: usize) {
        let code = &self.code;
        let length = code.outer.last().copied().unwrap_or(1);
        let mut done = 0;
        while done < rows.len() {
            unflatten(&code.outer, rows.start + done, &mut state.index);
            let along = state.index.last().copied().unwrap_or(0);
            let run = (length - along).min(rows.len() - done);
            for (walk, listed) in code.walks.iter().zip(&mut state.listed) {
                if walk.listed {
                    let start = address(&walk.strides, &state.index);
                    let step = walk.along();
                    let listed = &mut listed[at + done..at + done + run];
                    for (row, element) in listed.iter_mut().enumerate() {
                        *element = start + row * step;
                    }
                }
            }
            done += run;
        }
    }

    /// The addresses of a tile's rows, and of the next tile's.
    #[inline]
    pub(super) fn listed<'a>(
        &self,
        state: &'a State,
        walk: usize,
        tile: &Tile,
    ) -> (&'a [usize], &'a [usize]) {
        let (rows, next) = state.listed[walk].split_at(self.code.tile_rows());
        (&rows[..tile.rows], &next[..state.next.len()])
    }

    /// The rows of a tile that a walk takes every second element of, from `row` on if there is one
    /// only.
    pub(super) fn pairs_of<'a>(
        &self,
        state: &'a State,
        walk: usize,
        tile: &Tile,
        row: *mut f32,
    ) -> Rows<'a> {
        if let Tiling::Wide { .. } = self.code.tiling {
            return Rows::one(row, tile.columns, 2);
        }
        let (starts, next) = self.listed(state, walk, tile);
        Rows {
            base: self.code.walks[walk].base,
            starts,
            next,
            columns: tile.columns,
            stride: 2,
            roomy: true,
        }
    }
}
