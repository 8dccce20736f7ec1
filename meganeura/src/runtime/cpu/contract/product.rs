//! Operands where they lie in memory, and the problem that they make.

use super::super::gemm::{self, Addresses, Compound, Fold, GemmError, Matrix, Problem, Target};
use super::super::halves::Halves;
use super::super::loops;
use super::super::memory::{Element, Region};
use super::super::vector::InstructionSet;
use crate::ir::Precision;
use crate::schedule::kernel::Access;

/// A matrix for each index of the batch.
pub(super) struct Place {
    pub region: Region,
    offset: usize,
    batch_strides: Vec<usize>,
    pub strides: [usize; 2],
}

impl Place {
    pub fn new(access: &Access, buffers: &[Region]) -> Self {
        let axes = access.strides.len() - 1;
        Self {
            region: buffers[access.buffer.index()],
            offset: access.offset,
            batch_strides: access.strides[..axes].to_vec(),
            strides: [access.strides[axes], access.column_stride],
        }
    }

    fn start(&self) -> (*mut f32, usize) {
        let elements = self.region.elements.saturating_sub(self.offset);
        (self.region.base.wrapping_add(self.offset), elements)
    }

    /// # Safety
    /// The buffer is still there and nobody writes to it meanwhile.
    unsafe fn matrix(&self) -> Matrix<'_> {
        let (start, elements) = self.start();
        // SAFETY: the offset is within the buffer, or no element is left.
        let data = unsafe { std::slice::from_raw_parts(start, elements) };
        Matrix::new(data, self.strides).batched(&self.batch_strides)
    }

    /// # Safety
    /// The buffer is still there and nobody else uses it meanwhile.
    pub unsafe fn target(&self) -> Target<'_> {
        let (start, elements) = self.start();
        // SAFETY: as above.
        let data = unsafe { std::slice::from_raw_parts_mut(start, elements) };
        Target::new(data, self.strides).batched(&self.batch_strides)
    }
}

/// An operand in memory.
pub(super) enum Side {
    /// Two strides address it.
    Plain(Place),
    /// Its rows or columns are made of several axes.
    Compound(Region, usize, Addresses),
    /// Two strides address halves.
    Halves(Region, Halves),
}

impl Side {
    /// From an access over the axes of batch, rows and columns, each group of some sizes.
    pub fn new(
        access: &Access,
        [batch, rows, columns]: [&[usize]; 3],
        buffers: &[Region],
        set: InstructionSet,
    ) -> Side {
        let region = buffers[access.buffer.index()];
        if Element::of(access.dtype) == Element::Half {
            return Side::Halves(region, Halves::new(access, batch, region, set));
        }
        if rows.len() == 1 && columns.len() == 1 {
            return Side::Plain(Place::new(access, buffers));
        }
        let strides = access.strides.iter().copied().chain([access.column_stride]);
        let sizes = [batch, rows, columns].concat().into_iter();
        let axes: Vec<(usize, usize)> = sizes.zip(strides).collect();
        let (batch, axes) = axes.split_at(batch.len());
        let (rows, columns) = axes.split_at(rows.len());
        Side::Compound(region, access.offset, Addresses::new(batch, rows, columns))
    }

    pub fn region(&self) -> Region {
        match self {
            Side::Plain(place) => place.region,
            Side::Compound(region, ..) | Side::Halves(region, _) => *region,
        }
    }

    /// # Safety
    /// The buffer is still there and nobody writes to it meanwhile.
    unsafe fn ready(&self) -> Result<Ready<'_>, GemmError> {
        match self {
            // SAFETY: the caller's promise.
            Side::Plain(place) => Ok(Ready::Plain(unsafe { place.matrix() })),
            Side::Compound(region, offset, addresses) => {
                let elements = region.elements.saturating_sub(*offset);
                let start = region.base.wrapping_add(*offset);
                // SAFETY: the offset is within the buffer, or no element is left.
                let data = unsafe { std::slice::from_raw_parts(start, elements) };
                Ok(Ready::Compound(addresses.of(data)?))
            }
            Side::Halves(_, halves) => Ok(Ready::Halves(halves)),
        }
    }
}

/// An operand while a product is computed.
enum Ready<'a> {
    Plain(Matrix<'a>),
    Compound(Compound<'a>),
    Halves(&'a Halves),
}

impl Ready<'_> {
    fn operand(&self) -> gemm::Operand<'_> {
        match self {
            Ready::Plain(matrix) => gemm::Operand::Memory(*matrix),
            Ready::Compound(compound) => compound.operand(),
            Ready::Halves(halves) => halves.operand(),
        }
    }
}

/// A product of operands in memory.
pub(super) struct Product {
    pub batch: Vec<usize>,
    /// Rows, columns and depth.
    pub size: [usize; 3],
    pub precision: Precision,
    pub left: Side,
    pub right: Side,
    /// Whether its tiles are added up by blocks of rows.
    pub in_blocks: bool,
    pub fold: Option<Fold>,
}

impl Product {
    /// Calls a function with the problem.
    ///
    /// # Safety
    /// The operands are still there and nobody writes to them meanwhile.
    pub unsafe fn with<R>(&self, function: impl FnOnce(&Problem<'_>) -> R) -> Result<R, GemmError> {
        // SAFETY: the caller's promise.
        let (left, right) = unsafe { (self.left.ready()?, self.right.ready()?) };
        let (left, right) = (left.operand(), right.operand());
        let problem = Problem::new(&self.batch, self.size, left, right)?;
        let problem = problem.with_precision(self.precision).folded(self.fold);
        Ok(match self.in_blocks {
            true => function(&problem.in_blocks_of_rows(loops::BLOCK_ROWS)),
            false => function(&problem),
        })
    }
}
