//! What is to be computed: operands, sizes and where the result goes.

use super::fold::Fold;
use crate::ir::Precision;
use std::ops::Range;
use thiserror::Error;

/// Why a product could not be computed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GemmError {
    /// A slice is too short for the sizes and strides.
    #[error("{operand} has {has} elements, but its sizes and strides reach beyond")]
    OutOfBounds {
        /// Which operand, or the output.
        operand: &'static str,
        /// The length of its slice.
        has: usize,
    },
    /// The number of batch strides is neither zero nor the number of batch axes.
    #[error("{operand} has {has} batch strides for {axes} batch axes")]
    BatchStrides {
        /// Which operand, or the output.
        operand: &'static str,
        /// How many batch strides it has.
        has: usize,
        /// How many batch axes there are.
        axes: usize,
    },
    /// Two elements of the output may have the same address.
    #[error("the output's strides {strides:?} may put two elements of {sizes:?} at one place")]
    Overlap {
        /// Sizes of the output: batch axes, rows, columns.
        sizes: Vec<usize>,
        /// Their strides.
        strides: Vec<usize>,
    },
}

/// A matrix in memory, or several for a batch. Strides count elements, may be zero (to
/// repeat what is there), and swapping them transposes.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub(super) data: &'a [f32],
    pub(super) strides: [usize; 2],
    pub(super) batch_strides: &'a [usize],
}

impl<'a> Matrix<'a> {
    /// A matrix whose element (row, column) is at `row * strides[0] + column * strides[1]`,
    /// the same for every batch index.
    pub fn new(data: &'a [f32], strides: [usize; 2]) -> Self {
        Self {
            data,
            strides,
            batch_strides: &[],
        }
    }

    /// The same with a stride for every batch axis of the problem.
    pub fn batched(self, batch_strides: &'a [usize]) -> Self {
        Self {
            batch_strides,
            ..self
        }
    }
}

/// An operand that is computed while it is read, as one matrix per batch index.
///
/// A block may be asked for more than once, and by several threads at a time.
pub trait Source: Sync {
    /// Writes the elements of the block's rows and columns into `block`.
    fn fill(&self, block: Tile<'_>);

    /// About how many cycles an element takes.
    fn cost(&self) -> f64 {
        2.0
    }

    /// The operand as it lies in memory, where that holds bfloat16: for products that round.
    fn halves(&self) -> Option<HalfMatrix<'_>> {
        None
    }
}

/// A matrix of bfloat16 with contiguous columns, or several for a batch.
#[derive(Clone, Copy, Debug)]
pub struct HalfMatrix<'a> {
    /// The first element; those of the whole batch are there.
    pub from: *const u16,
    /// From one row to the next.
    pub row_stride: usize,
    /// For every batch axis of the problem.
    pub batch_strides: &'a [usize],
}

/// One side of a product.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// It lies in memory.
    Memory(Matrix<'a>),
    /// It is computed, by rows in the source's own orientation.
    Computed {
        /// What computes it.
        source: &'a dyn Source,
        /// Whether the operand is the transpose of what the source computes.
        transposed: bool,
    },
}

impl Operand<'_> {
    pub(super) fn transposed(self) -> Self {
        match self {
            Self::Memory(matrix) => Self::Memory(Matrix {
                strides: [matrix.strides[1], matrix.strides[0]],
                ..matrix
            }),
            Self::Computed { source, transposed } => Self::Computed {
                source,
                transposed: !transposed,
            },
        }
    }

    fn check(
        &self,
        name: &'static str,
        batch: &[usize],
        size: [usize; 2],
    ) -> Result<(), GemmError> {
        match self {
            Self::Memory(matrix) => {
                check_batch_strides(name, batch, matrix.batch_strides)?;
                check_bounds(
                    name,
                    matrix.data.len(),
                    batch,
                    size,
                    matrix.batch_strides,
                    matrix.strides,
                )
            }
            Self::Computed { .. } => Ok(()),
        }
    }
}

/// A checked product of two operands.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    pub(super) batch: &'a [usize],
    /// Rows of the result, columns of the result, depth.
    pub(super) size: [usize; 3],
    pub(super) a: Operand<'a>,
    pub(super) b: Operand<'a>,
    /// Tiles do not cross multiples of this many rows.
    pub(super) row_unit: usize,
    pub(super) precision: Precision,
    /// Whether the halves of the depth are summed by themselves.
    pub(super) fold: Option<Fold>,
}

impl<'a> Problem<'a> {
    /// For every index of the `batch` axes (none: one product) the product of `a`, an
    /// [m, k] matrix, with `b`, a [k, n] matrix, where `size` is [m, n, k].
    ///
    /// # Errors
    ///
    /// If an operand's slice is too short for its sizes and strides, or its batch strides
    /// do not fit the batch axes.
    pub fn new(
        batch: &'a [usize],
        size: [usize; 3],
        a: Operand<'a>,
        b: Operand<'a>,
    ) -> Result<Self, GemmError> {
        let [m, n, k] = size;
        a.check("the left operand", batch, [m, k])?;
        b.check("the right operand", batch, [k, n])?;
        Ok(Self {
            batch,
            size,
            a,
            b,
            row_unit: 1,
            precision: Precision::F32,
            fold: None,
        })
    }

    /// The same of operands that are rounded first. Products of few rows or columns, which no
    /// registers are full of, may round less.
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The same, with tiles that do not cross multiples of so many rows (a multiple of 32),
    /// and come in the order of rows within them, from one thread for all columns of a tile:
    /// what is made of such a block does not depend on the number of threads.
    pub fn in_blocks_of_rows(self, rows: usize) -> Self {
        Self {
            row_unit: rows.next_multiple_of(32).max(32),
            ..self
        }
    }

    /// The same, folded.
    pub(in crate::runtime::cpu) fn folded(self, fold: Option<Fold>) -> Self {
        Self { fold, ..self }
    }

    /// The problem whose result is the transpose of this one's.
    pub(super) fn transposed(&self) -> Self {
        let [m, n, k] = self.size;
        Self {
            batch: self.batch,
            size: [n, m, k],
            a: self.b.transposed(),
            b: self.a.transposed(),
            row_unit: 1,
            precision: self.precision,
            fold: self.fold,
        }
    }
}

/// A part of a matrix in cache.
#[derive(Debug)]
#[non_exhaustive]
pub struct Tile<'a> {
    /// Which matrix of the batch, counted in row-major order of the batch axes.
    pub batch: usize,
    /// Which rows of the matrix.
    pub rows: Range<usize>,
    /// Which columns of the matrix.
    pub columns: Range<usize>,
    /// The elements: row `i` of the tile begins at `i * stride`. What lies between rows
    /// has no meaning and may be overwritten.
    pub data: &'a mut [f32],
    /// From one row to the next.
    pub stride: usize,
    /// The index of the thread, for scratch memory of the function's own.
    pub worker: usize,
}

impl Tile<'_> {
    /// The elements of a row, counted from the tile's first.
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        let begin = row * self.stride;
        &mut self.data[begin..begin + self.columns.len()]
    }
}

/// Memory for a result, one matrix per batch index.
#[derive(Debug)]
pub struct Target<'a> {
    pub(super) data: &'a mut [f32],
    pub(super) strides: [usize; 2],
    pub(super) batch_strides: &'a [usize],
}

impl<'a> Target<'a> {
    /// Memory whose element (row, column) is at `row * strides[0] + column * strides[1]`.
    pub fn new(data: &'a mut [f32], strides: [usize; 2]) -> Self {
        Self {
            data,
            strides,
            batch_strides: &[],
        }
    }

    /// The same with a stride for every batch axis of the problem.
    pub fn batched(self, batch_strides: &'a [usize]) -> Self {
        Self {
            batch_strides,
            ..self
        }
    }
}

/// Where a result goes.
pub enum Output<'a> {
    /// It overwrites what is in memory.
    Store(Target<'a>),
    /// It is added to what is in memory.
    Add(Target<'a>),
    /// It is handed to a function, tile by tile, every element exactly once and complete.
    /// Tiles come from all threads at a time, and are as wide as caches allow.
    Tiles(&'a dyn Epilogue),
}

/// What is done with the tiles of a product. A function of tiles is one.
pub trait Epilogue: Sync {
    /// Works on a tile.
    fn tile(&self, tile: Tile<'_>);

    /// Lists memory that [`tile`](Self::tile) will read or write soon.
    fn soon(&self, batch: usize, rows: Range<usize>, column: usize, list: &mut Vec<Soon>) {
        let _ = (batch, rows, column, list);
    }
}

/// Memory along the columns of a row, which is needed soon. It is only a hint.
#[derive(Clone, Copy, Debug)]
pub struct Soon {
    /// The element at the column that was asked for.
    pub from: *const f32,
    /// Whether it is going to be written.
    pub written: bool,
}

impl<F: Fn(Tile<'_>) + Sync> Epilogue for F {
    fn tile(&self, tile: Tile<'_>) {
        self(tile);
    }
}

impl Output<'_> {
    /// Whether every element of the result has a place of its own.
    pub(super) fn check(&self, problem: &Problem<'_>) -> Result<(), GemmError> {
        let (Self::Store(target) | Self::Add(target)) = self else {
            return Ok(());
        };
        let [m, n, _] = problem.size;
        let name = "the output";
        let batch_strides = target.batch_strides;
        check_batch_strides(name, problem.batch, batch_strides)?;
        check_bounds(
            name,
            target.data.len(),
            problem.batch,
            [m, n],
            batch_strides,
            target.strides,
        )?;
        check_overlap(problem.batch, [m, n], batch_strides, target.strides)
    }
}

fn check_batch_strides(
    operand: &'static str,
    batch: &[usize],
    strides: &[usize],
) -> Result<(), GemmError> {
    if strides.is_empty() || strides.len() == batch.len() {
        return Ok(());
    }
    Err(GemmError::BatchStrides {
        operand,
        has: strides.len(),
        axes: batch.len(),
    })
}

/// The axes of a batch of matrices: (size, stride), where missing batch strides are zero.
fn axes<'s>(
    batch: &'s [usize],
    size: [usize; 2],
    batch_strides: &'s [usize],
    strides: [usize; 2],
) -> impl Iterator<Item = (usize, usize)> + 's {
    let batch_strides = batch_strides.iter().copied().chain(std::iter::repeat(0));
    let batch = batch.iter().copied().zip(batch_strides);
    batch.chain(size.into_iter().zip(strides))
}

/// Whether the element farthest away is inside a slice of `length`.
fn check_bounds(
    operand: &'static str,
    length: usize,
    batch: &[usize],
    size: [usize; 2],
    batch_strides: &[usize],
    strides: [usize; 2],
) -> Result<(), GemmError> {
    let mut last = Some(0_usize);
    for (size, stride) in axes(batch, size, batch_strides, strides) {
        let Some(steps) = size.checked_sub(1) else {
            return Ok(());
        };
        last = last.and_then(|last| last.checked_add(steps.checked_mul(stride)?));
    }
    if last.is_some_and(|last| last < length) {
        return Ok(());
    }
    Err(GemmError::OutOfBounds {
        operand,
        has: length,
    })
}

/// Whether different elements have different addresses. Sufficient and, for layouts made of
/// whole axes, necessary: each axis steps over everything that smaller strides reach.
fn check_overlap(
    batch: &[usize],
    size: [usize; 2],
    batch_strides: &[usize],
    strides: [usize; 2],
) -> Result<(), GemmError> {
    let all = || axes(batch, size, batch_strides, strides);
    if all().any(|(size, _)| size == 0) {
        return Ok(());
    }
    let long = || all().filter(|&(size, _)| size > 1);
    // From the smallest stride up, without a list: axes are few, and a step does not allocate.
    let (mut reach, mut last) = (0, None);
    while let Some(next) = long()
        .map(|(_, stride)| stride)
        .filter(|&stride| last.is_none_or(|last| stride > last))
        .min()
    {
        for (size, stride) in long().filter(|&(_, stride)| stride == next) {
            if stride <= reach {
                return overlap(all());
            }
            reach += (size - 1) * stride;
        }
        last = Some(next);
    }
    Ok(())
}

fn overlap(axes: impl Iterator<Item = (usize, usize)>) -> Result<(), GemmError> {
    let (sizes, strides) = axes.unzip();
    Err(GemmError::Overlap { sizes, strides })
}

/// The offset of a batch index, counted in row-major order of the batch axes.
pub(super) fn batch_offset(mut index: usize, batch: &[usize], strides: &[usize]) -> usize {
    let mut offset = 0;
    for (&size, &stride) in batch.iter().zip(strides).rev() {
        offset += index % size * stride;
        index /= size;
    }
    offset
}
