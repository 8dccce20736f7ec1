//! Matrix products for GPUs: strips of both sides in workgroup memory.

use super::epilogue::{Epilogue, announce_epilogue};
use super::indices::{column_group, digits, digits_of_four, four, k_digits, k_end};
use super::pieces::Chunk;
use super::rounded;
use crate::codegen::body::{Code, Column, Point, Writer, announce_loads};
use crate::codegen::loops::outer_indices;
use crate::codegen::memory::is_vector;
use crate::codegen::scalar::Functions;
use crate::codegen::{LowerError, Lowering};
use crate::schedule::kernel::ContractKernel;
use meganeura_shaders::{CONTRACT_TILES, fill};

/// Elements of k that lie in workgroup memory at a time.
const STRIP: usize = 16;

/// How a result is cut.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tiling {
    /// Rows and columns of a workgroup's tile.
    rows: usize,
    columns: usize,
    /// Rows that one invocation computes.
    rows_each: usize,
    /// Vectors of four columns that one invocation computes.
    vectors_each: usize,
}

impl Tiling {
    /// Large tiles where there are enough of them to fill a device.
    fn choose(kernel: &ContractKernel) -> Tiling {
        let large = Tiling {
            rows: 128,
            columns: 128,
            rows_each: 8,
            vectors_each: 2,
        };
        let (m, n) = (kernel.rows(), kernel.columns());
        if large.count(kernel) >= 64 && m >= 128 && n >= 128 {
            return large;
        }
        let side = |size: usize| if size > 32 { 64 } else { 32 };
        Tiling {
            rows: side(m),
            columns: side(n),
            rows_each: 4,
            vectors_each: 1,
        }
    }

    fn count(self, kernel: &ContractKernel) -> usize {
        let down = kernel.rows().div_ceil(self.rows);
        let groups = kernel.columns().div_ceil(self.columns) * down;
        kernel.batch.iter().product::<usize>() * groups
    }

    fn lanes_across(self) -> usize {
        self.columns / (4 * self.vectors_each)
    }

    fn invocations(self) -> usize {
        self.lanes_across() * self.rows / self.rows_each
    }
}

/// How many workgroups there are.
pub(super) fn group_count(kernel: &ContractKernel) -> usize {
    Tiling::choose(kernel).count(kernel)
}

impl Lowering<'_> {
    pub(super) fn contract_tiles(
        &mut self,
        kernel: &ContractKernel,
        chunk: Option<Chunk>,
    ) -> Result<(), LowerError> {
        let tiling = Tiling::choose(kernel);
        let depth = kernel.depth();
        let whole_k = chunk.map_or(depth, |chunk| chunk.whole);
        let divides = depth.is_multiple_of(4) && whole_k.is_multiple_of(4);
        let single = kernel.k.len() == 1;
        let left_wide = divides && single && kernel.left.program.loads().any(is_vector);
        let wide = kernel.columns().is_multiple_of(4);
        let mut memory = self.memory();
        announce_loads(&mut memory, &kernel.left.program, left_wide);
        announce_loads(
            &mut memory,
            &kernel.right.program,
            wide && kernel.n.len() == 1,
        );
        announce_epilogue(&mut memory, kernel, wide);
        let functions = Functions::default();
        let tiles = Tiles {
            kernel,
            tiling,
            chunk,
            left_wide,
            functions: &functions,
            left: Writer::new(&kernel.left.program, &memory, &functions, "l"),
            right: Writer::new(&kernel.right.program, &memory, &functions, "w"),
            epilogue: Epilogue::new(kernel, &memory, &functions),
        };
        let mut before = Code::default();
        let batch = outer_indices(&mut before, &kernel.batch, "batch", "i");
        tiles.declare(&mut before);
        let mut fills = Code::default();
        tiles.fill_left(&mut fills, &batch);
        tiles.fill_right(&mut fills, &batch);
        let mut step = Code::default();
        tiles.step(&mut step);
        let mut after = Code::default();
        tiles.after(&mut after, &batch);

        let works = tiling.count(kernel);
        let groups_across = kernel.columns().div_ceil(tiling.columns);
        let number = |value: usize| format!("{value}u");
        let source = fill(
            CONTRACT_TILES,
            &[
                ("declarations", &memory.declarations()),
                ("functions", &functions.text()),
                ("strip", &number(STRIP)),
                ("left_size", &(STRIP * tiling.rows / 4).to_string()),
                ("right_size", &(STRIP * tiling.columns / 4).to_string()),
                ("workgroup", &number(tiling.invocations())),
                ("works", &number(works)),
                (
                    "groups_per_batch",
                    &number(groups_across * kernel.rows().div_ceil(tiling.rows)),
                ),
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

/// Writes a contraction by tiles. Both strips hold vectors of four: `[k][row / 4]` and
/// `[k][column / 4]`. Rows and columns past the end repeat the last, since their results
/// are not stored; elements of k past the end are 0.
struct Tiles<'a> {
    kernel: &'a ContractKernel,
    tiling: Tiling,
    chunk: Option<Chunk>,
    /// Whether the left side is loaded in vectors along k.
    left_wide: bool,
    functions: &'a Functions,
    left: Writer<'a>,
    right: Writer<'a>,
    epilogue: Epilogue<'a>,
}

impl Tiles<'_> {
    fn declare(&self, code: &mut Code) {
        for row in 0..self.tiling.rows_each {
            for vector in 0..self.tiling.vectors_each {
                code.line(format!("var sum{row}_{vector} = vec4<f32>();"));
            }
        }
    }

    /// Write the loads of the left strip. Neighbouring invocations load neighbouring
    /// addresses: along k where that is how the memory lies, else along rows.
    fn fill_left(&self, code: &mut Code, batch: &[String]) {
        let groups = self.tiling.rows / 4;
        let loads = || self.kernel.left.program.loads();
        let along_k = self.left_wide || loads().any(|access| access.column_stride == 1);
        let steps = if self.left_wide { STRIP / 4 } else { STRIP };
        let (at_k, at_row) = match along_k {
            true => (format!("e % {steps}u"), format!("e / {steps}u")),
            false => (format!("e / {groups}u"), format!("e % {groups}u")),
        };
        self.each(code, steps * groups, |code| {
            code.line(format!("let at_k = {at_k};"));
            code.line(format!("let at_row = {at_row};"));
            match self.left_wide {
                true => self.left_by_four(code, batch),
                false => self.left_one_by_one(code, batch),
            }
        });
    }

    /// Write the loads of four elements of k for four rows, turned around.
    fn left_by_four(&self, code: &mut Code, batch: &[String]) {
        let groups = self.tiling.rows / 4;
        code.line("let q = start / 4u + at_k;");
        code.line("let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);");
        for row in 0..4 {
            code.line(format!("var left{row} = vec4<f32>();"));
        }
        code.block("if q * 4u < k_end", |code| {
            for row in 0..4 {
                let column = Column::Four {
                    group: "q".to_owned(),
                    each: "c".to_owned(),
                    end: None,
                };
                let value = self.left_value(code, batch, row, &[], column);
                code.line(format!("left{row} = {value};"));
            }
        });
        for (k, lane) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let rows: Vec<String> = (0..4).map(|row| format!("left{row}.{lane}")).collect();
            code.line(format!(
                "left_strip[(at_k * 4u + {k}u) * {groups}u + at_row] = vec4<f32>({});",
                rows.join(", ")
            ));
        }
    }

    /// Write the loads of one element of k for four rows.
    fn left_one_by_one(&self, code: &mut Code, batch: &[String]) {
        let groups = self.tiling.rows / 4;
        code.line("let k = start + at_k;");
        code.line("var vector = vec4<f32>();");
        code.block("if k < k_end", |code| {
            let mut k = k_digits(code, self.kernel, self.chunk);
            let column = Column::One(k.pop().unwrap_or_default());
            let values: Vec<String> = (0..4)
                .map(|row| self.left_value(code, batch, row, &k, column.clone()))
                .collect();
            code.line(format!("vector = vec4<f32>({});", values.join(", ")));
        });
        code.line(format!("left_strip[at_k * {groups}u + at_row] = vector;"));
    }

    /// Write the left side's value in one of four rows, at some outer axes of k.
    fn left_value(
        &self,
        code: &mut Code,
        batch: &[String],
        row: usize,
        k: &[String],
        column: Column,
    ) -> String {
        let lanes = column.lanes();
        let index = format!("tile_row + at_row * 4u + {row}u");
        let rows = self.kernel.rows();
        let last = rows - 1;
        code.line(match rows.is_multiple_of(self.tiling.rows) {
            true => format!("let m{row} = {index};"),
            false => format!("let m{row} = min({index}, {last}u);"),
        });
        let (name, letter) = (format!("m{row}"), format!("m{row}_"));
        let own = digits(code, &self.kernel.m, &name, &letter);
        let point = Point {
            outer: [batch, &own, k].concat(),
            column,
            suffix: format!("_{row}"),
        };
        let value = self.kernel.left.value;
        let wanted = self.left.cone([value], false);
        self.left.row_values(code, &point, 0, &wanted);
        self.left.full_values(code, &point, &wanted);
        rounded(
            self.kernel,
            self.functions,
            self.left.value(value, &point, lanes),
            lanes,
        )
    }

    /// Write the loads of the right strip, four columns at a time.
    fn fill_right(&self, code: &mut Code, batch: &[String]) {
        let groups = self.tiling.columns / 4;
        self.each(code, STRIP * groups, |code| {
            code.line(format!("let at_k = e / {groups}u;"));
            code.line(format!("let at_column = e % {groups}u;"));
            code.line("let k = start + at_k;");
            code.line("var vector = vec4<f32>();");
            code.block("if k < k_end", |code| {
                let index = "tile_column / 4u + at_column";
                column_group(code, self.kernel.columns(), index, "", groups);
                let k = k_digits(code, self.kernel, self.chunk);
                let value = self.kernel.right.value;
                if self.kernel.n.len() > 1 {
                    let lanes = digits_of_four(code, &self.kernel.n, "");
                    let four = self.right.lanes(code, value, &[batch, &k], &lanes, "four");
                    let four = rounded(self.kernel, self.functions, four, 4);
                    code.line(format!("vector = {four};"));
                    return;
                }
                let point = Point {
                    outer: [batch, &k].concat(),
                    column: four(self.kernel.columns(), ""),
                    suffix: String::new(),
                };
                let wanted = self.right.cone([value], false);
                self.right.row_values(code, &point, 0, &wanted);
                self.right.full_values(code, &point, &wanted);
                let four = self.right.value(value, &point, 4);
                let four = rounded(self.kernel, self.functions, four, 4);
                code.line(format!("vector = {four};"));
            });
            code.line(format!(
                "right_strip[at_k * {groups}u + at_column] = vector;"
            ));
        });
    }

    /// Write a loop in which the workgroup's invocations share so many elements.
    fn each(&self, code: &mut Code, elements: usize, body: impl FnOnce(&mut Code)) {
        let invocations = self.tiling.invocations();
        let head = format!("for (var e = lane; e < {elements}u; e += {invocations}u)");
        code.block(head, body);
    }

    fn step(&self, code: &mut Code) {
        let Tiling {
            rows_each,
            vectors_each,
            ..
        } = self.tiling;
        let (row_groups, across) = (self.tiling.rows / 4, self.tiling.lanes_across());
        for vector in 0..vectors_each {
            let at = format!(
                "k * {}u + lane_column + {}u",
                self.tiling.columns / 4,
                vector * across
            );
            code.line(format!("let right{vector} = right_strip[{at}];"));
        }
        for group in 0..rows_each / 4 {
            let at = format!(
                "k * {row_groups}u + lane_row * {}u + {group}u",
                rows_each / 4
            );
            code.line(format!("let left{group} = left_strip[{at}];"));
            for (lane, letter) in ["x", "y", "z", "w"].into_iter().enumerate() {
                for vector in 0..vectors_each {
                    let sum = format!("sum{}_{vector}", group * 4 + lane);
                    let left = format!("vec4<f32>(left{group}.{letter})");
                    code.line(format!("{sum} = fma({left}, right{vector}, {sum});"));
                }
            }
        }
    }

    fn after(&self, code: &mut Code, batch: &[String]) {
        let rows_each = self.tiling.rows_each;
        for row in 0..rows_each {
            for vector in 0..self.tiling.vectors_each {
                code.block("", |code| {
                    let index = format!("tile_row + lane_row * {rows_each}u + {row}u");
                    let across = vector * self.tiling.lanes_across();
                    let group = format!("tile_column / 4u + lane_column + {across}u");
                    let sum = format!("sum{row}_{vector}");
                    self.epilogue.element(code, batch, &index, &group, &sum);
                });
            }
        }
    }
}
