//! The language of the e-graph: n-ary sums and products in normal form, reductions,
//! contractions, and every other op as it is.
//!
//! A value is a function of axes counted **from the last** (axis 0 is the last one), as
//! NumPy aligns shapes. An axis it does not vary along has no extent, so a broadcast is no
//! node at all; whatever runs over an axis (a reduction, a contraction) carries the extent
//! itself.

use std::fmt;

use egg::{Id, Language};

use crate::ir::{Combine, DType, Op, Shape, TensorType};

/// A coefficient: two are equal when they agree to twelve digits, so that `(1/n)·n` is 1.
#[derive(Clone, Copy)]
pub(super) struct Coefficient {
    value: f64,
    digits: i64,
    exponent: i32,
}

impl Coefficient {
    /// The coefficient of this finite value.
    pub(super) fn new(value: f64) -> Coefficient {
        if value == 0.0 || !value.is_finite() {
            return Coefficient {
                value: 0.0,
                digits: 0,
                exponent: 0,
            };
        }
        let mut exponent = value.abs().log10().floor() as i32;
        let mut digits = (value * 10f64.powi(11 - exponent)).round() as i64;
        if digits.abs() >= 1_000_000_000_000 {
            exponent += 1;
            digits = (value * 10f64.powi(11 - exponent)).round() as i64;
        }
        // A decimal that twelve digits hold is meant exactly, whatever way it was computed.
        let decimal = match 11 - exponent {
            shift if shift > 0 => digits as f64 / 10f64.powi(shift),
            shift => digits as f64 * 10f64.powi(-shift),
        };
        let close = (decimal - value).abs() <= 4.0 * f64::EPSILON * value.abs();
        Coefficient {
            value: if close { decimal } else { value },
            digits,
            exponent,
        }
    }

    pub(super) fn value(self) -> f64 {
        self.value
    }

    fn key(self) -> (i64, i32) {
        (self.digits, self.exponent)
    }
}

impl PartialEq for Coefficient {
    fn eq(&self, other: &Coefficient) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Coefficient {}

impl PartialOrd for Coefficient {
    fn partial_cmp(&self, other: &Coefficient) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Coefficient {
    fn cmp(&self, other: &Coefficient) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl std::hash::Hash for Coefficient {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for Coefficient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value)
    }
}

/// The most axes a value may have here.
pub(super) const MAX_RANK: usize = 8;

/// The extents a value varies over, from the last axis; 1 along an axis it does not vary.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Extents([u32; MAX_RANK], u8);

impl Extents {
    /// No axes.
    pub(super) const SCALAR: Extents = Extents([1; MAX_RANK], 0);

    /// Those of a shape of at most [`MAX_RANK`] axes.
    pub(super) fn of(shape: &Shape) -> Extents {
        let mut extents = Extents::SCALAR;
        for (axis, &dim) in shape.dims().iter().rev().enumerate() {
            extents.set(axis, dim as u32);
        }
        extents
    }

    /// The extent along an axis.
    pub(super) fn get(&self, axis: usize) -> u32 {
        self.0.get(axis).copied().unwrap_or(1)
    }

    /// Set the extent along an axis.
    pub(super) fn set(&mut self, axis: usize, extent: u32) {
        self.0[axis] = extent;
        self.1 = (0..MAX_RANK)
            .rev()
            .find(|&axis| self.0[axis] != 1)
            .map_or(0, |axis| axis as u8 + 1);
    }

    /// Whether the value differs along an axis.
    pub(super) fn varies(&self, axis: usize) -> bool {
        self.get(axis) != 1
    }

    /// The number of axes up to the outermost it varies along.
    pub(super) fn rank(&self) -> usize {
        usize::from(self.1)
    }

    /// The number of different elements.
    pub(super) fn elements(&self) -> f64 {
        self.0.iter().map(|&extent| f64::from(extent)).product()
    }

    /// What an elementwise function of two values varies over.
    pub(super) fn join(&self, other: &Extents) -> Extents {
        let mut result = *self;
        for axis in 0..other.rank() {
            if other.varies(axis) {
                result.0[axis] = other.0[axis];
            }
        }
        result.1 = self.1.max(other.1);
        result
    }

    /// What two equal values vary over: what both do.
    pub(super) fn meet(&self, other: &Extents) -> Extents {
        let mut result = *self;
        for axis in 0..MAX_RANK {
            if !other.varies(axis) && result.varies(axis) {
                result.set(axis, 1);
            }
        }
        result
    }

    /// As a shape, without leading axes of size 1.
    pub(super) fn shape(&self) -> Shape {
        let dims: Vec<usize> = (0..self.rank())
            .rev()
            .map(|axis| self.0[axis] as usize)
            .collect();
        Shape::from(dims)
    }
}

impl fmt::Debug for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape())
    }
}

/// Axes to run over and how far: ascending `(axis, extent)`.
pub(super) type Span = Box<[(u8, u32)]>;

/// A node of the language.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Term {
    /// A value from outside the region.
    Leaf(u32),
    /// A number.
    Constant(Coefficient),
    /// Σ coefficient · child. A coefficient of 0 carries the NaNs of its child and no more.
    Sum(Box<[Coefficient]>, Box<[Id]>),
    /// Π child^(half / 2).
    Product(Box<[i16]>, Box<[Id]>),
    /// All elements along axes in one.
    Reduce(Combine, Span, [Id; 1]),
    /// The same values with the axes elsewhere: result axis `i` is the child's axis
    /// `sources[i]`, or none where that is [`NO_AXIS`].
    Rename(Box<[u8]>, [Id; 1]),
    /// Σₖ left(.., m, k) · right(.., k, n) for that many k.
    Contract(u32, [Id; 2]),
    /// Any other op, by its place in [`Facts::ops`](super::facts::Facts).
    Apply(u32, Box<[Id]>),
}

/// No axis: the result does not vary along it.
pub(super) const NO_AXIS: u8 = u8::MAX;

/// What two nodes must share to be of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(super) enum Kind {
    Leaf,
    Constant,
    Sum,
    Product,
    Reduce,
    Rename,
    Contract,
    Apply,
}

impl Language for Term {
    type Discriminant = Kind;

    fn discriminant(&self) -> Kind {
        match self {
            Term::Leaf(_) => Kind::Leaf,
            Term::Constant(_) => Kind::Constant,
            Term::Sum(..) => Kind::Sum,
            Term::Product(..) => Kind::Product,
            Term::Reduce(..) => Kind::Reduce,
            Term::Rename(..) => Kind::Rename,
            Term::Contract(..) => Kind::Contract,
            Term::Apply(..) => Kind::Apply,
        }
    }

    fn matches(&self, other: &Term) -> bool {
        match (self, other) {
            (Term::Leaf(a), Term::Leaf(b)) => a == b,
            (Term::Constant(a), Term::Constant(b)) => a == b,
            (Term::Sum(a, _), Term::Sum(b, _)) => a == b,
            (Term::Product(a, _), Term::Product(b, _)) => a == b,
            (Term::Reduce(a, s, _), Term::Reduce(b, t, _)) => (a, s) == (b, t),
            (Term::Rename(a, _), Term::Rename(b, _)) => a == b,
            (Term::Contract(a, _), Term::Contract(b, _)) => a == b,
            (Term::Apply(a, x), Term::Apply(b, y)) => a == b && x.len() == y.len(),
            _ => false,
        }
    }

    fn children(&self) -> &[Id] {
        match self {
            Term::Leaf(_) | Term::Constant(_) => &[],
            Term::Sum(_, children) | Term::Product(_, children) | Term::Apply(_, children) => {
                children
            }
            Term::Reduce(_, _, child) | Term::Rename(_, child) => child,
            Term::Contract(_, children) => children,
        }
    }

    fn children_mut(&mut self) -> &mut [Id] {
        match self {
            Term::Leaf(_) | Term::Constant(_) => &mut [],
            Term::Sum(_, children) | Term::Product(_, children) | Term::Apply(_, children) => {
                children
            }
            Term::Reduce(_, _, child) | Term::Rename(_, child) => child,
            Term::Contract(_, children) => children,
        }
    }
}

/// What an [`Term::Apply`] applies.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Applied {
    /// The op.
    pub op: Op,
    /// Elementwise: takes whatever its operands vary over.
    pub elementwise: bool,
    /// The row-major order stays, only the sizes change.
    pub reshape: bool,
    /// Operand types, where it is not elementwise.
    pub operands: Vec<TensorType>,
    /// Result type; of an elementwise op only the element type counts.
    pub result: TensorType,
}

/// A value from outside a region.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct LeafType {
    /// Its type.
    pub ty: TensorType,
    /// A promise that its integers are below this.
    pub bound: Option<usize>,
    /// For what another region computes: about how many kernels must run before it is there.
    /// It costs nothing to read where it comes about, only later.
    pub since: Option<u32>,
}

impl LeafType {
    pub(super) fn is_float(&self) -> bool {
        self.ty.dtype == DType::F32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_are_equal_to_twelve_digits() {
        for n in 1..2000 {
            let n = f64::from(n);
            let one = Coefficient::new(1.0 / n).value() * n;
            assert_eq!(Coefficient::new(one), Coefficient::new(1.0));
        }
        assert_eq!(Coefficient::new(0.1 + 0.2).value(), 0.3);
        assert_ne!(Coefficient::new(1.0 + 1e-10), Coefficient::new(1.0));
        assert_eq!(
            Coefficient::new(9.999_999_999_999_9).value(),
            9.999_999_999_999_9
        );
        assert_eq!(
            Coefficient::new(9.999_999_999_999_9),
            Coefficient::new(10.0)
        );
    }

    #[test]
    fn extents_align_at_the_last_axis() {
        let a = Extents::of(&Shape::from([1, 4, 1, 3]));
        let b = Extents::of(&Shape::from([2, 1]));
        assert_eq!(a.rank(), 3);
        assert_eq!(a.join(&b).shape(), Shape::from([4, 2, 3]));
        assert_eq!(a.join(&b).meet(&a).shape(), Shape::from([4, 1, 3]));
    }
}
