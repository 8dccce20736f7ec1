//! Operands fetched ahead: what the next strip reads of A and the next block of B, while this
//! one is computed. The hardware follows a row once the first products of a strip have waited for
//! its begin, and there are as many rows as a tile is tall; it does not foresee the few columns of A
//! that a weight's gradient reads of each row, nor where the next block begins. Rows that are rounded
//! or copied are all read before any is multiplied.

use super::prepare::element;
use super::problem::{Operand, Problem};
use super::split;
use std::ops::Range;

/// Columns of places in memory that a micro-kernel fetches between its steps, from each as much
/// as its tile is wide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    from: *const f32,
    /// From one line to the next.
    stride: usize,
    /// How many places of a line, and floats between them.
    pieces: usize,
    width: usize,
    /// The next place of the line.
    piece: usize,
    /// How many places are left.
    pub count: usize,
}

impl Ahead {
    pub const NOTHING: Ahead = Ahead {
        from: std::ptr::null(),
        stride: 0,
        pieces: 1,
        width: 0,
        piece: 0,
        count: 0,
    };

    /// The next place, if one is left.
    #[inline(always)]
    pub fn next(&mut self) -> Option<*const f32> {
        self.count = self.count.checked_sub(1)?;
        let place = self.from.wrapping_add(self.piece * self.width);
        self.piece += 1;
        if self.piece == self.pieces {
            self.piece = 0;
            self.from = self.from.wrapping_add(self.stride);
        }
        Some(place)
    }
}

/// Some rows and columns of an operand in memory, as lines of neighbouring floats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    from: *const f32,
    lines: usize,
    stride: usize,
    /// Floats of a line.
    length: usize,
}

impl Area {
    /// Part of an operand, if it is in memory and one of its axes is contiguous.
    pub fn new(
        operand: &Operand<'_>,
        problem: &Problem<'_>,
        batch: usize,
        [rows, columns]: [Range<usize>; 2],
    ) -> Option<Area> {
        let Operand::Memory(matrix) = operand else {
            return None;
        };
        let from = element(matrix, problem.batch, batch, [rows.start, columns.start]);
        let (lines, stride, length) = match matrix.strides {
            [stride, 1] => (rows.len(), stride, columns.len()),
            [1, stride] => (columns.len(), stride, rows.len()),
            _ => return None,
        };
        Some(Area {
            from,
            lines,
            stride,
            length,
        })
    }

    /// The share of one of several calls, each of which fetches `width` floats from a place.
    pub fn share(&self, width: usize, calls: usize, call: usize) -> Ahead {
        let pieces = self.length.div_ceil(width).max(1);
        // Neighbouring calls fetch one piece of each line.
        let calls_for_a_piece = (calls / pieces).max(1);
        let part = match pieces <= calls {
            true => {
                (call / calls_for_a_piece).min(pieces)..(call / calls_for_a_piece + 1).min(pieces)
            }
            false => split::part(pieces, 1, calls, call),
        };
        if part.is_empty() {
            return Ahead::NOTHING;
        }
        let lines = split::part(self.lines, 1, calls_for_a_piece, call % calls_for_a_piece);
        Ahead {
            from: self
                .from
                .wrapping_add(lines.start * self.stride + part.start * width),
            stride: self.stride,
            pieces: part.len(),
            width,
            piece: 0,
            count: lines.len() * part.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::Matrix;
    use super::*;

    #[test]
    fn calls_share_an_area() {
        let data = vec![0.0; 40 * 100];
        let operand = Operand::Memory(Matrix::new(&data, [100, 1]));
        let right = Operand::Memory(Matrix::new(&data, [1, 100]));
        let problem = Problem::new(&[], [40, 40, 100], operand, right).expect("it fits");
        let area = Area::new(&operand, &problem, 0, [4..34, 0..96]).expect("it is dense");
        let mut places = Vec::new();
        for calls in [10, 3, 2] {
            places.clear();
            for call in 0..calls {
                let mut ahead = area.share(32, calls, call);
                while let Some(place) = ahead.next() {
                    places.push((place as usize - data.as_ptr() as usize) / 4);
                }
            }
            places.sort_unstable();
            let all = (4..34).flat_map(|row| [0, 32, 64].map(|column| row * 100 + column));
            assert_eq!(places, all.collect::<Vec<_>>());
        }
    }
}
