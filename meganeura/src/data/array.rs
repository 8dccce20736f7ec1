//! Values with a shape, in the host's memory.

use super::DataError;
use crate::ir::{DType, Shape};

/// Values of one of the element types that models take as inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers, such as pixels.
    F32(Vec<f32>),
    /// Indices, such as labels or tokens.
    U32(Vec<u32>),
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::U32(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::U32(_) => DType::U32,
        }
    }

    /// No values, of the same element type.
    pub(super) fn none_like(&self) -> Self {
        match self {
            Self::F32(_) => Self::F32(Vec::new()),
            Self::U32(_) => Self::U32(Vec::new()),
        }
    }

    /// Replaces `self` by the rows `rows` of `source`, each of `length` values, and keeps the
    /// memory where the element type is the same.
    pub(super) fn gather(&mut self, source: &Self, length: usize, rows: &[usize]) {
        match (source, &mut *self) {
            (Self::F32(from), Self::F32(to)) => gather(from, to, length, rows),
            (Self::U32(from), Self::U32(to)) => gather(from, to, length, rows),
            _ => {
                *self = source.none_like();
                self.gather(source, length, rows);
            }
        }
    }
}

fn gather<T: Copy>(from: &[T], to: &mut Vec<T>, length: usize, rows: &[usize]) {
    to.clear();
    to.reserve(rows.len() * length);
    for row in rows {
        to.extend_from_slice(&from[row * length..(row + 1) * length]);
    }
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Self {
        Self::F32(values)
    }
}

impl From<Vec<u32>> for Values {
    fn from(values: Vec<u32>) -> Self {
        Self::U32(values)
    }
}

/// Values and their shape, the last axis running fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct HostArray {
    pub(super) shape: Shape,
    pub(super) values: Values,
}

impl HostArray {
    /// The values as an array of the given shape; `[]` is a single value.
    pub fn new(shape: impl Into<Shape>, values: impl Into<Values>) -> Result<Self, DataError> {
        let (shape, values) = (shape.into(), values.into());
        if elements(shape.dims()) != Some(values.len()) {
            return Err(DataError::Shape {
                shape,
                values: values.len(),
            });
        }
        Ok(Self { shape, values })
    }

    /// The sizes of its axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The type of what it holds.
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// What it holds.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// What it holds, by value.
    pub fn into_values(self) -> Values {
        self.values
    }

    /// The values, when they are `f32`.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.values {
            Values::F32(values) => Some(values),
            Values::U32(_) => None,
        }
    }

    /// The values, when they are `u32`.
    pub fn as_u32(&self) -> Option<&[u32]> {
        match &self.values {
            Values::U32(values) => Some(values),
            Values::F32(_) => None,
        }
    }
}

/// The number of elements of a shape, unless it is too large to count.
pub(super) fn elements(shape: &[usize]) -> Option<usize> {
    // Zero times anything is zero, also where the other sizes alone would overflow.
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1_usize, |product, &size| product.checked_mul(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_must_fit_the_values() {
        assert!(HostArray::new([2, 3], vec![0.0; 6]).is_ok());
        assert!(HostArray::new([], vec![7_u32]).is_ok());
        assert!(HostArray::new([usize::MAX, 0, 2], Vec::<f32>::new()).is_ok());
        let error = HostArray::new([2, 3], vec![0.0; 5]).unwrap_err();
        assert_eq!(error.to_string(), "shape [2, 3] asks for 6 values, not 5");
        let error = HostArray::new([usize::MAX, 2], vec![0_u32]).unwrap_err();
        assert!(error.to_string().contains("more than can be counted"));
    }
}
