//! Making rows of A readable where operands are rounded: never in place.

use super::block::{Block, Job};
use super::kernel::{Along, Rounding};
use super::pack::Lines;
use super::prepare::{Buffer, Rows, element, fill, padded};
use super::problem::{Matrix, Operand};
use std::ops::Range;

impl Job<'_> {
    /// Whether rows of an A in memory are rounded side by side, since they are neighbours.
    pub(super) fn rounds_by_steps(&self, a: &Matrix<'_>) -> bool {
        self.kernels.rounding.is_some() && a.strides[0] == 1 && a.strides[1] != 1
    }

    /// Rounds rows of A.
    pub(super) fn round_a(
        &self,
        rounding: &Rounding,
        block: &Block,
        rows: Range<usize>,
        buffer: &mut Buffer,
    ) -> Rows {
        let depth = block.depth.len();
        let along_depth = (Along::Depth, rows.len(), padded(self.elements(block)));
        let along_rows = (Along::Rows, self.elements(block), padded(rows.len()));
        match self.problem.a {
            Operand::Memory(matrix) => {
                let first = [rows.start, block.depth.start];
                let lines = Lines {
                    from: element(&matrix, self.problem.batch, block.batch, first),
                    line_stride: matrix.strides[0],
                    depth_stride: matrix.strides[1],
                    count: rows.len(),
                    depth,
                };
                let ((along, count, stride), round) = match matrix.strides {
                    [_, 1] => (along_depth, rounding.lines),
                    [1, _] => (along_rows, rounding.across),
                    _ => (along_depth, rounding.gather),
                };
                let to = buffer.get(count * stride).as_mut_ptr();
                // SAFETY: `kernels` are the CPU's; the lines lie inside the checked matrix, and
                // the buffer has room for all of them, each a whole number of registers.
                unsafe { round(&lines, to, stride) };
                Rows {
                    from: to,
                    stride,
                    along,
                }
            }
            Operand::Computed { source, transposed } => {
                let (height, width) = match transposed {
                    false => (rows.clone(), block.depth.clone()),
                    true => (block.depth.clone(), rows.clone()),
                };
                let from_stride = padded(width.len());
                let data = buffer.get(height.len() * from_stride);
                fill(source, block, height, width, data, from_stride);
                let to = data.as_mut_ptr();
                let (line_stride, depth_stride) = match transposed {
                    false => (from_stride, 1),
                    true => (1, from_stride),
                };
                let lines = Lines {
                    from: to,
                    line_stride,
                    depth_stride,
                    count: rows.len(),
                    depth,
                };
                let ((along, _, stride), round) = match transposed {
                    false => (along_depth, rounding.lines),
                    true => (along_rows, rounding.across),
                };
                // SAFETY: as above; in place, no element comes after the steps it is made of.
                unsafe { round(&lines, to, stride) };
                Rows {
                    from: to,
                    stride,
                    along,
                }
            }
        }
    }
}
