//! Values combined over rows: where they gather, and how partial results become whole.

use super::super::vector::{VectorFn, combine};
use super::moves::{Odometer, address, fill};
use super::program::{Code, Pending, Shape, Sum};
use super::run::{LoopProgram, PendingState, State, Tile};

/// Rows that are added up before their sum is added to the result.
const BLOCK: usize = 64;

impl LoopProgram {
    /// Empties the results of accumulates.
    pub(super) unsafe fn clear(&self) {
        for (sum, partials) in self.code.sums.iter().zip(&self.grid.partials) {
            let identity = sum.combine.identity();
            match partials {
                // SAFETY: partial results have `span` floats each.
                Some(partials) => unsafe {
                    let start = self.partials.add(partials.start);
                    fill(start, sum.span * partials.copies, identity);
                },
                None => sum.for_each_run(&self.code, |address, count, stride| {
                    for i in 0..count {
                        // SAFETY: the result's addresses were checked.
                        unsafe { sum.output.add(address + i * stride).write(identity) };
                    }
                }),
            }
        }
    }

    /// Combines partial results, in order.
    pub(super) unsafe fn merge(&self) {
        for (sum, partials) in self.code.sums.iter().zip(&self.grid.partials) {
            let Some(partials) = partials else { continue };
            sum.for_each_run(&self.code, |address, count, stride| {
                for first in (0..count).step_by(BLOCK) {
                    let mut block = [f64::from(sum.combine.identity()); BLOCK];
                    let length = BLOCK.min(count - first);
                    for copy in 0..partials.copies {
                        let start = partials.start + copy * sum.span + address + first * stride;
                        for (i, total) in block[..length].iter_mut().enumerate() {
                            // SAFETY: within the partial result.
                            let part = unsafe { self.partials.add(start + i * stride).read() };
                            *total = combine(sum.combine, *total, f64::from(part));
                        }
                    }
                    for (i, total) in block[..length].iter().enumerate() {
                        let to = sum.output.wrapping_add(address + (first + i) * stride);
                        // SAFETY: the result's addresses were checked.
                        unsafe { to.write(*total as f32) };
                    }
                }
            });
        }
    }

    pub(super) unsafe fn begin_sums(&self, state: &mut State, task: usize, range: (usize, usize)) {
        for (index, sum) in self.code.sums.iter().enumerate() {
            let target = match self.grid.partials[index] {
                None => sum.output,
                Some(partials) => {
                    let copy = if partials.by_task {
                        task
                    } else {
                        task / self.grid.column_tasks
                    };
                    let copy = copy.min(partials.copies - 1);
                    self.partials.wrapping_add(partials.start + copy * sum.span)
                }
            };
            state.pending[index] = PendingState {
                address: 0,
                rows: 0,
                target,
            };
            if let Pending::Row(room) = sum.pending {
                // SAFETY: the scratch row has room for all columns.
                unsafe {
                    let row = state.scratch.add(room + range.0);
                    fill(row, range.1 - range.0, sum.combine.identity());
                }
            }
        }
    }

    /// Adds a tile to an accumulate.
    #[expect(clippy::too_many_arguments)]
    pub(super) unsafe fn accumulate(
        &self,
        state: &mut State,
        index: usize,
        shape: Shape,
        fold: VectorFn,
        from: *mut f32,
        tile: &Tile,
        count: usize,
    ) {
        let sum = &self.code.sums[index];
        // For each row: how often its value counts.
        let times = count.checked_div(tile.rows).unwrap_or(0);
        let null = std::ptr::null();
        // SAFETY: as for `execute`.
        unsafe {
            if let Pending::Cell(cell) = sum.pending {
                let to = state.cells.as_mut_ptr().add(cell).cast();
                let together = shape == Shape::Full || (shape == Shape::Row && times == 1);
                if together && sum.strides.iter().all(|&stride| stride == 0) {
                    self.advance(state, index, 0, tile.range);
                    fold(to, from, null, null, count);
                    return;
                }
            }
            let mut position = state.index.to_vec();
            let mut position = Odometer::new(&self.code.outer, &mut position);
            if let (Pending::Cell(cell), Shape::Full) = (sum.pending, shape)
                && sum.strides.last() == Some(&0)
            {
                // All rows along the last outer axis have one result.
                let length = self.code.outer.last().copied().unwrap_or(1);
                let mut row = 0;
                while row < tile.rows {
                    let run = length - position.index.last().copied().unwrap_or(0);
                    let run = run.min(tile.rows - row);
                    let address = address(&sum.strides, position.index);
                    self.advance(state, index, address, tile.range);
                    let to = state.cells.as_mut_ptr().add(cell).cast();
                    let from = from.add(row * tile.columns);
                    fold(to, from, null, null, run * tile.columns);
                    row += run;
                    position.skip(run);
                }
                return;
            }
            for row in 0..tile.rows {
                self.advance(
                    state,
                    index,
                    address(&sum.strides, position.index),
                    tile.range,
                );
                position.advance();
                let from = match shape {
                    Shape::Full => from.add(row * tile.columns),
                    Shape::Row => from.add(row),
                    Shape::Uniform => from,
                };
                match sum.pending {
                    Pending::Cell(cell) => {
                        let to = state.cells.as_mut_ptr().add(cell).cast();
                        fold(to, from, null, null, times);
                    }
                    Pending::Columns(first) => {
                        let totals = &mut state.cells[first..first + tile.columns];
                        for (column, total) in totals.iter_mut().enumerate() {
                            let column = if shape == Shape::Full { column } else { 0 };
                            let value = f64::from(from.add(column).read());
                            *total = combine(sum.combine, *total, value);
                        }
                    }
                    // Only of tiles of one row, which steps add to.
                    Pending::Row(_) => {}
                }
            }
        }
    }

    /// Readies all pending sums for the row just entered.
    pub(super) unsafe fn advance_sums(&self, state: &mut State, range: (usize, usize)) {
        for index in 0..self.code.sums.len() {
            let address = address(&self.code.sums[index].strides, &state.index);
            // SAFETY: the caller's promise.
            unsafe { self.advance(state, index, address, range) };
        }
    }

    /// Readies the pending sum for one more row, whose result is at `address`.
    unsafe fn advance(
        &self,
        state: &mut State,
        index: usize,
        address: usize,
        range: (usize, usize),
    ) {
        let pending = state.pending[index];
        let full =
            pending.rows >= BLOCK && matches!(self.code.sums[index].pending, Pending::Row(_));
        if pending.rows > 0 && (full || pending.address != address) {
            // SAFETY: the caller's promise.
            unsafe { self.flush(state, index, range) };
        }
        let pending = &mut state.pending[index];
        pending.address = address;
        pending.rows += 1;
    }

    /// Adds the pending sum to its result.
    pub(super) unsafe fn flush(&self, state: &mut State, index: usize, range: (usize, usize)) {
        let sum = &self.code.sums[index];
        let pending = &mut state.pending[index];
        if pending.rows == 0 {
            return;
        }
        pending.rows = 0;
        // SAFETY: addresses of results were checked; rows have room for all columns.
        unsafe {
            match sum.pending {
                Pending::Cell(cell) => {
                    let to = pending.target.add(pending.address);
                    let value = &mut state.cells[cell];
                    let total = combine(sum.combine, f64::from(to.read()), *value);
                    to.write(total as f32);
                    *value = f64::from(sum.combine.identity());
                }
                Pending::Columns(first) => {
                    let to = pending.target.add(pending.address);
                    for column in 0..self.code.columns {
                        let to = to.add(column * sum.column_stride);
                        let value = &mut state.cells[first + column];
                        let total = combine(sum.combine, f64::from(to.read()), *value);
                        to.write(total as f32);
                        *value = f64::from(sum.combine.identity());
                    }
                }
                Pending::Row(room) => {
                    let count = range.1 - range.0;
                    let from = state.scratch.add(room + range.0);
                    let start = pending.address + range.0 * sum.column_stride;
                    let to = pending.target.add(start);
                    if sum.column_stride == 1 {
                        (sum.merge)(to, to, from, std::ptr::null(), count);
                    } else {
                        for i in 0..count {
                            let to = to.add(i * sum.column_stride);
                            (sum.merge)(to, to, from.add(i), std::ptr::null(), 1);
                        }
                    }
                    fill(from, count, sum.combine.identity());
                }
            }
        }
    }
}

impl Sum {
    /// Every address of the result, in runs: the first, how many, how far apart.
    fn for_each_run(&self, code: &Code, mut run: impl FnMut(usize, usize, usize)) {
        let kept: Vec<(usize, usize)> = code
            .outer
            .iter()
            .zip(&self.strides)
            .filter(|(_, stride)| **stride != 0)
            .map(|(&dim, &stride)| (dim, stride))
            .collect();
        let dims: Vec<usize> = kept.iter().map(|(dim, _)| *dim).collect();
        let strides: Vec<usize> = kept.iter().map(|(_, stride)| *stride).collect();
        let count = match self.pending {
            Pending::Cell(_) => 1,
            Pending::Row(_) | Pending::Columns(_) => code.columns,
        };
        let mut index = vec![0; dims.len()];
        let mut index = Odometer::new(&dims, &mut index);
        for _ in 0..dims.iter().product() {
            run(
                address(&strides, index.index),
                count,
                self.column_stride.max(1),
            );
            index.advance();
        }
    }
}
