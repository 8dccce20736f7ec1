use std::fmt;

/// The concrete sizes of a tensor's axes, outermost first. `[]` is a scalar.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Shape(Box<[usize]>);

impl Shape {
    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// The sizes, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements (1 for a scalar).
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// The size of the last axis, 1 for a scalar.
    pub fn last(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }

    /// NumPy broadcasting of two shapes, `None` when they do not fit.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let dim = |shape: &Shape, axis: usize| {
            let missing = rank - shape.rank();
            if axis < missing {
                1
            } else {
                shape.0[axis - missing]
            }
        };
        (0..rank)
            .map(|axis| match (dim(self, axis), dim(other, axis)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(Shape::from)
    }

    /// This shape with the given axes set to size 1, as reductions leave it.
    pub fn reduced(&self, axes: &[usize]) -> Shape {
        let mut dims = self.0.to_vec();
        for &axis in axes {
            dims[axis] = 1;
        }
        Shape::from(dims)
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(dims.into())
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape(dims.into())
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape(dims.into())
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Shape {
        shape.clone()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (axis, dim) in self.0.iter().enumerate() {
            if axis > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where the elements of a tensor lie in a buffer: `offset + Σ index[axis] · strides[axis]`.
///
/// Views (reshape, transpose, broadcast) are layouts of the same buffer where that is
/// possible, and cost nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Sizes of the axes.
    pub dims: Vec<usize>,
    /// Elements to step per axis; 0 repeats.
    pub strides: Vec<usize>,
    /// The element the first index falls on.
    pub offset: usize,
}

impl Layout {
    /// Row-major without gaps.
    pub fn contiguous(shape: &Shape) -> Layout {
        let dims = shape.dims().to_vec();
        let mut strides = vec![1; dims.len()];
        for axis in (1..dims.len()).rev() {
            strides[axis - 1] = strides[axis] * dims[axis].max(1);
        }
        Layout {
            dims,
            strides,
            offset: 0,
        }
    }

    /// Whether the elements follow each other in row-major order from offset 0.
    pub fn is_contiguous(&self) -> bool {
        self.offset == 0 && {
            let mut expected = 1;
            self.dims
                .iter()
                .zip(&self.strides)
                .rev()
                .all(|(&dim, &stride)| {
                    let fits = dim == 1 || stride == expected;
                    expected *= dim;
                    fits
                })
        }
    }

    /// Whether every index falls on the same element.
    pub fn is_uniform(&self) -> bool {
        self.dims
            .iter()
            .zip(&self.strides)
            .all(|(&dim, &stride)| dim <= 1 || stride == 0)
    }

    /// The same elements with the axes in another order.
    pub fn permuted(&self, permutation: &[usize]) -> Layout {
        Layout {
            dims: permutation.iter().map(|&axis| self.dims[axis]).collect(),
            strides: permutation.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// The same elements repeated along new or size-1 axes (NumPy alignment).
    pub fn broadcast(&self, shape: &Shape) -> Layout {
        let missing = shape.rank() - self.dims.len();
        let strides = (0..shape.rank())
            .map(|axis| match axis.checked_sub(missing) {
                Some(own) if self.dims[own] == shape.dims()[axis] => self.strides[own],
                _ => 0,
            })
            .collect();
        Layout {
            dims: shape.dims().to_vec(),
            strides,
            offset: self.offset,
        }
    }

    /// The same elements in the same row-major order under other sizes, `None` when no
    /// strides express it (a transposed tensor flattened, say).
    pub fn reshaped(&self, shape: &Shape) -> Option<Layout> {
        let (mut dims, mut strides) = (Vec::new(), Vec::new());
        // Merge axes that step through memory as one, drop those of size 1.
        for (&dim, &stride) in self.dims.iter().zip(&self.strides) {
            if dim == 1 {
                continue;
            }
            match (dims.last_mut(), strides.last_mut()) {
                (Some(last), Some(step)) if *step == stride * dim => {
                    *last *= dim;
                    *step = stride;
                }
                _ => {
                    dims.push(dim);
                    strides.push(stride);
                }
            }
        }
        if shape.elements() == 0 {
            return Some(Layout::contiguous(shape));
        }
        // Split them again along the new sizes, from the innermost.
        let mut result = vec![0; shape.rank()];
        let mut rest: Option<(usize, usize)> = None;
        for axis in (0..shape.rank()).rev() {
            let dim = shape.dims()[axis];
            if dim == 1 {
                continue;
            }
            let (left, stride) = match rest.take() {
                Some(open) => open,
                None => (dims.pop()?, strides.pop()?),
            };
            if left % dim != 0 {
                return None;
            }
            result[axis] = stride;
            if left > dim {
                rest = Some((left / dim, stride * dim));
            }
        }
        Some(Layout {
            dims: shape.dims().to_vec(),
            strides: result,
            offset: self.offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_follows_numpy() {
        let shape = |dims: &[usize]| Shape::from(dims);
        assert_eq!(shape(&[3, 1]).broadcast(&shape(&[4])), Some(shape(&[3, 4])));
        assert_eq!(shape(&[]).broadcast(&shape(&[2, 2])), Some(shape(&[2, 2])));
        assert_eq!(shape(&[3]).broadcast(&shape(&[4])), None);
    }

    #[test]
    fn reshaping_a_transposed_layout_needs_a_copy() {
        let layout = Layout::contiguous(&Shape::from([2, 3]));
        assert!(layout.reshaped(&Shape::from([6])).is_some());
        assert!(
            layout
                .permuted(&[1, 0])
                .reshaped(&Shape::from([6]))
                .is_none()
        );
        let split = layout
            .permuted(&[1, 0])
            .reshaped(&Shape::from([3, 1, 2]))
            .unwrap();
        assert_eq!((split.strides[0], split.strides[2]), (1, 3));
    }
}
