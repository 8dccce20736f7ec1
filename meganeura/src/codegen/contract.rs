//! Matrix products, with what comes before and after them.

use super::arguments::marked;
use super::body::{Code, Column, Point, Writer, announce_loads};
use super::loops::outer_indices;
use super::memory::{Memory, is_vector};
use super::scalar::Functions;
use super::simplify::{body_accesses, program_accesses};
use super::split::row_strides;
use super::{LowerError, Lowering, count};
use crate::ir::{DType, Precision};
use crate::schedule::kernel::{
    Access, Accumulate, Body, ContractKernel, Instruction, LoopKernel, Store, ValueId,
};
use meganeura_shaders::{CONTRACT_REGISTERS, fill};

/// Invocations of a workgroup: as many as a vector of a processor has lanes.
const LANES: usize = 8;
/// Statements of an epilogue, over all of a tile, beyond which it becomes a kernel of its
/// own: a tile's epilogue is written out for each vector of it, and software drivers take
/// seconds to compile long shaders.
const MOST_STATEMENTS: usize = 64;

impl Lowering<'_> {
    pub(super) fn contract(&mut self, kernel: &ContractKernel) -> Result<(), LowerError> {
        let mut kernel = kernel.clone();
        simplify(&mut kernel);
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
    pub(super) fn product(
        &mut self,
        kernel: &ContractKernel,
        chunk: Option<Chunk>,
    ) -> Result<(), LowerError> {
        match self.target.software {
            true => self.contract_registers(kernel, chunk),
            false => self.contract_tiles(kernel, chunk),
        }
    }

    fn contract_registers(
        &mut self,
        kernel: &ContractKernel,
        chunk: Option<Chunk>,
    ) -> Result<(), LowerError> {
        let shape = Tiling::choose(kernel);
        let mut memory = self.memory();
        let wide = kernel.columns().is_multiple_of(4);
        // The left side is read element by element, and so are columns of several axes.
        announce_loads(&mut memory, &kernel.left.program, false);
        announce_loads(
            &mut memory,
            &kernel.right.program,
            wide && kernel.n.len() == 1,
        );
        announce_epilogue(&mut memory, kernel, wide);
        let functions = Functions::default();
        let registers = Registers {
            kernel,
            shape,
            chunk,
            functions: &functions,
            left: Writer::new(&kernel.left.program, &memory, &functions, "l"),
            right: Writer::new(&kernel.right.program, &memory, &functions, "w"),
            epilogue: Epilogue::new(kernel, &memory, &functions),
        };
        let mut before = Code::default();
        let axes = registers.before(&mut before);
        let batch = axes.batch.clone();
        let mut step = Code::default();
        registers.step(&mut step, &axes);
        let mut after = Code::default();
        registers.after(&mut after, &batch);

        let batches: usize = kernel.batch.iter().product();
        let groups_across = shape.tiles_across.div_ceil(shape.lanes_across);
        let lanes_down = LANES / shape.lanes_across;
        let groups_per_batch = groups_across * shape.tiles_down.div_ceil(lanes_down);
        let number = |value: usize| format!("{value}u");
        let source = fill(
            CONTRACT_REGISTERS,
            &[
                ("declarations", &memory.declarations()),
                ("functions", &functions.text()),
                ("workgroup", &number(LANES)),
                ("groups_per_batch", &marked(groups_per_batch)),
                ("groups_across", &marked(groups_across)),
                ("lanes_across", &number(shape.lanes_across)),
                ("lanes_down", &number(lanes_down)),
                ("batches", &marked(batches)),
                ("tiles_across", &marked(shape.tiles_across)),
                ("tiles_down", &marked(shape.tiles_down)),
                ("k", &k_end(kernel, chunk)),
                ("before", before.text()),
                ("step", step.text()),
                ("after", after.text()),
            ],
        );
        self.emit_lifted(&source, &memory, groups_per_batch * batches)
    }
}

/// Which part of k each batch contracts, where the first batch axis counts pieces of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    /// Elements of k before it was cut.
    pub whole: usize,
    /// Elements of a piece.
    pub piece: usize,
}

/// Where the loop over k ends; the last piece may be shorter.
pub(super) fn k_end(kernel: &ContractKernel, chunk: Option<Chunk>) -> String {
    match chunk {
        Some(Chunk { whole, piece }) if whole % piece != 0 => {
            format!("min({piece}u, {whole}u - i0 * {piece}u)")
        }
        Some(Chunk { piece, .. }) => format!("{piece}u"),
        None => format!("{}u", kernel.depth()),
    }
}

/// An operand's value as the product takes it.
pub(super) fn rounded(
    kernel: &ContractKernel,
    functions: &Functions,
    text: String,
    lanes: usize,
) -> String {
    match kernel.precision {
        Precision::F32 => text,
        Precision::BF16 => functions.call("bfloat16", lanes, &[&text]),
    }
}

/// Write the indices along the axes that one index stands for.
pub(super) fn digits(code: &mut Code, sizes: &[usize], index: &str, letter: &str) -> Vec<String> {
    match sizes {
        [_] => vec![index.to_owned()],
        _ => outer_indices(code, sizes, index, letter),
    }
}

/// Write the indices along the axes of k. A single axis is cut into pieces by strides;
/// several start with the piece.
pub(super) fn k_digits(
    code: &mut Code,
    kernel: &ContractKernel,
    chunk: Option<Chunk>,
) -> Vec<String> {
    match (chunk, kernel.k.len()) {
        (Some(Chunk { piece, .. }), 2..) => {
            code.line(format!("let whole_k = i0 * {piece}u + k;"));
            digits(code, &kernel.k, "whole_k", "k")
        }
        _ => digits(code, &kernel.k, "k", "k"),
    }
}

/// The point of a program whose last axis is its columns, of which it stands for one.
pub(super) fn point_of_one(axes: &[&[String]], suffix: String) -> Point {
    let mut outer = axes.concat();
    let column = outer.pop().unwrap_or_default();
    Point {
        outer,
        column: Column::One(column),
        suffix,
    }
}

/// The variables of four columns that consist of several axes: for each, its indices.
pub(super) fn digits_of_four(code: &mut Code, sizes: &[usize], suffix: &str) -> Vec<Vec<String>> {
    let lanes = ["x", "y", "z", "w"].iter();
    lanes
        .map(|lane| {
            digits(
                code,
                sizes,
                &format!("c{suffix}.{lane}"),
                &format!("n{suffix}{lane}"),
            )
        })
        .collect()
}

/// Announce what the epilogue of a contraction touches.
pub(super) fn announce_epilogue(memory: &mut Memory<'_>, kernel: &ContractKernel, wide: bool) {
    announce_loads(memory, &kernel.epilogue.program, wide);
    for store in &kernel.epilogue.stores {
        memory.add(&store.access, true, wide && is_vector(&store.access));
    }
}

/// How many tiles there are.
pub(super) fn tile_count(kernel: &ContractKernel) -> usize {
    let tiling = Tiling::choose(kernel);
    kernel.batch.iter().product::<usize>() * tiling.tiles_across * tiling.tiles_down
}

/// How the result is cut into tiles of one invocation.
#[derive(Debug, Clone, Copy)]
struct Tiling {
    /// Rows of a tile.
    rows: usize,
    /// Columns of a tile, in vectors of four.
    vectors: usize,
    tiles_down: usize,
    tiles_across: usize,
    /// How many of a workgroup's invocations lie side by side.
    lanes_across: usize,
}

impl Tiling {
    /// Larger tiles load less per product but take longer to compile and leave less to do
    /// in parallel.
    fn choose(kernel: &ContractKernel) -> Tiling {
        let batches: usize = kernel.batch.iter().product();
        let (m, n) = (kernel.rows(), kernel.columns());
        let products = batches * m * n * kernel.depth();
        let (most_rows, most_vectors) = match products {
            0..=0x3_ffff => (4, 1),
            0x4_0000..=0x3ff_ffff => (8, 2),
            _ => (16, 4),
        };
        let rows = most_rows.min(m.next_power_of_two());
        let vectors = most_vectors.min(n.div_ceil(4).next_power_of_two());
        let tiles_across = n.div_ceil(4 * vectors);
        Tiling {
            rows,
            vectors,
            tiles_down: m.div_ceil(rows),
            tiles_across,
            lanes_across: tiles_across.next_power_of_two().min(LANES),
        }
    }
}

/// Writes a contraction whose tiles stay in registers.
struct Registers<'a> {
    kernel: &'a ContractKernel,
    shape: Tiling,
    chunk: Option<Chunk>,
    functions: &'a Functions,
    left: Writer<'a>,
    right: Writer<'a>,
    epilogue: Epilogue<'a>,
}

/// Indices that the loop over k finds declared.
struct Indices {
    batch: Vec<String>,
    /// Along the axes of each row.
    rows: Vec<Vec<String>>,
    /// Along the axes of each column, by vector and lane, where these are several.
    columns: Vec<Vec<Vec<String>>>,
}

impl Registers<'_> {
    /// Write what comes before the loop over k.
    fn before(&self, code: &mut Code) -> Indices {
        let (rows, vectors) = (self.shape.rows, self.shape.vectors);
        let (m, n) = (self.kernel.rows(), self.kernel.columns());
        let mut indices = Indices {
            batch: outer_indices(code, &self.kernel.batch, "batch", "i"),
            rows: Vec::new(),
            columns: Vec::new(),
        };
        for row in 0..rows {
            let index = format!("tile_row * {rows}u + {row}u");
            code.line(match m.is_multiple_of(rows) {
                false => format!("let m{row} = min({index}, {}u);", m - 1),
                true => format!("let m{row} = {index};"),
            });
            let (sizes, letter) = (&self.kernel.m, format!("m{row}_"));
            let row_digits = digits(code, sizes, &format!("m{row}"), &letter);
            indices.rows.push(row_digits);
            if self.kernel.k.len() == 1 {
                self.left_rows(code, &self.left_point(&indices, row, &["k".to_owned()]));
            }
        }
        for vector in 0..vectors {
            let index = format!("tile_column * {vectors}u + {vector}u");
            column_group(code, n, &index, &vector.to_string(), vectors);
            if self.kernel.n.len() > 1 {
                let lanes = digits_of_four(code, &self.kernel.n, &vector.to_string());
                indices.columns.push(lanes);
            }
        }
        for row in 0..rows {
            for vector in 0..vectors {
                code.line(format!("var sum{row}_{vector} = vec4<f32>();"));
            }
        }
        indices
    }

    /// Write what the left side's values along k share.
    fn left_rows(&self, code: &mut Code, point: &Point) {
        let wanted = self.left.cone([self.kernel.left.value], false);
        self.left.row_values(code, point, 0, &wanted);
    }

    fn left_point(&self, indices: &Indices, row: usize, k: &[String]) -> Point {
        point_of_one(&[&indices.batch, &indices.rows[row], k], format!("_{row}"))
    }

    /// Write one step of k: a column of the left side times a row of the right.
    fn step(&self, code: &mut Code, indices: &Indices) {
        let k = k_digits(code, self.kernel, self.chunk);
        let vectors: Vec<String> = (0..self.shape.vectors)
            .map(|vector| {
                let text = self.right_vector(code, indices, &k, vector);
                self.rounded(code, text, 4, &format!("near_r{vector}"))
            })
            .collect();
        let left = self.left.cone([self.kernel.left.value], false);
        for row in 0..self.shape.rows {
            let point = self.left_point(indices, row, &k);
            if self.kernel.k.len() > 1 {
                self.left_rows(code, &point);
            }
            self.left.full_values(code, &point, &left);
            let element = self.left.value(self.kernel.left.value, &point, 4);
            let is_full = self.left.is_full(self.kernel.left.value);
            let lanes = if is_full { 1 } else { 4 };
            let element = self.rounded(code, element, lanes, &format!("near_l{row}"));
            let element = match is_full {
                true => format!("vec4<f32>({element})"),
                false => element,
            };
            for (vector, text) in vectors.iter().enumerate() {
                let sum = format!("sum{row}_{vector}");
                code.line(format!("{sum} = fma({element}, {text}, {sum});"));
            }
        }
    }

    /// Write a variable for an operand's value where the product rounds it; its text.
    fn rounded(&self, code: &mut Code, text: String, lanes: usize, name: &str) -> String {
        if self.kernel.precision == Precision::F32 {
            return text;
        }
        let value = rounded(self.kernel, self.functions, text, lanes);
        code.line(format!("let {name} = {value};"));
        name.to_owned()
    }

    /// Write four columns of the right side; their text.
    fn right_vector(
        &self,
        code: &mut Code,
        indices: &Indices,
        k: &[String],
        vector: usize,
    ) -> String {
        let value = self.kernel.right.value;
        if let Some(lanes) = indices.columns.get(vector) {
            let name = format!("right{vector}");
            let text = self
                .right
                .lanes(code, value, &[&indices.batch, k], lanes, &name);
            return text;
        }
        let right = self.right.cone([value], false);
        let point = Point {
            outer: [&indices.batch, k].concat(),
            column: four(self.kernel.columns(), &vector.to_string()),
            suffix: format!("_{vector}"),
        };
        self.right.row_values(code, &point, 0, &right);
        self.right.full_values(code, &point, &right);
        self.right.value(value, &point, 4)
    }

    /// Write the epilogue of the whole tile.
    fn after(&self, code: &mut Code, batch: &[String]) {
        let (rows, vectors) = (self.shape.rows, self.shape.vectors);
        for row in 0..rows {
            for vector in 0..vectors {
                code.block("", |code| {
                    let index = format!("tile_row * {rows}u + {row}u");
                    let group = format!("tile_column * {vectors}u + {vector}u");
                    let sum = format!("sum{row}_{vector}");
                    self.epilogue.element(code, batch, &index, &group, &sum);
                });
            }
        }
    }
}

/// A rough number of statements when a tile's epilogue is written out.
fn inline_statements(kernel: &ContractKernel) -> usize {
    let tiling = Tiling::choose(kernel);
    let epilogue = &kernel.epilogue;
    let one = epilogue.program.instructions.len() + epilogue.stores.len();
    // A plain store of the product counts one.
    (one - 1) * tiling.rows * tiling.vectors
}

/// Writes what is done with four columns of a result.
pub(super) struct Epilogue<'a> {
    kernel: &'a ContractKernel,
    writer: Writer<'a>,
}

impl<'a> Epilogue<'a> {
    pub fn new(
        kernel: &'a ContractKernel,
        memory: &'a Memory<'a>,
        functions: &'a Functions,
    ) -> Epilogue<'a> {
        Epilogue {
            kernel,
            writer: Writer::new(&kernel.epilogue.program, memory, functions, "e"),
        }
    }

    /// Write the epilogue for row `row` and the columns of group `group`, whose sums `sum`
    /// holds; nothing happens past the result's end.
    pub fn element(&self, code: &mut Code, batch: &[String], row: &str, group: &str, sum: &str) {
        let kernel = self.kernel;
        code.line(format!("let m = {row};"));
        code.line(format!("let g = {group};"));
        let (rows, columns) = (kernel.rows(), kernel.columns());
        let head = format!("if m < {rows}u && g < {}u", columns.div_ceil(4));
        code.block(head, |code| {
            column_group(code, columns, "g", "", 1);
            let point = Point {
                outer: [batch, &["m".to_owned()]].concat(),
                column: four(columns, ""),
                suffix: String::new(),
            };
            let stores = &kernel.epilogue.stores;
            let wanted = self
                .writer
                .cone(stores.iter().map(|store| store.value), false);
            for (index, instruction) in kernel.epilogue.program.instructions.iter().enumerate() {
                if *instruction == Instruction::Accumulator && wanted[index] {
                    let name = self.writer.name(ValueId(index as u32), &point);
                    code.line(format!("let {name} = {sum};"));
                }
            }
            self.writer.row_values(code, &point, 0, &wanted);
            self.writer.full_values(code, &point, &wanted);
            for store in stores {
                self.writer.store(code, store, &point);
            }
        });
    }
}

/// Write the variables of four columns: the group's index and each column's, none of which
/// lies past the end.
pub(super) fn column_group(code: &mut Code, n: usize, index: &str, suffix: &str, vectors: usize) {
    let groups = n.div_ceil(4);
    code.line(match groups.is_multiple_of(vectors) {
        true => format!("let q{suffix} = {index};"),
        false => format!("let q{suffix} = min({index}, {}u);", groups - 1),
    });
    let each = format!("vec4<u32>(q{suffix} * 4u) + vec4<u32>(0u, 1u, 2u, 3u)");
    code.line(match n.is_multiple_of(4) {
        true => format!("let c{suffix} = {each};"),
        false => format!("let c{suffix} = min({each}, vec4<u32>({}u));", n - 1),
    });
}

pub(super) fn four(n: usize, suffix: &str) -> Column {
    Column::Four {
        group: format!("q{suffix}"),
        each: format!("c{suffix}"),
        end: (!n.is_multiple_of(4)).then_some(n),
    }
}

/// Fewer batch axes: those of size 1 go, neighbours merge, and where all batches share the
/// right side the last becomes rows.
fn simplify(kernel: &mut ContractKernel) {
    for axis in (0..kernel.batch.len()).rev() {
        if kernel.batch[axis] == 1 && !uses_index(kernel, axis) {
            remove_axis(kernel, axis);
        }
    }
    for axis in (0..kernel.batch.len().saturating_sub(1)).rev() {
        let size = kernel.batch[axis + 1];
        let fits = accesses(kernel)
            .iter()
            .all(|a| a.strides[axis] == a.strides[axis + 1] * size);
        if fits && !uses_index(kernel, axis) && !uses_index(kernel, axis + 1) {
            kernel.batch[axis + 1] *= kernel.batch[axis];
            remove_axis(kernel, axis);
        }
    }
    while let Some(axis) = kernel.batch.len().checked_sub(1) {
        let &[m] = &kernel.m[..] else {
            return;
        };
        let shared =
            program_accesses(&mut kernel.right.program).all(|access| access.strides[axis] == 0);
        let fits = program_accesses(&mut kernel.left.program)
            .chain(body_accesses(&mut kernel.epilogue))
            .all(|access| access.strides[axis] == access.strides[axis + 1] * m);
        if !shared || !fits || uses_index(kernel, axis) || uses_index(kernel, axis + 1) {
            return;
        }
        kernel.m = vec![m * kernel.batch[axis]];
        remove_axis(kernel, axis);
    }
}

fn accesses(kernel: &mut ContractKernel) -> Vec<&mut Access> {
    program_accesses(&mut kernel.left.program)
        .chain(program_accesses(&mut kernel.right.program))
        .chain(body_accesses(&mut kernel.epilogue))
        .collect()
}

fn uses_index(kernel: &ContractKernel, axis: usize) -> bool {
    let programs = [
        &kernel.left.program,
        &kernel.right.program,
        &kernel.epilogue.program,
    ];
    let index = Instruction::OuterIndex(axis);
    programs
        .iter()
        .any(|program| program.instructions.contains(&index))
}

/// Drop a batch axis; when it merged into another, that one has the strides to keep.
fn remove_axis(kernel: &mut ContractKernel, axis: usize) {
    kernel.batch.remove(axis);
    for access in accesses(kernel) {
        access.strides.remove(axis);
    }
    let programs = [
        &mut kernel.left.program,
        &mut kernel.right.program,
        &mut kernel.epilogue.program,
    ];
    for instruction in programs
        .into_iter()
        .flat_map(|program| &mut program.instructions)
    {
        if let Instruction::OuterIndex(index) = instruction
            && *index > axis
        {
            *index -= 1;
        }
    }
}
