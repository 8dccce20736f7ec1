//! Contractions: operands made ready, the product, and what is done with it.

mod product;

use self::product::{Place, Product, Side};
use super::depth::{self, Common};
use super::gemm::{self, Epilogue, Fold, GemmError, Matter, Output, Problem, Soon, Tile};
use super::loops::{self, LoopProgram};
use super::memory::{Element, Region};
use super::pool::Pool;
use super::tune::Choice;
use super::vector::InstructionSet;
use crate::ir::{DType, ScalarOp};
use crate::schedule::kernel::{
    Access, Body, BufferId, ContractKernel, Instruction, LoopKernel, Operand, Program, Store,
    ValueId,
};
use std::ops::Range;

/// Rows of a product shorter than this are better worked on several at a time.
const TILE_COLUMNS: usize = 48;

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
    product: Product,
    choice: Choice,
    /// Which operands may be gathered first or not.
    may_gather: [bool; 2],
    workers: usize,
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
    /// The kernel has been checked against the buffers, and there is room for its parts. Rules
    /// choose without a choice, and where it would add up in another order.
    pub(super) fn new(
        kernel: &ContractKernel,
        buffers: &[Region],
        set: InstructionSet,
        workers: usize,
        common: &Common<'_>,
        chosen: Option<Choice>,
    ) -> Result<Self, String> {
        let with = |chosen| Self::with(kernel, buffers, set, workers, common, chosen);
        let Some(choice) = chosen else {
            return with(None);
        };
        let chosen = with(Some(choice))?;
        let by_rules = with(None)?;
        match by_rules.choice.gathered == chosen.choice.gathered || chosen.adds_like(&by_rules)? {
            true => Ok(chosen),
            false => Ok(by_rules),
        }
    }

    fn with(
        kernel: &ContractKernel,
        buffers: &[Region],
        set: InstructionSet,
        workers: usize,
        common: &Common<'_>,
        chosen: Option<Choice>,
    ) -> Result<Self, String> {
        let parts = depth::parts(kernel, common.rewritten);
        let folds = depth::folds(kernel, common.rewritten);
        let cut;
        let (whole, kernel) = match parts {
            1 => (kernel, kernel),
            parts => {
                cut = depth::cut(kernel, parts);
                (kernel, &cut)
            }
        };
        let mut builder = Builder {
            buffers: buffers.to_vec(),
            set,
            workers,
            kernel,
            before: Vec::new(),
            scratch: Vec::new(),
        };
        let sides = [
            (&kernel.left, [&kernel.m[..], &kernel.k]),
            (&kernel.right, [&kernel.k[..], &kernel.n]),
        ];
        let must = sides.map(|(operand, axes)| must_gather(operand, axes));
        let may_gather = [0, 1].map(|side| may_gather(sides[side].0, sides[side].1) && !must[side]);
        let gathered = match chosen {
            Some(choice) => choice.gathered,
            None => sides.map(|(operand, _)| builder.is_shared(operand)),
        };
        let gathered = [0, 1].map(|side| must[side] || (gathered[side] && may_gather[side]));
        let [left, right] = sides;
        let left = builder.operand(left.0, left.1, gathered[0])?;
        let right = builder.operand(right.0, right.1, gathered[1])?;
        let operands = [left.region(), right.region()];
        let after = match plain_store(&kernel.epilogue) {
            _ if parts > 1 => {
                let (place, after) = builder.sum_of_parts(whole, parts, common.parts)?;
                After::Whole(place, after)
            }
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
        let product = Product {
            batch: kernel.batch.clone(),
            size: [kernel.rows(), kernel.columns(), kernel.depth()],
            precision: kernel.precision,
            left,
            right,
            in_blocks: matches!(&after, After::Tiles(program) if program.adds_up()),
            fold: folds.then_some(Fold {
                room: (workers > 1).then_some(common.parts),
            }),
        };
        let chosen = chosen.map(|choice| choice.product);
        let choose = |problem: &Problem<'_>| gemm::choose(chosen, workers, problem, after.form());
        // SAFETY: the buffers are there, and nothing runs while a plan is loaded.
        let chosen = unsafe { product.with(choose) }.map_err(|error| error.to_string())?;
        Ok(Self {
            product,
            choice: Choice {
                gathered,
                product: chosen,
            },
            may_gather,
            workers,
            before: builder.before,
            after,
            _scratch: builder.scratch,
        })
    }

    /// Floats of scratch memory for each worker, and shared by them.
    pub(super) fn needs(&self) -> (usize, usize) {
        let loops = || self.before.iter().chain(self.after.program());
        let scratch = loops().map(LoopProgram::scratch_elements).max();
        let shared = loops().map(LoopProgram::shared_elements).max();
        (scratch.unwrap_or(0), shared.unwrap_or(0))
    }

    /// How the product is computed.
    pub(super) fn choice(&self) -> Choice {
        self.choice
    }

    /// Computes the product otherwise.
    pub(super) fn choose(&mut self, product: gemm::Choice) {
        self.choice.product = product;
    }

    /// Which operands could be gathered otherwise.
    pub(super) fn other_gatherings(&self) -> Vec<[bool; 2]> {
        let choices = |side: usize| match self.may_gather[side] {
            true => vec![self.choice.gathered[side], !self.choice.gathered[side]],
            false => vec![self.choice.gathered[side]],
        };
        let all = choices(0).into_iter().flat_map(|left| {
            let of = move |right| [left, right];
            choices(1).into_iter().map(of)
        });
        all.skip(1).collect()
    }

    /// How else the product could be computed, in one matter.
    ///
    /// # Safety
    /// The buffers are still there.
    pub(super) unsafe fn others(&self, matter: Matter) -> Vec<gemm::Choice> {
        let (product, form) = (&self.choice.product, self.after.form());
        let others =
            |problem: &Problem<'_>| gemm::others(product, matter, self.workers, problem, form);
        // SAFETY: the caller's promise; nothing is read.
        unsafe { self.product.with(others) }.unwrap_or_default()
    }

    /// Whether two programs of one kernel add up in the same order, while they are made.
    fn adds_like(&self, other: &ContractProgram) -> Result<bool, String> {
        let by_dots = |program: &ContractProgram| {
            // SAFETY: the buffers are there, and nothing runs while a plan is loaded.
            let by_dots = unsafe { program.product.with(gemm::by_dots) };
            by_dots.map_err(|error| error.to_string())
        };
        Ok(by_dots(self)? == by_dots(other)?)
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
            match &self.after {
                After::Store(_) => {}
                After::Tiles(after) => after.add_blocks(pool),
                After::Whole(_, after) => after.run(pool),
            }
        }
        Ok(())
    }

    unsafe fn multiply(&self, pool: &Pool) -> Result<(), GemmError> {
        let multiply = |problem: &Problem<'_>| match &self.after {
            After::Store(place) | After::Whole(place, _) => {
                // SAFETY: the caller's promise; the product overlaps no operand.
                let target = unsafe { place.target() };
                gemm::gemm_as(&self.choice.product, pool, problem, Output::Store(target))
            }
            After::Tiles(program) => {
                let rows = self.product.size[0];
                let work = OnTiles { program, rows };
                gemm::gemm_as(&self.choice.product, pool, problem, Output::Tiles(&work))
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.product.with(multiply) }?
    }
}

/// An epilogue while its product is computed.
struct OnTiles<'a> {
    program: &'a LoopProgram,
    /// Rows of each product.
    rows: usize,
}

impl OnTiles<'_> {
    /// Rows of a product, counted over all products.
    fn rows(&self, batch: usize, rows: &Range<usize>) -> Range<usize> {
        let first = batch * self.rows;
        first + rows.start..first + rows.end
    }
}

impl Epilogue for OnTiles<'_> {
    fn tile(&self, tile: Tile<'_>) {
        let rows = self.rows(tile.batch, &tile.rows);
        let product = tile.data.as_mut_ptr();
        // SAFETY: tiles have elements of their own, which are complete; the results overlap
        // no operand. Only `ContractProgram::run` makes a value, and passes its caller's
        // promise on.
        unsafe {
            self.program
                .run_tile(tile.worker, rows, tile.columns, product, tile.stride);
        }
    }

    fn soon(&self, batch: usize, rows: Range<usize>, column: usize, list: &mut Vec<Soon>) {
        self.program.soon(self.rows(batch, &rows), column, list);
    }
}

impl After {
    /// Where the product goes.
    fn form(&self) -> gemm::Form {
        match self {
            After::Store(place) | After::Whole(place, _) => gemm::Form::of_memory(place.strides),
            After::Tiles(_) => gemm::Form::Tiles,
        }
    }

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
        let region = memory.region();
        self.scratch.push(memory);
        self.buffer(region, dims)
    }

    /// Memory as a buffer of its own.
    fn buffer(&mut self, region: Region, dims: &[usize]) -> Result<Access, String> {
        let buffer = u32::try_from(self.buffers.len());
        let buffer = BufferId(buffer.map_err(|_| "it has too many operands".to_owned())?);
        self.buffers.push(region);
        let mut strides = contiguous(dims);
        strides.pop();
        Ok(Access {
            buffer,
            dtype: DType::F32,
            offset: 0,
            strides,
            column_stride: 1,
        })
    }

    /// Whether many products share an operand, which is gathered once for all of them then.
    fn is_shared(&self, operand: &Operand) -> bool {
        let batch = &self.kernel.batch[..];
        let same = |access: &Access| access.strides[..batch.len()].iter().all(|&step| step == 0);
        operand.as_load().is_some_and(same) && batch.iter().product::<usize>() > 1
    }

    /// An operand in memory, computed or gathered first if need be.
    fn operand(
        &mut self,
        operand: &Operand,
        [rows, columns]: [&[usize]; 2],
        gathered: bool,
    ) -> Result<Side, String> {
        let batch = &self.kernel.batch[..];
        let halves = |access: &Access| Element::of(access.dtype) == Element::Half;
        let compound = rows.len() > 1 || columns.len() > 1;
        if let (Some(access), false) = (operand.as_load(), gathered)
            && !(compound && halves(access))
        {
            let axes = [batch, rows, columns];
            return Ok(Side::new(access, axes, &self.buffers, self.set));
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
        let batch: Vec<usize> = batch
            .map(|(axis, &dim)| if depends(axis) { dim } else { dim.min(1) })
            .collect();
        let count = |axes: &[usize]| axes.iter().product::<usize>();
        let matrix = [count(rows), count(columns)];
        let matrix = self.reserve(&[&batch[..], &matrix].concat())?;
        // The same memory over all the axes.
        let mut axes = [&batch[..], rows, columns].concat();
        let access = Access {
            strides: contiguous(&axes)[..axes.len() - 1].to_vec(),
            ..matrix.clone()
        };
        let columns = axes.pop().unwrap_or(1);
        let kernel = LoopKernel {
            outer: axes,
            columns,
            body: Body {
                program: program.clone(),
                stores: vec![Store {
                    value: operand.value,
                    access,
                }],
                accumulates: Vec::new(),
            },
        };
        let program = loops::compile(&kernel, &self.buffers, self.set, self.workers);
        self.before.push(program);
        Ok(Side::Plain(Place::new(&matrix, &self.buffers)))
    }

    /// The epilogue on tiles, if it can work on them.
    fn tile_epilogue(&self, operands: &[Region]) -> Option<LoopProgram> {
        let kernel = self.kernel;
        let body = &kernel.epilogue;
        let overwrites = body.stores.iter().any(|store| {
            let target = self.buffers[store.access.buffer.index()];
            operands.iter().any(|operand| operand.overlaps(target))
        });
        if kernel.columns() < TILE_COLUMNS || overwrites {
            return None;
        }
        let (outer, columns) = kernel.result_domain();
        let after = LoopKernel {
            outer,
            columns,
            body: body.clone(),
        };
        let rows = kernel.rows();
        let after = loops::compile_epilogue(&after, rows, &self.buffers, self.set, self.workers);
        after.columns_apart().then_some(after)
    }

    /// The product in memory, and a loop kernel that takes it from there.
    fn epilogue(&mut self) -> Result<(Place, LoopProgram), String> {
        let kernel = self.kernel;
        let (outer, columns) = kernel.result_domain();
        let access = self.reserve(&[&outer[..], &[columns]].concat())?;
        let after = self.after(kernel, std::iter::once(access.clone()));
        Ok((Place::new(&access, &self.buffers), after))
    }

    /// The parts of a product in memory, and a loop kernel that adds them up.
    fn sum_of_parts(
        &mut self,
        kernel: &ContractKernel,
        parts: usize,
        room: Region,
    ) -> Result<(Place, LoopProgram), String> {
        let (outer, columns) = kernel.result_domain();
        let all = self.buffer(room, &[&[parts], &outer[..], &[columns]].concat())?;
        let size = outer.iter().product::<usize>() * columns;
        let part = |index: usize| Access {
            offset: index * size,
            strides: all.strides[1..].to_vec(),
            ..all.clone()
        };
        let after = self.after(kernel, (0..parts).map(part));
        Ok((Place::new(&all, &self.buffers), after))
    }

    /// A loop kernel that does what a product's epilogue does, with the sum of some elements.
    fn after(&self, kernel: &ContractKernel, product: impl Iterator<Item = Access>) -> LoopProgram {
        let (outer, columns) = kernel.result_domain();
        let after = LoopKernel {
            outer,
            columns,
            body: with_product(&kernel.epilogue, product),
        };
        loops::compile(&after, &self.buffers, self.set, self.workers)
    }
}

/// Whether an operand's rows or columns consist of several axes of memory, so that it may be
/// read where it lies or gathered to a matrix.
fn may_gather(operand: &Operand, axes: [&[usize]; 2]) -> bool {
    operand.as_load().is_some() && axes.iter().any(|axes| axes.len() > 1)
}

/// Whether an operand has to be: elements of several axes are read where they lie as floats only.
fn must_gather(operand: &Operand, axes: [&[usize]; 2]) -> bool {
    let halves = |access: &Access| Element::of(access.dtype) == Element::Half;
    may_gather(operand, axes) && operand.as_load().is_some_and(halves)
}

/// An epilogue whose accumulator is the sum of some elements in memory.
fn with_product(epilogue: &Body, parts: impl Iterator<Item = Access>) -> Body {
    let mut program = Program::default();
    let mut sum: Option<ValueId> = None;
    for part in parts {
        let part = program.push(Instruction::Load(part));
        sum = Some(match sum {
            None => part,
            Some(sum) => program.push(Instruction::Scalar(ScalarOp::Add, vec![sum, part])),
        });
    }
    let product = sum.unwrap_or(ValueId(0));
    let mut values: Vec<ValueId> = Vec::with_capacity(epilogue.program.instructions.len());
    for instruction in &epilogue.program.instructions {
        let of = |value: &ValueId| values[value.index()];
        let value = match instruction {
            Instruction::Accumulator => product,
            Instruction::Scalar(op, operands) => {
                let operands = operands.iter().map(of).collect();
                program.push(Instruction::Scalar(*op, operands))
            }
            Instruction::Reduce(combine, operand) => {
                let operand = of(operand);
                program.push(Instruction::Reduce(*combine, operand))
            }
            other => program.push(other.clone()),
        };
        values.push(value);
    }
    let mut body = Body {
        program,
        ..epilogue.clone()
    };
    for store in &mut body.stores {
        store.value = values[store.value.index()];
    }
    for sum in &mut body.accumulates {
        sum.value = values[sum.value.index()];
    }
    body
}

/// Row-major strides; axes of size 1 need none, and batch axes must not overlap the rest.
fn contiguous(dims: &[usize]) -> Vec<usize> {
    let stride = |axis: usize| match dims[axis] {
        1 => 0,
        _ => dims[axis + 1..].iter().product(),
    };
    let mut strides: Vec<usize> = (0..dims.len()).map(stride).collect();
    if let Some(last) = strides.last_mut() {
        *last = 1;
    }
    strides
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
    let floats = Element::of(access.dtype) == Element::Float;
    let plain = product && epilogue.accumulates.is_empty() && floats;
    plain.then_some(access)
}
