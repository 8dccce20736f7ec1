//! Operands fetched ahead: what the next strip reads of A and the next block of B, while this
//! one is computed. The hardware follows a row once the first products of a strip have waited for
//! its begin, and there are as many rows as a tile is tall; it does not foresee the few columns of A
//! that a weight's gradient reads of each row, nor where the next block begins. Rows that are rounded
//! or copied are all read before any is multiplied.

use super::prepare::element;
use super::problem::{Operand, Problem};
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

    /// The next place, if any are left.
    #[inline(always)]
    pub fn next(&mut self) -> *const f32 {
        self.count = self.count.wrapping_sub(1);
        let place = self.from.wrapping_add(self.piece * self.width);
        self.piece += 1;
        if self.piece == self.pieces {
            self.piece = 0;
            self.from = self.from.wrapping_add(self.stride);
        }
        place
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

    /// The shares of several tiles, each of which fetches `width` floats from a place.
    pub fn shares(&self, width: usize, tiles: usize) -> Shares {
        let count = self.length.div_ceil(width).max(1);
        let mut pieces = Cuts::new(count, count.min(tiles).max(1));
        Shares {
            area: *self,
            width,
            // Neighbouring tiles fetch one piece of each line.
            lines: Cuts::new(self.lines, (tiles / count).max(1)),
            piece: pieces.next(),
            pieces,
        }
    }
}

/// The shares of tiles, one after the other. Tiles may be small, so that there are divisions only
/// where a walk over them begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    area: Area,
    width: usize,
    /// The lines of neighbouring tiles, which fetch the same pieces of them.
    lines: Cuts,
    /// The pieces of a line: where the next tile's begin, and where they end.
    piece: [usize; 2],
    pieces: Cuts,
}

impl Shares {
    pub const NOTHING: Shares = Shares {
        area: Area {
            from: std::ptr::null(),
            lines: 0,
            stride: 0,
            length: 0,
        },
        width: 0,
        lines: Cuts::NOTHING,
        piece: [0, 0],
        pieces: Cuts::NOTHING,
    };

    /// The share of the next tile.
    #[inline(always)]
    pub fn next(&mut self) -> Ahead {
        let [piece, end] = self.piece;
        if piece == end {
            return Ahead::NOTHING;
        }
        let [line, last] = self.lines.next();
        if self.lines.left == 0 {
            self.lines.restart();
            self.piece = self.pieces.next();
        }
        let Area { from, stride, .. } = self.area;
        Ahead {
            from: from.wrapping_add(line * stride + piece * self.width),
            stride,
            pieces: end - piece,
            width: self.width,
            piece: 0,
            count: (last - line) * (end - piece),
        }
    }
}

/// Shares of areas that follow each other, most of which are cut alike.
pub(super) struct Alike {
    tiles: usize,
    /// Those of the area before.
    before: Shares,
}

impl Alike {
    pub const NOTHING: Alike = Alike {
        tiles: 0,
        before: Shares::NOTHING,
    };

    /// The shares of several tiles, each of which fetches `width` floats from a place.
    pub fn shares(&mut self, area: Option<Area>, width: usize, tiles: usize) -> Shares {
        let Some(area) = area else {
            return Shares::NOTHING;
        };
        let size = |area: &Area| (area.lines, area.length);
        match self.tiles == tiles && size(&self.before.area) == size(&area) {
            true => self.before.area = area,
            false => self.before = area.shares(width, tiles),
        }
        self.tiles = tiles;
        self.before
    }
}

/// Cuts a length into nearly equal parts, as [`split::part`](super::split::part) does.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    parts: usize,
    /// How many are left.
    left: usize,
    /// Where the next one begins, less so many parts of one.
    at: usize,
    error: usize,
    /// Their length, and so many parts of one.
    length: usize,
    rest: usize,
}

impl Cuts {
    const NOTHING: Cuts = Cuts {
        parts: 1,
        left: 0,
        at: 0,
        error: 0,
        length: 0,
        rest: 0,
    };

    fn new(length: usize, parts: usize) -> Cuts {
        Cuts {
            parts,
            left: parts,
            length: length / parts,
            rest: length % parts,
            ..Cuts::NOTHING
        }
    }

    /// Where the next part begins and ends, or nothing behind the last one.
    #[inline(always)]
    fn next(&mut self) -> [usize; 2] {
        let begin = self.at;
        if self.left == 0 {
            return [begin, begin];
        }
        self.left -= 1;
        self.at += self.length;
        self.error += self.rest;
        if self.error >= self.parts {
            self.error -= self.parts;
            self.at += 1;
        }
        [begin, self.at]
    }

    #[inline(always)]
    fn restart(&mut self) {
        (self.left, self.at, self.error) = (self.parts, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::Matrix;
    use super::super::split;
    use super::*;

    #[test]
    fn tiles_share_an_area() {
        let data = vec![0.0; 40 * 100];
        let operand = Operand::Memory(Matrix::new(&data, [100, 1]));
        let right = Operand::Memory(Matrix::new(&data, [1, 100]));
        let problem = Problem::new(&[], [40, 40, 100], operand, right).expect("it fits");
        let area = Area::new(&operand, &problem, 0, [4..34, 0..96]).expect("it is dense");
        let mut places = Vec::new();
        for tiles in [100, 10, 3, 2] {
            places.clear();
            let mut shares = area.shares(32, tiles);
            for _ in 0..tiles {
                let mut ahead = shares.next();
                for _ in 0..ahead.count {
                    places.push((ahead.next() as usize - data.as_ptr() as usize) / 4);
                }
            }
            places.sort_unstable();
            let all = (4..34).flat_map(|row| [0, 32, 64].map(|column| row * 100 + column));
            assert_eq!(places, all.collect::<Vec<_>>());
        }
    }

    #[test]
    fn cuts_are_those_of_parts() {
        for (length, parts) in [(0, 3), (10, 3), (100, 7), (3, 8), (64, 16)] {
            let mut cuts = Cuts::new(length, parts);
            for _ in 0..2 {
                for index in 0..parts {
                    let part = split::part(length, 1, parts, index);
                    assert_eq!(cuts.next(), [part.start, part.end]);
                }
                assert_eq!(cuts.next(), [length, length]);
                cuts.restart();
            }
        }
    }
}
