//! Making rows of A readable where operands are rounded: never in place.

use super::block::{Block, Job};
use super::kernel::{Along, Rounding};
use super::pack::Lines;
use super::prepare::{Buffer, Panel, Rows, STEPS, competes, element, fill, padded};
use super::problem::{HalfMatrix, Matrix, Operand, batch_offset};
use super::round::HalfLines;
use std::ops::Range;

impl Job<'_> {
    /// Whether rows of an A in memory are rounded side by side, since they are neighbours.
    pub(super) fn rounds_by_steps(&self, a: &Matrix<'_>) -> bool {
        self.kernels.rounding.is_some() && a.strides[0] == 1 && a.strides[1] != 1
    }

    /// Lines of an operand that is rounded in memory, from a line and a step of depth on.
    fn half_lines(
        &self,
        matrix: &HalfMatrix<'_>,
        across: bool,
        batch: usize,
        [line, step]: [usize; 2],
        [count, depth]: [usize; 2],
    ) -> HalfLines {
        let [row, column] = if across { [step, line] } else { [line, step] };
        let start = batch_offset(batch, self.problem.batch, matrix.batch_strides);
        let from = matrix
            .from
            .wrapping_add(start + row * matrix.row_stride + column);
        HalfLines {
            from,
            stride: matrix.row_stride,
            count,
            depth,
        }
    }

    /// Makes such rows of A readable: in place where pairs of steps are.
    fn arrange_halves(
        &self,
        rounding: &Rounding,
        lines: &HalfLines,
        across: bool,
        buffer: &mut Buffer,
    ) -> Rows {
        let elements = lines.depth.div_ceil(rounding.steps);
        let pairs = rounding.steps == 2
            && lines.from.cast::<f32>().is_aligned()
            && lines.stride.is_multiple_of(2)
            && lines.depth.is_multiple_of(2);
        if !across && pairs && !competes(lines.stride / 2) {
            return Rows {
                from: lines.from.cast(),
                stride: lines.stride / 2,
                along: Along::Depth,
            };
        }
        let (along, count, stride, arrange) = match across {
            false => (
                Along::Depth,
                lines.count,
                padded(elements),
                rounding.half_lines,
            ),
            true => (
                Along::Rows,
                elements,
                padded(lines.count),
                rounding.half_across,
            ),
        };
        let to = buffer.get(count * stride).as_mut_ptr();
        // SAFETY: `kernels` are the CPU's; the lines are part of the operand, and the buffer has
        // room for all of them, each a whole number of registers.
        unsafe { arrange(lines, to, stride) };
        Rows {
            from: to,
            stride,
            along,
        }
    }

    /// Packs a block of a B that is rounded in memory, whose columns are neighbours.
    pub(super) fn pack_halves(
        &self,
        rounding: &Rounding,
        matrix: &HalfMatrix<'_>,
        block: &Block,
        packed: &mut Buffer,
        panels: &mut Vec<Panel>,
    ) {
        let (depth, width) = (block.depth.len(), block.columns.len());
        let elements = self.elements(block);
        let packed = packed.get(elements * width.next_multiple_of(self.kernels.panel()));
        let whole = Lines {
            from: std::ptr::null(),
            line_stride: 1,
            depth_stride: 0,
            count: width,
            depth,
        };
        self.list_panels(0, &whole, packed.as_mut_ptr(), panels);
        for start in (0..depth).step_by(STEPS) {
            for panel in panels.iter() {
                let first = [block.columns.start + panel.first, block.depth.start + start];
                let size = [panel.columns, STEPS.min(depth - start)];
                let lines = self.half_lines(matrix, true, block.batch, first, size);
                let to = panel.from.cast_mut();
                let to = to.wrapping_add(start / rounding.steps * panel.stride);
                // SAFETY: `kernels` are the CPU's; the lines are part of the operand, and the
                // panel has room for their elements, whole registers of them.
                unsafe { (rounding.half_across)(&lines, to, panel.stride) };
            }
        }
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
                if let Some(matrix) = source.halves() {
                    let first = [rows.start, block.depth.start];
                    let size = [rows.len(), depth];
                    let lines = self.half_lines(&matrix, transposed, block.batch, first, size);
                    return self.arrange_halves(rounding, &lines, transposed, buffer);
                }
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
