//! Products with few rows or few columns, as dot products of contiguous lines.
//!
//! Micro-kernels have their lanes along the columns of C, which needs a copy of a B whose
//! depth is contiguous, and leaves lanes empty if there are few columns. Here the lanes are
//! along depth instead.

use super::block::{Block, Destination, Job};
use super::kernel::{DOT_COLUMNS, DotCall};
use super::prepare::{Scratch, element, padded};
use super::problem::{Matrix, Operand, Problem, Tile, batch_offset};
use super::split;
use std::ops::Range;

/// With up to this many rows, copying a B whose depth is contiguous would not pay off.
const FEW_ROWS: usize = 16;
/// Up to this many columns leave a good part of a micro-kernel's lanes empty.
const FEW_COLUMNS: usize = 12;
/// The depth from which on adding up the lanes at the end does not matter.
const ENOUGH_DEPTH: usize = 192;
/// Rows and columns of C that are handed on at a time.
const STRIP: [usize; 2] = [32, split::WIDEST];

/// Whether a problem is computed by dot products. It depends on sizes and layouts only.
pub(super) fn suits(problem: &Problem<'_>) -> bool {
    let (Operand::Memory(a), Operand::Memory(b)) = (&problem.a, &problem.b) else {
        return false;
    };
    let [m, n, k] = problem.size;
    let worth_it = m <= FEW_ROWS && is_along_depth(b) || n <= FEW_COLUMNS && m > FEW_ROWS;
    a.strides[1] == 1 && k >= ENOUGH_DEPTH && worth_it
}

/// Whether the depth of B is contiguous.
fn is_along_depth(b: &Matrix<'_>) -> bool {
    b.strides[0] == 1
}

/// Columns of B with contiguous depth.
#[derive(Clone, Copy)]
struct Columns {
    from: *const f32,
    stride: usize,
}

impl Job<'_> {
    /// Computes a block (of all depth) by dot products.
    pub(super) fn dots(&self, block: &Block, scratch: &mut Scratch) {
        let (Operand::Memory(a), Operand::Memory(b)) = (&self.problem.a, &self.problem.b) else {
            unreachable!("`suits` asks for operands in memory");
        };
        let columns = self.columns_along_depth(b, block, scratch);
        let width = block.columns.len();
        let parts = [
            block.rows.len().div_ceil(STRIP[0]),
            width.div_ceil(STRIP[1]),
        ];
        for row_part in 0..parts[0] {
            for column_part in 0..parts[1] {
                let row_unit = self.problem.row_unit.min(STRIP[0]);
                let rows = split::part(block.rows.len(), row_unit, parts[0], row_part);
                let strip_columns = split::part(width, 1, parts[1], column_part);
                let part = Block {
                    rows: block.rows.start + rows.start..block.rows.start + rows.end,
                    columns: block.columns.start + strip_columns.start
                        ..block.columns.start + strip_columns.end,
                    depth: block.depth.clone(),
                    ..*block
                };
                let columns = Columns {
                    from: columns
                        .from
                        .wrapping_add(strip_columns.start * columns.stride),
                    ..columns
                };
                self.dot_strip(a, columns, part, scratch);
            }
        }
    }

    /// Makes the depth of B contiguous, in place if it is.
    fn columns_along_depth(&self, b: &Matrix<'_>, block: &Block, scratch: &mut Scratch) -> Columns {
        let first = [block.depth.start, block.columns.start];
        let from = element(b, self.problem.batch, block.batch, first);
        if is_along_depth(b) {
            return Columns {
                from,
                stride: b.strides[1],
            };
        }
        let (depth, count) = (block.depth.len(), block.columns.len());
        let stride = padded(depth);
        let buffer = scratch.b.get(count * stride);
        for step in 0..depth {
            for column in 0..count {
                let at = step * b.strides[0] + column * b.strides[1];
                // SAFETY: this column and step of the checked matrix.
                buffer[column * stride + step] = unsafe { *from.add(at) };
            }
        }
        Columns {
            from: buffer.as_ptr(),
            stride,
        }
    }

    /// Computes a strip of C and hands it on.
    fn dot_strip(&self, a: &Matrix<'_>, columns: Columns, strip: Block, scratch: &mut Scratch) {
        let (height, width) = (strip.rows.len(), strip.columns.len());
        let (c, c_stride, accumulate) = match self.destination {
            Destination::Memory(memory) => {
                let at = batch_offset(strip.batch, self.problem.batch, memory.batch_strides)
                    + strip.rows.start * memory.row_stride
                    + strip.columns.start;
                (
                    memory.to.wrapping_add(at),
                    memory.row_stride,
                    memory.accumulate,
                )
            }
            Destination::Tiles(_) | Destination::Turned(_) => {
                (scratch.sums.get(height * width).as_mut_ptr(), width, false)
            }
        };
        let call = DotCall {
            depth: strip.depth.len(),
            a: element(
                a,
                self.problem.batch,
                strip.batch,
                [strip.rows.start, strip.depth.start],
            ),
            a_stride: a.strides[0],
            b: columns.from,
            b_stride: columns.stride,
            c,
            c_stride,
            accumulate,
        };
        self.dot_tiles(&call, height, width);
        if let Destination::Tiles(function) = self.destination {
            // SAFETY: the strip in the thread's own buffer, which nobody else refers to.
            let data = unsafe { std::slice::from_raw_parts_mut(c, height * width) };
            function.tile(Tile {
                batch: strip.batch,
                rows: strip.rows,
                columns: strip.columns,
                data,
                stride: c_stride,
                worker: strip.worker,
            });
        }
    }

    /// Covers a strip with tiles of nearly equal size.
    fn dot_tiles(&self, strip: &DotCall, height: usize, width: usize) {
        let row_parts = height.div_ceil(self.kernels.dots.len());
        let column_parts = width.div_ceil(DOT_COLUMNS);
        let tile = |row_part: usize, column_part: usize| {
            let rows = split::part(height, 1, row_parts, row_part);
            let columns = split::part(width, 1, column_parts, column_part);
            self.dot_tile(strip, rows, columns);
        };
        // The side with fewer lines passes again and again, from cache.
        if height < width {
            for column_part in 0..column_parts {
                (0..row_parts).for_each(|row_part| tile(row_part, column_part));
            }
        } else {
            for row_part in 0..row_parts {
                (0..column_parts).for_each(|column_part| tile(row_part, column_part));
            }
        }
    }

    fn dot_tile(&self, strip: &DotCall, rows: Range<usize>, columns: Range<usize>) {
        let kernel = self.kernels.dots[rows.len() - 1][columns.len() - 1];
        let call = DotCall {
            a: strip.a.wrapping_add(rows.start * strip.a_stride),
            b: strip.b.wrapping_add(columns.start * strip.b_stride),
            c: strip
                .c
                .wrapping_add(rows.start * strip.c_stride + columns.start),
            ..*strip
        };
        // SAFETY: `kernels` are the CPU's; rows, columns and depth lie inside A, B and the
        // strip of C, which belongs to this thread.
        unsafe { kernel(&call) };
    }
}
