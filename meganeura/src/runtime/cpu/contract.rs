//! Contractions: operands made ready, the product, and what is done with it.

use super::gemm::{self, GemmError, Matrix, Output, Problem, Target, Tile};
use super::loops::{self, LoopProgram};
use super::memory::Region;
use super::pool::Pool;
use super::vector::InstructionSet;
use crate::ir::DType;
use crate::schedule::kernel::{
    Access, Body, BufferId, ContractKernel, Instruction, LoopKernel, Operand, Store, ValueId,
};

/// Rows of a product shorter than this are better worked on several at a time.
const TILE_COLUMNS: usize = 48;

/// A matrix for each index of the batch.
struct Place {
    region: Region,
    offset: usize,
    batch_strides: Vec<usize>,
    strides: [usize; 2],
}

impl Place {
    fn new(access: &Access, buffers: &[Region]) -> Self {
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
    unsafe fn target(&self) -> Target<'_> {
        let (start, elements) = self.start();
        // SAFETY: as above.
        let data = unsafe { std::slice::from_raw_parts_mut(start, elements) };
        Target::new(data, self.strides).batched(&self.batch_strides)
    }
}

/// What is done with a product.
enum After {
    /// It is stored as it is.
    Store(Place),
    /// Tiles of it are worked on as they come.
    Tiles(LoopProgram),
    /// It is stored in scratch memory and worked on from there.
    Whole(Place, LoopProgram),
}

/// A contraction with its buffers.
pub(super) struct ContractProgram {
    batch: Vec<usize>,
    size: [usize; 3],
    left: Place,
    right: Place,
    /// What computes the operands that are not in memory.
    before: Vec<LoopProgram>,
    /// What is done with the product.
    after: After,
    /// Memory for operands and product.
    _scratch: Vec<super::memory::Memory>,
}

/// Compiles one contraction.
struct Builder<'a> {
    buffers: Vec<Region>,
    set: InstructionSet,
    workers: usize,
    kernel: &'a ContractKernel,
    before: Vec<LoopProgram>,
    scratch: Vec<super::memory::Memory>,
}

impl ContractProgram {
    /// The kernel has been checked against the buffers.
    pub(super) fn new(
        kernel: &ContractKernel,
        buffers: &[Region],
        set: InstructionSet,
        workers: usize,
    ) -> Result<Self, String> {
        let mut builder = Builder {
            buffers: buffers.to_vec(),
            set,
            workers,
            kernel,
            before: Vec::new(),
            scratch: Vec::new(),
        };
        let left = builder.operand(&kernel.left, kernel.m, kernel.k)?;
        let right = builder.operand(&kernel.right, kernel.k, kernel.n)?;
        let operands = [left.region, right.region];
        let after = match plain_store(&kernel.epilogue) {
            Some(access) => {
                let place = Place::new(access, buffers);
                if operands
                    .iter()
                    .any(|operand| operand.overlaps(place.region))
                {
                    return Err("the result overlaps an operand".to_owned());
                }
                After::Store(place)
            }
            None => match builder.tile_epilogue(&operands) {
                Some(after) => After::Tiles(after),
                None => {
                    let (place, after) = builder.epilogue()?;
                    After::Whole(place, after)
                }
            },
        };
        Ok(Self {
            batch: kernel.batch.clone(),
            size: [kernel.m, kernel.n, kernel.k],
            left,
            right,
            before: builder.before,
            after,
            _scratch: builder.scratch,
        })
    }

    /// Floats of scratch memory for each worker.
    pub(super) fn scratch_elements(&self) -> usize {
        let loops = self.before.iter().chain(self.after.program());
        loops.map(LoopProgram::scratch_elements).max().unwrap_or(0)
    }

    /// Floats of memory shared by the workers.
    pub(super) fn shared_elements(&self) -> usize {
        let loops = self.before.iter().chain(self.after.program());
        loops.map(LoopProgram::shared_elements).max().unwrap_or(0)
    }

    /// Gives the program its memory.
    pub(super) fn bind(&mut self, scratch: &[*mut f32], shared: *mut f32) {
        let after = match &mut self.after {
            After::Store(_) => None,
            After::Tiles(program) | After::Whole(_, program) => Some(program),
        };
        for program in self.before.iter_mut().chain(after) {
            program.bind(scratch, shared);
        }
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// `bind` was called with memory that is still there, as are the buffers, and nobody
    /// else uses any of it.
    pub(super) unsafe fn run(&self, pool: &Pool) -> Result<(), String> {
        // SAFETY: the caller's promise; the product overlaps no operand.
        unsafe {
            for program in &self.before {
                program.run(pool);
            }
            self.multiply(pool).map_err(|error| error.to_string())?;
            if let After::Whole(_, after) = &self.after {
                after.run(pool);
            }
        }
        Ok(())
    }

    unsafe fn multiply(&self, pool: &Pool) -> Result<(), GemmError> {
        // SAFETY: the caller's promise.
        let (left, right) = unsafe { (self.left.matrix(), self.right.matrix()) };
        let (left, right) = (gemm::Operand::Memory(left), gemm::Operand::Memory(right));
        let problem = Problem::new(&self.batch, self.size, left, right)?;
        let rows = self.size[0];
        match &self.after {
            After::Store(place) | After::Whole(place, _) => {
                // SAFETY: the caller's promise; the product overlaps no operand.
                let target = unsafe { place.target() };
                gemm::gemm(pool, &problem, Output::Store(target))
            }
            After::Tiles(program) => {
                let work = |tile: Tile<'_>| {
                    let first = tile.batch * rows;
                    let rows = first + tile.rows.start..first + tile.rows.end;
                    let product = tile.data.as_mut_ptr();
                    // SAFETY: tiles have elements of their own, which are complete; the
                    // results overlap no operand.
                    unsafe {
                        program.run_tile(tile.worker, rows, tile.columns, product, tile.stride);
                    }
                };
                gemm::gemm(pool, &problem, Output::Tiles(&work))
            }
        }
    }
}

impl After {
    fn program(&self) -> Option<&LoopProgram> {
        match self {
            After::Store(_) => None,
            After::Tiles(program) | After::Whole(_, program) => Some(program),
        }
    }
}

impl Builder<'_> {
    /// New memory as a buffer of its own.
    fn reserve(&mut self, dims: &[usize]) -> Result<Access, String> {
        let too_large = || "its operands are too large".to_owned();
        let elements = dims
            .iter()
            .try_fold(1usize, |all, &dim| all.checked_mul(dim));
        let memory = super::memory::Memory::new(elements.ok_or_else(too_large)?, "a contraction")
            .map_err(|error| error.to_string())?;
        let buffer = BufferId(u32::try_from(self.buffers.len()).map_err(|_| too_large())?);
        self.buffers.push(memory.region());
        self.scratch.push(memory);
        let mut strides: Vec<usize> = (1..dims.len())
            .map(|axis| dims[axis..].iter().product())
            .collect();
        let column_stride = 1;
        // A dimension of 1 needs no stride, and batch axes must not overlap the rest.
        for (stride, &dim) in strides.iter_mut().zip(dims) {
            if dim == 1 {
                *stride = 0;
            }
        }
        Ok(Access {
            buffer,
            dtype: DType::F32,
            offset: 0,
            strides,
            column_stride,
        })
    }

    /// An operand in memory, computed first if need be.
    fn operand(&mut self, operand: &Operand, rows: usize, columns: usize) -> Result<Place, String> {
        if let Some(access) = operand.as_load() {
            return Ok(Place::new(access, &self.buffers));
        }
        // Batch axes that the operand does not depend on are not repeated.
        let program = &operand.program;
        let depends = |axis: usize| {
            program
                .instructions
                .contains(&Instruction::OuterIndex(axis))
                || program.loads().any(|access| access.strides[axis] != 0)
        };
        let batch = self.kernel.batch.iter().enumerate();
        let mut outer: Vec<usize> = batch
            .map(|(axis, &dim)| if depends(axis) { dim } else { dim.min(1) })
            .collect();
        outer.push(rows);
        let dims: Vec<usize> = outer.iter().copied().chain([columns]).collect();
        let access = self.reserve(&dims)?;
        let kernel = LoopKernel {
            outer,
            columns,
            body: Body {
                program: program.clone(),
                stores: vec![Store {
                    value: operand.value,
                    access: access.clone(),
                }],
                accumulates: Vec::new(),
            },
        };
        let program = loops::compile(&kernel, &self.buffers, self.set, self.workers);
        self.before.push(program);
        Ok(Place::new(&access, &self.buffers))
    }

    /// The epilogue on tiles, if it can work on them.
    fn tile_epilogue(&self, operands: &[Region]) -> Option<LoopProgram> {
        let kernel = self.kernel;
        let body = &kernel.epilogue;
        let overwrites = body.stores.iter().any(|store| {
            let target = self.buffers[store.access.buffer.index()];
            operands.iter().any(|operand| operand.overlaps(target))
        });
        if kernel.n < TILE_COLUMNS || overwrites || !body.accumulates.is_empty() {
            return None;
        }
        let after = LoopKernel {
            outer: kernel.batch.iter().copied().chain([kernel.m]).collect(),
            columns: kernel.n,
            body: body.clone(),
        };
        let after = loops::compile_epilogue(&after, &self.buffers, self.set, self.workers);
        after.columns_apart().then_some(after)
    }

    /// The product in memory, and a loop kernel that takes it from there.
    fn epilogue(&mut self) -> Result<(Place, LoopProgram), String> {
        let kernel = self.kernel;
        let outer: Vec<usize> = kernel.batch.iter().copied().chain([kernel.m]).collect();
        let dims: Vec<usize> = outer.iter().copied().chain([kernel.n]).collect();
        let access = self.reserve(&dims)?;
        let mut body = kernel.epilogue.clone();
        for instruction in &mut body.program.instructions {
            if *instruction == Instruction::Accumulator {
                *instruction = Instruction::Load(access.clone());
            }
        }
        let after = LoopKernel {
            outer,
            columns: kernel.n,
            body,
        };
        let after = loops::compile(&after, &self.buffers, self.set, self.workers);
        Ok((Place::new(&access, &self.buffers), after))
    }
}

/// Where the product goes when nothing else is done with it.
fn plain_store(epilogue: &Body) -> Option<&Access> {
    let [
        Store {
            value: ValueId(value),
            access,
        },
    ] = &epilogue.stores[..]
    else {
        return None;
    };
    let product =
        epilogue.program.instructions.get(*value as usize) == Some(&Instruction::Accumulator);
    let plain = product && epilogue.accumulates.is_empty() && access.dtype != DType::U32;
    plain.then_some(access)
}
