//! Matrices whose rows or columns are made of several axes of memory: the windows of a
//! convolution, the heads of an attention side by side. No two strides address them, but an
//! address is still the sum of a row's part and a column's part, and along the innermost
//! axis elements lie in runs.

use super::best_kernels;
use super::problem::{GemmError, Operand, Source, Tile, batch_offset};
use crate::ir::Precision;

/// The address parts of one side of a matrix: `outer[i / inner] + i % inner * stride`.
#[derive(Clone, Debug)]
struct Side {
    outer: Vec<usize>,
    inner: usize,
    stride: usize,
    length: usize,
}

impl Side {
    /// From axes with their strides, outermost first.
    fn new(axes: &[(usize, usize)]) -> Self {
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for &(size, stride) in axes.iter().filter(|axis| axis.0 != 1) {
            match merged.last_mut() {
                Some(last) if last.1 == stride.saturating_mul(size) => {
                    *last = (last.0 * size, stride);
                }
                _ => merged.push((size, stride)),
            }
        }
        let (inner, stride) = merged.pop().unwrap_or((1, 0));
        let mut outer = vec![0];
        for (size, stride) in merged {
            let steps = (0..size).map(|index| index * stride);
            let of = |start: usize| steps.clone().map(move |step| start + step);
            outer = outer.iter().flat_map(|&start| of(start)).collect();
        }
        Self {
            length: outer.len() * inner,
            outer,
            inner: inner.max(1),
            stride,
        }
    }

    fn at(&self, index: usize) -> usize {
        self.outer[index / self.inner] + index % self.inner * self.stride
    }

    /// The address part of the element farthest away.
    fn last(&self) -> usize {
        let outer = self.outer.iter().max().copied().unwrap_or(0);
        outer + (self.inner - 1) * self.stride
    }

    /// Elements that follow each other in memory.
    fn run(&self) -> usize {
        if self.stride == 1 { self.inner } else { 1 }
    }
}

/// Where the elements of a matrix (one for each batch index) lie in memory.
#[derive(Clone, Debug)]
pub struct Addresses {
    rows: Side,
    columns: Side,
    batch: Vec<usize>,
    batch_strides: Vec<usize>,
    /// Whether rows and columns have changed places, since memory runs along the rows.
    transposed: bool,
}

impl Addresses {
    /// A matrix whose rows and columns are made of axes with a size and a stride each, the
    /// outermost first; and so are the batch axes.
    pub fn new(
        batch: &[(usize, usize)],
        rows: &[(usize, usize)],
        columns: &[(usize, usize)],
    ) -> Self {
        let (rows, columns) = (Side::new(rows), Side::new(columns));
        let transposed = rows.run() > columns.run();
        let (rows, columns) = if transposed {
            (columns, rows)
        } else {
            (rows, columns)
        };
        let (batch, batch_strides) = batch.iter().copied().unzip();
        Self {
            rows,
            columns,
            batch,
            batch_strides,
            transposed,
        }
    }

    /// The matrix in some memory.
    ///
    /// # Errors
    ///
    /// If the memory does not hold all of its elements.
    pub fn of<'a>(&'a self, data: &'a [f32]) -> Result<Compound<'a>, GemmError> {
        let empty = self.rows.length * self.columns.length == 0 || self.batch.contains(&0);
        let batch = self.batch.iter().zip(&self.batch_strides);
        let batch = batch.map(|(&size, &stride)| size.saturating_sub(1) * stride);
        let last = batch.sum::<usize>() + self.rows.last() + self.columns.last();
        if !empty && last >= data.len() {
            return Err(GemmError::OutOfBounds {
                operand: "an operand of several axes",
                has: data.len(),
            });
        }
        Ok(Compound {
            addresses: self,
            data,
        })
    }
}

/// A matrix of several axes in memory.
#[derive(Clone, Copy, Debug)]
pub struct Compound<'a> {
    addresses: &'a Addresses,
    data: &'a [f32],
}

impl Compound<'_> {
    /// As one side of a product.
    pub fn operand(&self) -> Operand<'_> {
        Operand::Computed {
            source: self,
            transposed: self.addresses.transposed,
        }
    }
}

/// Runs of elements of a matrix's row, as a copying kernel takes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs<'a> {
    /// Where each run begins.
    pub starts: &'a [usize],
    /// Elements of a run, of which the first may lack some.
    pub length: usize,
    /// Elements that the first run lacks.
    pub skipped: usize,
    /// Elements of all runs together.
    pub count: usize,
}

impl Source for Compound<'_> {
    fn fill(&self, block: Tile<'_>) {
        let Addresses {
            rows,
            columns,
            batch,
            batch_strides,
            ..
        } = self.addresses;
        let start = batch_offset(block.batch, batch, batch_strides);
        let count = block.columns.len();
        if count == 0 {
            return;
        }
        let (first, skipped) = (
            block.columns.start / columns.inner,
            block.columns.start % columns.inner,
        );
        let runs = Runs {
            starts: &columns.outer[first..],
            length: columns.inner,
            skipped,
            count,
        };
        for (index, row) in block.rows.clone().enumerate() {
            let at = start + rows.at(row);
            let to = index * block.stride;
            let room = block.data.len() - to;
            let to = &mut block.data[to..];
            if columns.stride == 1 {
                // SAFETY: `of` has checked that all elements lie in the data; the kernel is
                // this CPU's and stays within the room.
                unsafe {
                    let from = self.data.as_ptr().add(at);
                    (best_kernels(Precision::F32).copy_runs)(from, &runs, to.as_mut_ptr(), room);
                }
            } else {
                for (to, column) in to.iter_mut().zip(block.columns.clone()) {
                    *to = self.data[at + columns.at(column)];
                }
            }
        }
    }

    fn cost(&self) -> f64 {
        if self.addresses.columns.stride == 1 {
            0.1 + 1.0 / self.addresses.columns.inner as f64
        } else {
            2.0
        }
    }
}
