//! Regular parts of tensors: what a slice takes, where a piece goes, what a window sees.

use std::fmt;

use super::{Layout, Number, Shape};

/// Evenly spaced places along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Steps {
    /// The first place.
    pub start: usize,
    /// How many there are.
    pub count: usize,
    /// From one to the next; at least 1.
    pub step: usize,
}

impl Steps {
    /// All places of an axis of this size.
    pub fn all(size: usize) -> Steps {
        Steps {
            start: 0,
            count: size,
            step: 1,
        }
    }

    /// One past the last place, or the start when there are none.
    pub fn end(self) -> usize {
        match self.count.checked_sub(1) {
            Some(last) => self.start + last * self.step + 1,
            None => self.start,
        }
    }

    /// The places of these that others count.
    pub fn of(self, inner: Steps) -> Steps {
        Steps {
            start: self.start + inner.start * self.step,
            count: inner.count,
            step: self.step * inner.step,
        }
    }

    /// Which of the places this one is, if it is one.
    pub fn position(self, place: usize) -> Option<usize> {
        let from = place.checked_sub(self.start)?;
        let position = from / self.step.max(1);
        (from % self.step.max(1) == 0 && position < self.count).then_some(position)
    }

    fn meets(self, other: Steps) -> bool {
        (0..self.count).any(|i| other.position(self.start + i * self.step).is_some())
    }

    /// Whether two regions, given along every axis, have a place in common.
    pub fn meet(a: &[Steps], b: &[Steps]) -> bool {
        a.iter().zip(b).all(|(a, b)| a.meets(*b))
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end())?;
        match self.step {
            1 => Ok(()),
            step => write!(f, " by {step}"),
        }
    }
}

/// A tensor put together of pieces over a fill value: padding, concatenation, and the
/// gradients of everything that looks at a part.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Assembly {
    /// The shape of the whole.
    pub shape: Shape,
    /// For each operand, where it goes along every axis; no two pieces meet.
    pub pieces: Vec<Vec<Steps>>,
    /// What stands where no piece is.
    pub fill: Number,
}

impl Assembly {
    /// Whether the pieces leave nothing to fill.
    pub fn is_covered(&self) -> bool {
        let pieces = self.pieces.iter();
        let covered: usize = pieces
            .map(|piece| piece.iter().map(|steps| steps.count).product::<usize>())
            .sum();
        covered == self.shape.elements()
    }

    /// Whether what stands where no piece is are zeros, bit by bit.
    pub fn fills_with_zeros(&self) -> bool {
        self.fill.value().to_bits() == 0
    }

    /// What is wrong with it, in words that read well after the op's name.
    pub fn problem(&self) -> Option<String> {
        let fits = |piece: &Vec<Steps>| {
            piece.len() == self.shape.rank()
                && piece
                    .iter()
                    .zip(self.shape.dims())
                    .all(|(steps, &dim)| steps.step > 0 && steps.end() <= dim)
        };
        if !self.pieces.iter().all(fits) {
            return Some(format!("has a piece that is not within {}", self.shape));
        }
        for (index, piece) in self.pieces.iter().enumerate() {
            for other in &self.pieces[..index] {
                if Steps::meet(piece, other) {
                    return Some("has two pieces in one place".to_owned());
                }
            }
        }
        None
    }
}

impl fmt::Display for Assembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, piece) in self.pieces.iter().enumerate() {
            let axes: Vec<String> = piece.iter().map(Steps::to_string).collect();
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}[{}]", axes.join(", "))?;
        }
        match self.is_covered() {
            true => Ok(()),
            false => write!(f, " over {}", self.fill.value()),
        }
    }
}

/// A window that moves along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Window {
    /// The axis.
    pub axis: usize,
    /// How many places it sees.
    pub size: usize,
    /// From one window to the next; at least 1.
    pub step: usize,
    /// From one place it sees to the next; at least 1.
    pub dilation: usize,
}

impl Window {
    /// The places from the first it sees to the last.
    pub fn extent(self) -> usize {
        self.size.saturating_sub(1) * self.dilation + 1
    }

    /// How many windows an axis of this length has.
    pub fn count(self, length: usize) -> usize {
        match length.checked_sub(self.extent()) {
            Some(rest) => rest / self.step.max(1) + 1,
            None => 0,
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} along axis {}", self.size, self.axis)?;
        if self.step != 1 {
            write!(f, ", step {}", self.step)?;
        }
        if self.dilation != 1 {
            write!(f, ", dilation {}", self.dilation)?;
        }
        Ok(())
    }
}

impl Layout {
    /// The elements at these places along every axis.
    pub fn sliced(&self, ranges: &[Steps]) -> Layout {
        let mut result = self.clone();
        let empty = ranges.iter().any(|steps| steps.count == 0);
        for (axis, steps) in ranges.iter().enumerate() {
            result.dims[axis] = steps.count;
            result.strides[axis] *= steps.step;
            // Nothing lies at the start of nothing.
            if !empty {
                result.offset += self.strides[axis] * steps.start;
            }
        }
        result
    }

    /// The windows along an axis, and what each sees along a new last one.
    pub fn windowed(&self, window: Window) -> Layout {
        let mut result = self.clone();
        let stride = self.strides[window.axis];
        result.dims[window.axis] = window.count(self.dims[window.axis]);
        result.strides[window.axis] = stride * window.step;
        result.dims.push(window.size);
        result.strides.push(stride * window.dilation);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted() {
        let window = |size, step, dilation| Window {
            axis: 0,
            size,
            step,
            dilation,
        };
        assert_eq!(window(3, 1, 1).count(7), 5);
        assert_eq!(window(3, 2, 1).count(8), 3);
        assert_eq!(window(3, 1, 3).count(7), 1);
        assert_eq!(window(3, 1, 3).count(6), 0);
    }

    #[test]
    fn pieces_must_fit_and_keep_apart() {
        let steps = |start, count, step| Steps { start, count, step };
        let assembly = |pieces: &[Steps]| Assembly {
            shape: Shape::from([7]),
            pieces: pieces.iter().map(|&steps| vec![steps]).collect(),
            fill: Number::new(0.0),
        };
        assert!(
            assembly(&[steps(0, 4, 2), steps(1, 3, 2)])
                .problem()
                .is_none()
        );
        assert!(assembly(&[steps(0, 4, 2), steps(1, 3, 2)]).is_covered());
        assert!(!assembly(&[steps(0, 4, 2)]).is_covered());
        assert!(assembly(&[steps(0, 5, 2)]).problem().is_some());
        assert!(
            assembly(&[steps(0, 4, 2), steps(4, 1, 1)])
                .problem()
                .is_some()
        );
        assert_eq!(
            assembly(&[steps(1, 3, 2)]).to_string(),
            "[1..6 by 2] over 0"
        );
    }
}
