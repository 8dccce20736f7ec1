//! Matrix products, with what comes before and after them.

mod batch;
mod epilogue;
mod indices;
mod pieces;
mod registers;
mod tiles;

use super::scalar::Functions;
use super::split::row_strides;
use super::{LowerError, Lowering, count};
use crate::ir::{DType, Precision};
use crate::schedule::kernel::{
    Access, Accumulate, Body, ContractKernel, Instruction, LoopKernel, Store, ValueId,
};
use batch::merge_batch;
use pieces::Chunk;
use registers::inline_statements;

/// Statements of an epilogue, over all of a tile, beyond which it becomes a kernel of its
/// own: a tile's epilogue is written out for each vector of it, and software drivers take
/// seconds to compile long shaders.
const MOST_STATEMENTS: usize = 64;

impl Lowering<'_> {
    pub(super) fn contract(&mut self, kernel: &ContractKernel) -> Result<(), LowerError> {
        let mut kernel = kernel.clone();
        merge_batch(&mut kernel);
        let is_empty = kernel.batch.contains(&0) || kernel.rows() * kernel.columns() == 0;
        if !is_empty {
            let pieces = self.pieces_of_k(&kernel)?;
            if pieces > 1 || (self.target.software && inline_statements(&kernel) > MOST_STATEMENTS)
            {
                return self.epilogue_apart(kernel, pieces);
            }
        }
        let rest = self.accumulated(&mut kernel)?;
        if !is_empty && !kernel.epilogue.stores.is_empty() {
            self.product(&kernel, None)?;
        }
        match rest {
            Some(rest) => self.loops(&rest),
            None => Ok(()),
        }
    }

    /// Take the results over rows out of the epilogue: it stores their values in scratch
    /// memory, and a kernel of their own combines them.
    fn accumulated(
        &mut self,
        kernel: &mut ContractKernel,
    ) -> Result<Option<LoopKernel>, LowerError> {
        let accumulates = std::mem::take(&mut kernel.epilogue.accumulates);
        if accumulates.is_empty() {
            return Ok(None);
        }
        let (outer, columns) = kernel.result_domain();
        let elements = count(&[outer.iter().product(), columns])?;
        let mut rest = LoopKernel {
            columns,
            body: Body::default(),
            outer,
        };
        for accumulate in accumulates {
            let access = self.stored(kernel, accumulate.value, &rest, elements);
            let value = rest.body.program.push(Instruction::Load(access));
            rest.body.accumulates.push(Accumulate {
                value,
                ..accumulate
            });
        }
        Ok(Some(rest))
    }

    /// Where an epilogue leaves a value for a kernel that combines it over rows: in scratch
    /// memory, unless it is stored anyway.
    fn stored(
        &mut self,
        kernel: &mut ContractKernel,
        value: ValueId,
        rest: &LoopKernel,
        elements: usize,
    ) -> Access {
        let stores = &mut kernel.epilogue.stores;
        let kept = |store: &&Store| {
            let access = &store.access;
            store.value == value && access.dtype == DType::F32 && access.column_stride != 0
        };
        if let Some(store) = stores.iter().find(kept) {
            return store.access.clone();
        }
        let access = Access {
            buffer: self.scratch(elements),
            dtype: DType::F32,
            offset: 0,
            strides: row_strides(&rest.outer, rest.columns),
            column_stride: 1,
        };
        stores.push(Store {
            value,
            access: access.clone(),
        });
        access
    }

    /// A product whose epilogue only stores.
    fn product(&mut self, kernel: &ContractKernel, chunk: Option<Chunk>) -> Result<(), LowerError> {
        match self.target.software {
            true => self.contract_registers(kernel, chunk),
            false => self.contract_tiles(kernel, chunk),
        }
    }
}

/// An operand's value as the product takes it.
fn rounded(kernel: &ContractKernel, functions: &Functions, text: String, lanes: usize) -> String {
    match kernel.precision {
        Precision::F32 => text,
        Precision::BF16 => functions.call("bfloat16", lanes, &[&text]),
    }
}
