//! Rows chosen by indices, and rows added at indices.

use super::loops::share;
use super::memory::Region;
use super::pool::Pool;
use super::vector::{Form, InstructionSet, Kind, VectorFn, lookup};
use crate::ir::{DType, bf16};
use crate::schedule::kernel::{GatherKernel, ScatterAddKernel};

/// Elements that are worth a task of their own.
const TASK: usize = 16 * 1024;
/// More tasks than this only cost.
const TASKS: usize = 32;
/// Columns that are worth a task of their own, when there is work enough.
const COLUMNS: usize = 64;

/// A gather with its buffers.
pub(super) struct GatherProgram {
    table: Region,
    indices: Region,
    output: Region,
    rows: usize,
    width: usize,
    count: usize,
    /// Copies elements of the table to the output.
    copy: RowCopy,
}

/// How elements go from one buffer to another.
#[derive(Clone, Copy)]
enum RowCopy {
    /// So many bytes each, as they are.
    Bytes(usize),
    /// Floats to halves or back.
    Convert(VectorFn),
}

impl RowCopy {
    fn new(from: Region, to: Region, set: InstructionSet) -> RowCopy {
        match (from.dtype == DType::BF16, to.dtype == DType::BF16) {
            (true, false) => RowCopy::Convert(lookup(set, Form::Widen)),
            (false, true) => RowCopy::Convert(lookup(set, Form::Round(Kind::Stream))),
            _ => RowCopy::Bytes(from.dtype.size()),
        }
    }

    /// # Safety
    /// There must be so many elements.
    unsafe fn run(self, from: *const f32, to: *mut f32, count: usize) {
        let null = std::ptr::null();
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                RowCopy::Bytes(size) => {
                    let to = to.cast::<u8>();
                    to.copy_from_nonoverlapping(from.cast(), count * size);
                }
                RowCopy::Convert(convert) => convert(to, from, null, null, count),
            }
        }
    }
}

impl GatherProgram {
    /// The kernel has been checked against the buffers.
    pub(super) fn new(kernel: &GatherKernel, buffers: &[Region], set: InstructionSet) -> Self {
        let [table, output] = [kernel.table, kernel.output].map(|id| buffers[id.index()]);
        Self {
            table,
            indices: buffers[kernel.indices.index()],
            output,
            copy: RowCopy::new(table, output, set),
            rows: kernel.rows,
            width: kernel.width,
            count: kernel.count,
        }
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// The buffers are still there and nobody else uses them.
    pub(super) unsafe fn run(&self, pool: &Pool) {
        let tasks = (self.count * self.width / TASK).clamp(1, TASKS);
        pool.run(tasks, |task, _| {
            for i in share(self.count, tasks, task) {
                // SAFETY: the buffers are as large as the sizes say; a task writes rows of
                // its own.
                unsafe {
                    let index = self.indices.base.cast::<u32>().add(i).read() as usize;
                    let to = self.output.at(i * self.width);
                    if index < self.rows {
                        let from = self.table.at(index * self.width);
                        self.copy.run(from, to, self.width);
                    } else if self.output.dtype == DType::BF16 {
                        let to = std::slice::from_raw_parts_mut(to.cast(), self.width);
                        to.fill(bf16::round(f32::NAN));
                    } else {
                        std::slice::from_raw_parts_mut(to, self.width).fill(f32::NAN);
                    }
                }
            }
        });
    }
}

/// A scatter-add with its buffers.
pub(super) struct ScatterAddProgram {
    updates: Region,
    indices: Region,
    output: Region,
    rows: usize,
    width: usize,
    count: usize,
}

impl ScatterAddProgram {
    /// The kernel has been checked against the buffers.
    pub(super) fn new(kernel: &ScatterAddKernel, buffers: &[Region]) -> Self {
        Self {
            updates: buffers[kernel.updates.index()],
            indices: buffers[kernel.indices.index()],
            output: buffers[kernel.output.index()],
            rows: kernel.rows,
            width: kernel.width,
            count: kernel.count,
        }
    }

    /// Runs the kernel. Each task has some rows of the output for itself, which other kernels
    /// give the same thread, or some columns where many updates may fall on few rows: every
    /// element is added up in the order of the indices.
    ///
    /// # Safety
    /// The buffers are still there and nobody else uses them.
    pub(super) unsafe fn run(&self, pool: &Pool) {
        let work = (self.count + self.rows) * self.width;
        let tasks = (work / TASK).clamp(1, TASKS);
        let columns = tasks.min(self.width / COLUMNS);
        // SAFETY: the caller's promise; tasks have rectangles of their own.
        if columns > 1 && self.count > self.rows {
            pool.run(columns, |task, _| unsafe {
                self.rectangle(0..self.rows, share(self.width, columns, task));
            });
        } else {
            // Every task reads all indices.
            let tasks = tasks.min(self.width.max(1)).min(self.rows).max(1);
            pool.run(tasks, |task, _| unsafe {
                self.rectangle(share(self.rows, tasks, task), 0..self.width);
            });
        }
    }

    /// All that falls on some rows and columns of the output.
    unsafe fn rectangle(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) {
        let width = columns.len();
        // SAFETY: the buffers are as large as the sizes say; the rectangle is the caller's.
        unsafe {
            for row in rows.clone() {
                let to = self.output.base.add(row * self.width + columns.start);
                std::slice::from_raw_parts_mut(to, width).fill(0.0);
            }
            for i in 0..self.count {
                let row = self.indices.base.cast::<u32>().add(i).read() as usize;
                if !rows.contains(&row) {
                    continue;
                }
                let to = self.output.base.add(row * self.width + columns.start);
                let from = self.updates.at(i * self.width + columns.start);
                let to = std::slice::from_raw_parts_mut(to, width);
                if self.updates.dtype == DType::BF16 {
                    let from = std::slice::from_raw_parts(from.cast::<u16>(), width);
                    for (to, from) in to.iter_mut().zip(from) {
                        *to += bf16::widen(*from);
                    }
                    continue;
                }
                let from = std::slice::from_raw_parts(from, width);
                for (to, from) in to.iter_mut().zip(from) {
                    *to += from;
                }
            }
        }
    }
}
