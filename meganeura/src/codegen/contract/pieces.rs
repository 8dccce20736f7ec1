//! Matrix products over a long k, cut into pieces that are computed side by side.

use super::registers::tile_count;
use super::tiles::group_count;
use crate::codegen::simplify::program_accesses;
use crate::codegen::split::{Fold, row_strides};
use crate::codegen::{LowerError, Lowering, count};
use crate::ir::{Combine, DType};
use crate::schedule::kernel::{
    Access, Accumulate, Body, BufferId, ContractKernel, Instruction, LoopKernel, Store,
};

/// Which part of k each batch contracts, where the first batch axis counts pieces of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    /// Elements of k before it was cut.
    pub whole: usize,
    /// Elements of a piece.
    pub piece: usize,
}

impl Lowering<'_> {
    /// Into how many pieces to cut k: one unless the result has too few tiles to keep the
    /// device busy, or the driver cannot go around so often.
    pub(super) fn pieces_of_k(&self, kernel: &ContractKernel) -> Result<usize, LowerError> {
        let (tiles, busy, shortest) = match self.target.software {
            true => (tile_count(kernel), 64, 256),
            false => (group_count(kernel), 128, 512),
        };
        let depth = kernel.depth();
        let fewest = depth.div_ceil(self.target.rounds - 1_000).max(1);
        if looks_at_k(kernel) {
            return match fewest {
                1 => Ok(1),
                _ => Err(LowerError::TooManyRounds(depth)),
            };
        }
        let wanted = (busy / tiles.max(1)).min(depth / shortest);
        Ok(wanted.max(fewest))
    }

    /// Compute the product first, of pieces of k that are then added when there are several,
    /// and do the epilogue in a kernel of its own.
    pub(super) fn epilogue_apart(
        &mut self,
        mut kernel: ContractKernel,
        pieces: usize,
    ) -> Result<(), LowerError> {
        let (outer, columns) = kernel.result_domain();
        let elements = count(&[outer.iter().product(), columns])?;
        let mut rest = LoopKernel {
            columns,
            body: std::mem::take(&mut kernel.epilogue),
            outer: outer.clone(),
        };
        let plain = plain_store(&rest.body).map(|store| store.access.clone());
        let target = match &plain {
            Some(access) => access.clone(),
            None => contiguous(self.scratch(elements), &outer, columns),
        };
        match pieces {
            1 => {
                kernel.epilogue = store_product(target.clone());
                self.product(&kernel, None)?;
            }
            _ => self.split_k(kernel, pieces, &target)?,
        }
        if plain.is_some() {
            return Ok(());
        }
        for instruction in &mut rest.body.program.instructions {
            if *instruction == Instruction::Accumulator {
                *instruction = Instruction::Load(target.clone());
            }
        }
        self.loops(&rest)
    }

    /// Compute partial products of pieces of k and add them.
    fn split_k(
        &mut self,
        mut kernel: ContractKernel,
        pieces: usize,
        target: &Access,
    ) -> Result<(), LowerError> {
        let whole = kernel.depth();
        let (outer, columns) = kernel.result_domain();
        let piece = whole.div_ceil(pieces);
        let pieces = whole.div_ceil(piece);
        let all = [&[pieces], outer.as_slice()].concat();
        let partial = self.scratch(count(&[all.iter().product(), columns])?);
        let partial = contiguous(partial, &all, columns);
        cut(&mut kernel, pieces, piece);
        kernel.epilogue = store_product(partial.clone());
        self.product(&kernel, Some(Chunk { whole, piece }))?;
        self.fold(add_pieces(partial, target, &all, columns))
    }
}

/// Whether a side computes with the index of k itself, which pieces would change. The indices
/// of several axes are those of the whole.
fn looks_at_k(kernel: &ContractKernel) -> bool {
    if kernel.k.len() > 1 {
        return false;
    }
    let at_k = Instruction::OuterIndex(kernel.batch.len());
    kernel
        .left
        .program
        .instructions
        .contains(&Instruction::ColumnIndex)
        || kernel.right.program.instructions.contains(&at_k)
}

/// The store of an epilogue that only stores the product.
fn plain_store(body: &Body) -> Option<&Store> {
    match body.stores.as_slice() {
        [store] if store.access.dtype != DType::U32 && body.accumulates.is_empty() => {
            let value = &body.program.instructions[store.value.index()];
            (*value == Instruction::Accumulator).then_some(store)
        }
        _ => None,
    }
}

fn contiguous(buffer: BufferId, outer: &[usize], columns: usize) -> Access {
    Access {
        buffer,
        dtype: DType::F32,
        offset: 0,
        strides: row_strides(outer, columns),
        column_stride: 1,
    }
}

/// An epilogue that only stores the product.
fn store_product(access: Access) -> Body {
    let mut epilogue = Body::default();
    let value = epilogue.program.push(Instruction::Accumulator);
    epilogue.stores.push(Store { value, access });
    epilogue
}

/// Give a kernel a first batch axis of pieces of k. Where k has several axes, these stay, and
/// what is written out adds the piece's beginning.
fn cut(kernel: &mut ContractKernel, pieces: usize, piece: usize) {
    let single = kernel.k.len() == 1;
    let (batch, m) = (kernel.batch.len(), kernel.m.len());
    let step = |access: &Access, axis: usize| {
        let stride = access.strides.get(axis).unwrap_or(&access.column_stride);
        if single { stride * piece } else { 0 }
    };
    for access in program_accesses(&mut kernel.left.program) {
        access.strides.insert(0, step(access, batch + m));
    }
    for access in program_accesses(&mut kernel.right.program) {
        access.strides.insert(0, step(access, batch));
    }
    if single {
        kernel.k = vec![piece];
    }
    for program in [&mut kernel.left.program, &mut kernel.right.program] {
        for instruction in &mut program.instructions {
            if let Instruction::OuterIndex(axis) = instruction {
                *axis += 1;
            }
        }
    }
    kernel.batch.insert(0, pieces);
}

/// The sum over the first axis.
fn add_pieces(partial: Access, target: &Access, outer: &[usize], columns: usize) -> Fold {
    let mut body = Body::default();
    let value = body.program.push(Instruction::Load(partial));
    body.accumulates.push(Accumulate {
        combine: Combine::Sum,
        value,
        access: Access {
            strides: [&[0], target.strides.as_slice()].concat(),
            ..target.clone()
        },
    });
    let mut kept = vec![true; outer.len()];
    kept[0] = false;
    Fold {
        kernel: LoopKernel {
            outer: outer.to_vec(),
            columns,
            body,
        },
        kept,
        keeps_columns: true,
    }
}
