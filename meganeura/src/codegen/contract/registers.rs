//! Matrix products for software drivers: tiles in the registers of one invocation.

use super::epilogue::{Epilogue, announce_epilogue};
use super::indices::{column_group, digits, digits_of_four, four, k_digits, k_end, point_of_one};
use super::pieces::Chunk;
use super::rounded;
use crate::codegen::arguments::marked;
use crate::codegen::body::{Code, Point, Writer, announce_loads};
use crate::codegen::loops::outer_indices;
use crate::codegen::scalar::Functions;
use crate::codegen::{LowerError, Lowering};
use crate::ir::Precision;
use crate::schedule::kernel::ContractKernel;
use meganeura_shaders::{CONTRACT_REGISTERS, fill};

/// Invocations of a workgroup: as many as a vector of a processor has lanes.
const LANES: usize = 8;

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

/// How many tiles there are.
pub(super) fn tile_count(kernel: &ContractKernel) -> usize {
    let tiling = Tiling::choose(kernel);
    kernel.batch.iter().product::<usize>() * tiling.tiles_across * tiling.tiles_down
}

/// A rough number of statements when a tile's epilogue is written out.
pub(super) fn inline_statements(kernel: &ContractKernel) -> usize {
    let tiling = Tiling::choose(kernel);
    let epilogue = &kernel.epilogue;
    let one = epilogue.program.instructions.len() + epilogue.stores.len();
    // A plain store of the product counts one.
    (one - 1) * tiling.rows * tiling.vectors
}

impl Lowering<'_> {
    pub(super) fn contract_registers(
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
