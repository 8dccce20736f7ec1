//! Operands of contractions that memory holds as bf16: widened while they are read.

use super::gemm::{HalfMatrix, Operand, Source, Tile};
use super::memory::{Element, Region};
use super::vector::{Form, InstructionSet, VectorFn, lookup};
use crate::ir::bf16;
use crate::schedule::kernel::Access;

/// Matrices of halves, one for each index of the batch.
pub(super) struct Halves {
    start: *mut f32,
    batch: Vec<usize>,
    batch_strides: Vec<usize>,
    /// From one row to the next and from one column to the next, where memory runs along rows
    /// if it runs along either.
    strides: [usize; 2],
    /// Whether rows and columns have changed places.
    transposed: bool,
    widen: VectorFn,
}

// SAFETY: a plain address that nobody writes to while the operand is read.
unsafe impl Send for Halves {}
// SAFETY: as above.
unsafe impl Sync for Halves {}

impl Halves {
    /// An access over the axes of a batch, rows and columns, which has been checked.
    pub(super) fn new(
        access: &Access,
        batch: &[usize],
        region: Region,
        set: InstructionSet,
    ) -> Halves {
        let axes = batch.len();
        let strides = [access.strides[axes], access.column_stride];
        let transposed = strides[0] == 1 && strides[1] != 1;
        Halves {
            start: region.at(access.offset),
            batch: batch.to_vec(),
            batch_strides: access.strides[..axes].to_vec(),
            strides: match transposed {
                true => [strides[1], strides[0]],
                false => strides,
            },
            transposed,
            widen: lookup(set, Form::Widen),
        }
    }

    /// As one side of a product.
    pub(super) fn operand(&self) -> Operand<'_> {
        Operand::Computed {
            source: self,
            transposed: self.transposed,
        }
    }

    fn batch_offset(&self, mut index: usize) -> usize {
        let mut offset = 0;
        for (&size, &stride) in self.batch.iter().zip(&self.batch_strides).rev() {
            offset += index % size * stride;
            index /= size;
        }
        offset
    }
}

impl Source for Halves {
    fn fill(&self, mut block: Tile<'_>) {
        let [row_stride, column_stride] = self.strides;
        let first = self.batch_offset(block.batch) + block.columns.start * column_stride;
        for (index, row) in block.rows.clone().enumerate() {
            let from = Element::Half.step(self.start, first + row * row_stride);
            let to = block.row(index);
            let null = std::ptr::null();
            // SAFETY: the access was checked, and the block has so many columns.
            unsafe {
                if column_stride == 1 {
                    (self.widen)(to.as_mut_ptr(), from, null, null, to.len());
                    continue;
                }
                let from = from.cast::<u16>();
                for (column, to) in to.iter_mut().enumerate() {
                    *to = bf16::widen(from.add(column * column_stride).read());
                }
            }
        }
    }

    fn cost(&self) -> f64 {
        if self.strides[1] == 1 { 0.2 } else { 2.0 }
    }

    fn halves(&self) -> Option<HalfMatrix<'_>> {
        (self.strides[1] == 1).then(|| HalfMatrix {
            from: self.start.cast(),
            row_stride: self.strides[0],
            batch_strides: &self.batch_strides,
        })
    }
}
