//! What is known of one tensor at compile time.

use super::Dim;
use crate::ir::DType;

/// The dims and the dtype of one tensor, as far as they are known, and the name the reader knows it
/// by (the field or the input it comes from).
///
/// Asking for a dim that is not there gives [`Dim::UNKNOWN`], so a rule can look first and think
/// later:
///
/// ```
/// use meganeura::walk::{Dim, Dims};
///
/// const IMAGE: Dims = Dims::of(&[Dim::free("batch"), Dim::of(3)]);
/// assert_eq!(IMAGE.last(), Dim::of(3));
/// assert_eq!(IMAGE.dim(7), Dim::UNKNOWN);
/// assert_eq!(IMAGE.with_last(Dim::of(8)).to_string(), "[batch, 8]");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dims {
    dims: [Dim; Dims::MAX_RANK],
    /// `None` when not even the rank is known.
    rank: Option<usize>,
    dtype: Option<DType>,
    /// The value's name: the field or the input it comes from.
    name: Option<&'static str>,
    /// Its name among the outputs of the layer it comes from.
    output: Option<&'static str>,
}

impl Dims {
    /// Tensors of a higher rank are not followed at compile time.
    pub const MAX_RANK: usize = 6;

    /// A tensor of which nothing is known.
    pub const UNKNOWN: Dims = Dims {
        dims: [Dim::UNKNOWN; Dims::MAX_RANK],
        rank: None,
        dtype: None,
        name: None,
        output: None,
    };

    /// These dims.
    #[must_use]
    pub const fn of(dims: &[Dim]) -> Dims {
        if dims.len() > Dims::MAX_RANK {
            return Dims::UNKNOWN;
        }
        let mut all = Dims {
            rank: Some(dims.len()),
            ..Dims::UNKNOWN
        };
        let mut axis = 0;
        while axis < dims.len() {
            all.dims[axis] = dims[axis];
            axis += 1;
        }
        all
    }

    /// The number of dims, if it is known.
    #[must_use]
    pub const fn rank(&self) -> Option<usize> {
        self.rank
    }

    /// Whether the number of dims is known, and is not `rank`.
    #[must_use]
    pub const fn rank_differs(&self, rank: usize) -> bool {
        match self.rank {
            Some(known) => known != rank,
            None => false,
        }
    }

    /// Whether every dim is known.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        let Some(rank) = self.rank else { return false };
        let mut axis = 0;
        while axis < rank {
            if !self.dims[axis].is_known() {
                return false;
            }
            axis += 1;
        }
        true
    }

    /// The dim along `axis`; unknown when there is none.
    #[must_use]
    pub const fn dim(&self, axis: usize) -> Dim {
        match self.rank {
            Some(rank) if axis < rank => self.dims[axis],
            _ => Dim::UNKNOWN,
        }
    }

    /// The last dim; unknown when there is none.
    #[must_use]
    pub const fn last(&self) -> Dim {
        match self.rank {
            Some(rank) if rank > 0 => self.dims[rank - 1],
            _ => Dim::UNKNOWN,
        }
    }

    /// The same with another dim along `axis`, if there is that axis.
    #[must_use]
    pub const fn with(mut self, axis: usize, dim: Dim) -> Dims {
        if let Some(rank) = self.rank
            && axis < rank
        {
            self.dims[axis] = dim;
        }
        self
    }

    /// The same with another last dim, if there is one.
    #[must_use]
    pub const fn with_last(self, dim: Dim) -> Dims {
        match self.rank {
            Some(rank) if rank > 0 => self.with(rank - 1, dim),
            _ => self,
        }
    }

    /// The same with one more dim at the end.
    #[must_use]
    pub const fn push(mut self, dim: Dim) -> Dims {
        match self.rank {
            Some(rank) if rank < Dims::MAX_RANK => {
                self.dims[rank] = dim;
                self.rank = Some(rank + 1);
                self
            }
            _ => Dims { rank: None, ..self },
        }
    }

    /// The product of all dims from `axis` on.
    #[must_use]
    pub const fn product_from(&self, axis: usize) -> Dim {
        let Some(rank) = self.rank else {
            return Dim::UNKNOWN;
        };
        let mut product = Dim::of(1);
        let mut axis = axis;
        while axis < rank {
            product = product.times(self.dims[axis]);
            axis += 1;
        }
        product
    }

    /// The dtype, if it is known.
    #[must_use]
    pub const fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// Whether the dtype is known, and is not `dtype`.
    #[must_use]
    pub const fn dtype_differs(&self, dtype: DType) -> bool {
        match self.dtype {
            Some(known) => known as u8 != dtype as u8,
            None => false,
        }
    }

    /// The same with the dtype `dtype`.
    #[must_use]
    pub const fn with_dtype(self, dtype: DType) -> Dims {
        Dims {
            dtype: Some(dtype),
            ..self
        }
    }

    /// The name the reader knows the tensor by; empty if it has none.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.name {
            Some(name) => name,
            None => "",
        }
    }

    /// The same under another name.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Dims {
        Dims {
            name: Some(name),
            ..self
        }
    }

    pub(crate) const fn output(&self) -> &'static str {
        match self.output {
            Some(output) => output,
            None => "",
        }
    }

    pub(crate) const fn with_output(self, output: &'static str) -> Dims {
        Dims {
            output: Some(output),
            ..self
        }
    }

    /// Whether both certainly have the same dims.
    #[must_use]
    pub const fn equals(&self, other: &Dims) -> bool {
        self.is_known() && other.is_known() && !self.differs(other)
    }

    /// Whether both certainly differ in rank or in a dim.
    #[must_use]
    pub const fn differs(&self, other: &Dims) -> bool {
        let (Some(rank), Some(others)) = (self.rank, other.rank) else {
            return false;
        };
        if rank != others {
            return true;
        }
        let mut axis = 0;
        while axis < rank {
            if self.dims[axis].differs(other.dims[axis]) {
                return true;
            }
            axis += 1;
        }
        false
    }

    /// What is known from either of two tensors of the same shape.
    #[must_use]
    pub const fn merge(mut self, other: &Dims) -> Dims {
        if self.dtype.is_none() {
            self.dtype = other.dtype;
        }
        let (Some(rank), Some(_)) = (self.rank, other.rank) else {
            if self.rank.is_none() {
                self.rank = other.rank;
                self.dims = other.dims;
            }
            return self;
        };
        let mut axis = 0;
        while axis < rank {
            if !self.dims[axis].is_known() {
                self.dims[axis] = other.dim(axis);
            }
            axis += 1;
        }
        self
    }
}

impl PartialEq for Dims {
    fn eq(&self, other: &Dims) -> bool {
        self.rank == other.rank && self.dims == other.dims && self.dtype == other.dtype
    }
}

impl std::fmt::Display for Dims {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(super::Message::EMPTY.bare_dims(self).as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{Dim, Dims};

    #[test]
    fn only_what_is_certain_differs() {
        let known = Dims::of(&[Dim::free("batch"), Dim::of(3)]);
        let part = Dims::of(&[Dim::free("batch"), Dim::UNKNOWN]);
        assert!(!known.differs(&part) && !known.equals(&part));
        assert!(!known.differs(&Dims::UNKNOWN));
        assert!(known.differs(&Dims::of(&[Dim::of(3)])));
        assert!(part.merge(&known).equals(&known));
        assert!(Dims::UNKNOWN.merge(&known).equals(&known));
    }

    #[test]
    fn too_many_dims_are_unknown_not_an_error() {
        assert_eq!(Dims::of(&[Dim::of(1); 9]).rank(), None);
        let mut dims = Dims::of(&[]);
        for _ in 0..9 {
            dims = dims.push(Dim::of(2));
        }
        assert_eq!(dims.rank(), None);
    }

    #[test]
    fn products_keep_one_name() {
        let dims = Dims::of(&[Dim::free("batch"), Dim::free("time"), Dim::of(4)]);
        assert_eq!(dims.product_from(1).to_string(), "4*time");
        assert_eq!(dims.product_from(0), Dim::UNKNOWN);
        assert_eq!(dims.product_from(3), Dim::of(1));
    }
}
