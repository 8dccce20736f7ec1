//! Matrix products for GPUs: strips of both sides in workgroup memory.

use super::body::{Code, Column, Point, Writer};
use super::contract::{Chunk, Epilogue, announce, k_end};
use super::loops::outer_indices;
use super::scalar::Functions;
use super::{LowerError, Lowering};
use crate::schedule::kernel::{ContractKernel, Operand};
use meganeura_shaders::{CONTRACT_TILES, fill};

/// Elements of k that lie in workgroup memory at a time.
const STRIP: usize = 16;
/// Rows that one invocation computes; of columns it computes four.
const ROWS: usize = 4;

/// How a result is cut.
#[derive(Debug, Clone, Copy)]
struct Tiling {
    /// Rows and columns of a workgroup's tile.
    rows: usize,
    columns: usize,
}

impl Tiling {
    fn choose(kernel: &ContractKernel) -> Tiling {
        let side = |size: usize| if size > 32 { 64 } else { 32 };
        Tiling {
            rows: side(kernel.m),
            columns: side(kernel.n),
        }
    }

    fn lanes_across(self) -> usize {
        self.columns / 4
    }

    fn invocations(self) -> usize {
        self.lanes_across() * self.rows / ROWS
    }
}

impl Lowering<'_> {
    pub(super) fn contract_tiles(
        &mut self,
        kernel: &ContractKernel,
        chunk: Option<Chunk>,
    ) -> Result<(), LowerError> {
        let tiling = Tiling::choose(kernel);
        let mut memory = self.memory();
        announce(&mut memory, kernel, false);
        let functions = Functions::default();
        let tiles = Tiles {
            kernel,
            tiling,
            left: Writer::new(&kernel.left.program, &memory, &functions, "l"),
            right: Writer::new(&kernel.right.program, &memory, &functions, "w"),
            epilogue: Epilogue::new(kernel, &memory, &functions),
        };
        let mut before = Code::default();
        let batch = outer_indices(&mut before, &kernel.batch, "batch", "i");
        for row in 0..ROWS {
            before.line(format!("var sum{row} = vec4<f32>();"));
        }
        let mut fills = Code::default();
        tiles.fill_left(&mut fills, &batch);
        tiles.fill_right(&mut fills, &batch);
        let mut step = Code::default();
        tiles.step(&mut step);
        let mut after = Code::default();
        tiles.after(&mut after, &batch);

        let batches: usize = kernel.batch.iter().product();
        let groups_across = kernel.n.div_ceil(tiling.columns);
        let groups_per_batch = groups_across * kernel.m.div_ceil(tiling.rows);
        let works = groups_per_batch * batches;
        let number = |value: usize| format!("{value}u");
        let source = fill(
            CONTRACT_TILES,
            &[
                ("declarations", &memory.declarations()),
                ("functions", &functions.text()),
                ("strip", &number(STRIP)),
                ("left_size", &(STRIP * tiling.rows).to_string()),
                ("right_size", &(STRIP * tiling.lanes_across()).to_string()),
                ("workgroup", &number(tiling.invocations())),
                ("works", &number(works)),
                ("groups_per_batch", &number(groups_per_batch)),
                ("groups_across", &number(groups_across)),
                ("tile_rows", &number(tiling.rows)),
                ("tile_columns", &number(tiling.columns)),
                ("lanes_across", &number(tiling.lanes_across())),
                ("k", &k_end(kernel, chunk)),
                ("before", before.text()),
                ("fill", fills.text()),
                ("step", step.text()),
                ("after", after.text()),
            ],
        );
        self.emit("", source, &memory, works)
    }
}

/// How many workgroups there are.
pub(super) fn group_count(kernel: &ContractKernel) -> usize {
    let tiling = Tiling::choose(kernel);
    let groups = kernel.n.div_ceil(tiling.columns) * kernel.m.div_ceil(tiling.rows);
    kernel.batch.iter().product::<usize>() * groups
}

/// Writes a contraction by tiles.
struct Tiles<'a> {
    kernel: &'a ContractKernel,
    tiling: Tiling,
    left: Writer<'a>,
    right: Writer<'a>,
    epilogue: Epilogue<'a>,
}

impl Tiles<'_> {
    /// Write the loads of the left strip, kept as `[k][row]`. Neighbouring invocations load
    /// neighbouring addresses: along k where that is how the memory lies, else along rows.
    fn fill_left(&self, code: &mut Code, batch: &[String]) {
        let rows = self.tiling.rows;
        let along_k = self
            .kernel
            .left
            .program
            .loads()
            .any(|access| access.column_stride == 1);
        let (at_k, at_row) = match along_k {
            true => (format!("e % {STRIP}u"), format!("e / {STRIP}u")),
            false => (format!("e / {rows}u"), format!("e % {rows}u")),
        };
        self.each_element(code, STRIP * rows, |code| {
            code.line(format!("let at_k = {at_k};"));
            code.line(format!("let at_row = {at_row};"));
            code.line("let k = start + at_k;");
            code.line("let m = tile_row + at_row;");
            code.line("var element = 0.0;");
            let inside = format!("if k < k_end && m < {}u", self.kernel.m);
            let point = Point {
                outer: [batch, &["m".to_owned()]].concat(),
                column: Column::One("k".to_owned()),
                suffix: String::new(),
            };
            code.block(inside, |code| {
                operand(code, &self.left, &self.kernel.left, &point)
            });
            code.line(format!("left_strip[at_k * {rows}u + at_row] = element;"));
        });
    }

    /// Write the loads of the right strip, kept as `[k][column]` in vectors of four columns.
    fn fill_right(&self, code: &mut Code, batch: &[String]) {
        let across = self.tiling.lanes_across();
        self.each_element(code, STRIP * across, |code| {
            code.line(format!("let at_k = e / {across}u;"));
            code.line(format!("let at_column = e % {across}u;"));
            code.line("let k = start + at_k;");
            code.line("var element = 0.0;");
            code.line("var vector = vec4<f32>();");
            for lane in 0..4 {
                code.block("", |code| {
                    code.line(format!("let n = tile_column + at_column * 4u + {lane}u;"));
                    let inside = format!("if k < k_end && n < {}u", self.kernel.n);
                    let point = Point {
                        outer: [batch, &["k".to_owned()]].concat(),
                        column: Column::One("n".to_owned()),
                        suffix: String::new(),
                    };
                    code.block(inside, |code| {
                        operand(code, &self.right, &self.kernel.right, &point);
                        code.line(format!("vector[{lane}] = element;"));
                    });
                });
            }
            code.line(format!(
                "right_strip[at_k * {across}u + at_column] = vector;"
            ));
        });
    }

    /// Write a loop in which the workgroup's invocations share so many elements.
    fn each_element(&self, code: &mut Code, elements: usize, body: impl FnOnce(&mut Code)) {
        let invocations = self.tiling.invocations();
        let head = format!("for (var e = lane; e < {elements}u; e += {invocations}u)");
        code.block(head, body);
    }

    fn step(&self, code: &mut Code) {
        let (rows, across) = (self.tiling.rows, self.tiling.lanes_across());
        code.line(format!(
            "let right = right_strip[k * {across}u + lane_column];"
        ));
        for row in 0..ROWS {
            let left = format!("left_strip[k * {rows}u + lane_row * {ROWS}u + {row}u]");
            code.line(format!(
                "sum{row} = fma(vec4<f32>({left}), right, sum{row});"
            ));
        }
    }

    fn after(&self, code: &mut Code, batch: &[String]) {
        for row in 0..ROWS {
            code.block("", |code| {
                let index = format!("tile_row + lane_row * {ROWS}u + {row}u");
                let group = "tile_column / 4u + lane_column";
                self.epilogue
                    .element(code, batch, &index, group, &format!("sum{row}"));
            });
        }
    }
}

/// Write the computation of one element of an operand into the variable `element`.
fn operand(code: &mut Code, writer: &Writer<'_>, operand: &Operand, point: &Point) {
    let wanted = writer.cone([operand.value], false);
    writer.row_values(code, point, 0, &wanted);
    writer.full_values(code, point, &wanted);
    code.line(format!(
        "element = {};",
        writer.value(operand.value, point, 1)
    ));
}
