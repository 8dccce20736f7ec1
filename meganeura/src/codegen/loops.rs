//! Elementwise work and reductions along rows.

use super::body::{Code, Column, Point, Writer, announce_loads};
use super::memory::{Memory, is_vector};
use super::scalar::{Functions, combine, combine_lanes, literal};
use super::simplify::{body_accesses, merge_columns, merge_outer};
use super::sums::{self, Loop, Part};
use super::{LowerError, Lowering};
use crate::ir::Combine;
use crate::schedule::kernel::{Instruction, Level, LoopKernel, Store, ValueId};
use meganeura_shaders::{POINTWISE, ROWS_PARALLEL, ROWS_SERIAL, fill};

/// Invocations of a workgroup.
const WORKGROUP: usize = 64;
/// Invocations of a workgroup that shares rows.
const PARALLEL_WORKGROUP: usize = 256;
impl Lowering<'_> {
    pub(super) fn loops(&mut self, kernel: &LoopKernel) -> Result<(), LowerError> {
        let (mut rest, folds) = self.split(kernel)?;
        if rest.rows() > 0 && !rest.body.stores.is_empty() {
            self.rows(&mut rest)?;
        }
        for fold in folds {
            self.fold(fold)?;
        }
        Ok(())
    }

    /// A kernel that only stores.
    fn rows(&mut self, kernel: &mut LoopKernel) -> Result<(), LowerError> {
        let has_reductions = kernel
            .body
            .program
            .instructions
            .iter()
            .any(|instruction| matches!(instruction, Instruction::Reduce(..)));
        merge_outer(&mut kernel.outer, &mut kernel.body, &|_, _| true);
        if has_reductions || kernel.columns == 0 {
            self.reducing(kernel)
        } else {
            merge_columns(kernel);
            self.pointwise(kernel)
        }
    }

    fn pointwise(&mut self, kernel: &mut LoopKernel) -> Result<(), LowerError> {
        let lanes = choose_lanes(kernel);
        let mut memory = self.memory();
        announce(&mut memory, kernel, lanes);
        let functions = Functions::default();
        let writer = Writer::new(&kernel.body.program, &memory, &functions, "");
        let groups_of_columns = kernel.columns / lanes;
        let items = kernel.rows() * groups_of_columns;

        let mut code = Code::default();
        let row = split_item(&mut code, kernel.rows(), groups_of_columns);
        let point = Point {
            outer: outer_indices(&mut code, &kernel.outer, &row, "i"),
            column: column(&mut code, lanes, "item_column"),
            suffix: String::new(),
        };
        let wanted = writer.cone(kernel.body.stores.iter().map(|store| store.value), false);
        writer.row_values(&mut code, &point, 0, &wanted);
        writer.full_values(&mut code, &point, &wanted);
        for store in &kernel.body.stores {
            match is_row_store(&writer, store) && kernel.columns > 1 {
                true => code.block("if item_column == 0u", |code| {
                    writer.store_row(code, store, &point)
                }),
                false => writer.store(&mut code, store, &point),
            }
        }
        let source = fill(
            POINTWISE,
            &[
                ("declarations", &memory.declarations()),
                ("functions", &functions.text()),
                ("workgroup", &format!("{WORKGROUP}u")),
                ("items", &format!("{items}u")),
                ("body", code.text()),
            ],
        );
        self.emit("", source, &memory, items.div_ceil(WORKGROUP))
    }

    fn reducing(&mut self, kernel: &LoopKernel) -> Result<(), LowerError> {
        let lanes = choose_lanes(kernel);
        let mut memory = self.memory();
        announce(&mut memory, kernel, lanes);
        let functions = Functions::default();
        let loops = kernel.body.program.stages().into_iter().max().unwrap_or(0) as usize + 1;
        let threads = self.threads_per_row(kernel.rows(), kernel.columns / lanes, loops)?;
        let rows = Rows {
            kernel,
            writer: Writer::new(&kernel.body.program, &memory, &functions, ""),
            memory: &memory,
            functions: &functions,
            lanes,
            threads,
        };
        let mut code = Code::default();
        let shared = rows.write(&mut code);
        let workgroup = if threads == 1 {
            WORKGROUP
        } else {
            PARALLEL_WORKGROUP.max(threads)
        };
        let source = fill(
            if threads == 1 {
                ROWS_SERIAL
            } else {
                ROWS_PARALLEL
            },
            &[
                ("declarations", &memory.declarations()),
                ("functions", &functions.text()),
                ("shared", &shared_declarations(shared, workgroup)),
                ("workgroup", &format!("{workgroup}u")),
                ("threads", &format!("{threads}u")),
                ("rows", &format!("{}u", kernel.rows())),
                ("body", code.text()),
            ],
        );
        let groups = kernel.rows().div_ceil(workgroup / threads);
        self.emit("", source, &memory, groups)
    }

    /// How many invocations share a row, which loops over so many groups of columns in each
    /// of `loops` loops. Software drivers run an invocation per vector lane and are slow at
    /// sharing, so they only do when there are too few rows or too long ones.
    fn threads_per_row(
        &self,
        rows: usize,
        groups: usize,
        loops: usize,
    ) -> Result<usize, LowerError> {
        let rounds_with = |threads: usize| {
            let one = Loop {
                variable: "q",
                first: "first",
                end: groups,
                step: threads,
            };
            one.total_rounds() * loops
        };
        let mut fewest = 1;
        while rounds_with(fewest) > self.target.rounds && fewest < 2 * PARALLEL_WORKGROUP {
            fewest *= 2;
        }
        if fewest > PARALLEL_WORKGROUP {
            return Err(LowerError::TooManyRounds(rounds_with(1)));
        }
        let wanted = match (self.target.software, rows < 32) {
            (true, true) if groups >= 512 => 32,
            (true, _) => 1,
            (false, _) if groups <= 4 => 1,
            (false, _) => groups.next_power_of_two().min(PARALLEL_WORKGROUP),
        };
        Ok(wanted.max(fewest))
    }
}

/// A row value that is written once for its row, not for each column.
fn is_row_store(writer: &Writer<'_>, store: &Store) -> bool {
    !writer.is_full(store.value) && store.access.column_stride == 0
}

fn shared_declarations(arrays: usize, workgroup: usize) -> String {
    (0..arrays)
        .map(|index| format!("var<workgroup> shared{index}: array<f32, {workgroup}>;\n"))
        .collect()
}

/// Four columns at once where they divide and memory gains from it.
pub(super) fn choose_lanes(kernel: &LoopKernel) -> usize {
    let mut body = kernel.body.clone();
    let gains = body_accesses(&mut body)
        .iter()
        .any(|access| is_vector(access));
    if gains && kernel.columns.is_multiple_of(4) {
        4
    } else {
        1
    }
}

/// Announce everything a kernel touches.
pub(super) fn announce(memory: &mut Memory<'_>, kernel: &LoopKernel, lanes: usize) {
    announce_loads(memory, &kernel.body.program, lanes == 4);
    let levels = kernel.body.program.levels();
    for store in &kernel.body.stores {
        let row = levels[store.value.index()] == Level::Row && store.access.column_stride == 0;
        memory.add(
            &store.access,
            true,
            lanes == 4 && !row && is_vector(&store.access),
        );
    }
}

/// Write the row and column of an item; the columns' variable is `item_column`.
fn split_item(code: &mut Code, rows: usize, columns: usize) -> String {
    match (rows, columns) {
        (1, _) => {
            code.line("let item_column = item;");
            "0u".to_owned()
        }
        (_, 1) => {
            code.line("const item_column = 0u;");
            "item".to_owned()
        }
        _ => {
            code.line(format!("let item_column = item % {columns}u;"));
            code.line(format!("let item_row = item / {columns}u;"));
            "item_row".to_owned()
        }
    }
}

/// Write the index along each outer axis from the index of a row, in variables that start
/// with a letter.
pub(super) fn outer_indices(
    code: &mut Code,
    outer: &[usize],
    row: &str,
    letter: &str,
) -> Vec<String> {
    let mut inner = 1;
    let mut names = Vec::new();
    for (axis, &size) in outer.iter().enumerate().rev() {
        let index = match (inner, axis == 0) {
            (1, true) => row.to_owned(),
            (1, false) => format!("{row} % {size}u"),
            (_, true) => format!("{row} / {inner}u"),
            (_, false) => format!("{row} / {inner}u % {size}u"),
        };
        let name = format!("{letter}{axis}");
        if size == 1 {
            names.push("0u".to_owned());
        } else {
            code.line(format!("let {name} = {index};"));
            names.push(name);
        }
        inner *= size;
    }
    names.reverse();
    names
}

/// Write the columns' variables from the index of a group of columns.
pub(super) fn column(code: &mut Code, lanes: usize, group: &str) -> Column {
    if lanes == 1 {
        return Column::One(group.to_owned());
    }
    code.line(format!(
        "let c = vec4<u32>({group} * 4u) + vec4<u32>(0u, 1u, 2u, 3u);"
    ));
    Column::Four {
        group: group.to_owned(),
        each: "c".to_owned(),
        end: None,
    }
}

/// Writes a kernel that reduces along rows.
struct Rows<'a> {
    kernel: &'a LoopKernel,
    writer: Writer<'a>,
    memory: &'a Memory<'a>,
    functions: &'a Functions,
    lanes: usize,
    threads: usize,
}

impl Rows<'_> {
    /// Write the statements for one row: for each stage its row values, then a loop over the
    /// columns. Returns how many arrays of workgroup memory they use.
    fn write(&self, code: &mut Code) -> usize {
        let body = &self.kernel.body;
        let wanted = self
            .writer
            .cone(body.stores.iter().map(|store| store.value), true);
        let point = Point {
            outer: outer_indices(code, &self.kernel.outer, "row", "i"),
            column: Column::One("c".to_owned()),
            suffix: String::new(),
        };
        let last = (0..wanted.len())
            .filter(|&index| wanted[index])
            .map(|index| self.writer.stage(ValueId(index as u32)))
            .max()
            .unwrap_or(0);
        let mut arrays = 0;
        for stage in 0..=last {
            self.writer.row_values(code, &point, stage, &wanted);
            arrays = self.stage(code, &point, stage, &wanted).max(arrays);
        }
        let mut rows = body
            .stores
            .iter()
            .filter(|store| is_row_store(&self.writer, store))
            .peekable();
        if rows.peek().is_some() && self.threads > 1 {
            code.block("if inside && first == 0u", |code| {
                rows.for_each(|store| self.writer.store_row(code, store, &point));
            });
        } else {
            rows.for_each(|store| self.writer.store_row(code, store, &point));
        }
        arrays
    }

    /// Write the loop of one stage: reductions of its full values, and stores.
    fn stage(&self, code: &mut Code, point: &Point, stage: u32, wanted: &[bool]) -> usize {
        let mut reductions = Vec::new();
        for (index, instruction) in self.kernel.body.program.instructions.iter().enumerate() {
            let Instruction::Reduce(how, operand) = *instruction else {
                continue;
            };
            if !wanted[index] || self.writer.stage(operand) != stage {
                continue;
            }
            let name = self.writer.name(ValueId(index as u32), point);
            match self.writer.is_full(operand) {
                true => reductions.push((name, how, operand)),
                false => self.reduce_row(code, &name, how, operand, point),
            }
        }
        let stores: Vec<&Store> = (self.kernel.body.stores.iter())
            .filter(|store| {
                !is_row_store(&self.writer, store) && self.store_stage(store, wanted) == stage
            })
            .collect();
        if reductions.is_empty() && stores.is_empty() {
            return 0;
        }
        self.columns(code, &reductions, &stores, point);
        for (index, (name, how, _)) in reductions.iter().enumerate() {
            let part = combine_lanes(*how, &format!("part_{name}"), self.lanes, self.functions);
            match self.threads {
                1 => code.line(format!("let {name} = {part};")),
                _ => code.line(format!("shared{index}[lane] = {part};")),
            }
        }
        match self.threads {
            1 => 0,
            _ => self.tree(code, &reductions),
        }
    }

    /// A row value counts once for each column.
    fn reduce_row(
        &self,
        code: &mut Code,
        name: &str,
        how: Combine,
        operand: ValueId,
        point: &Point,
    ) {
        let value = self.writer.value(operand, point, 1);
        let columns = self.kernel.columns;
        let text = match how {
            Combine::Sum => format!("{value} * {}", literal(columns as f32, 1)),
            Combine::Maximum if columns == 0 => literal(how.identity(), 1),
            Combine::Maximum => value,
        };
        code.line(format!("let {name} = {text};"));
    }

    /// The stage whose loop does a store: that of its value, but not before the last loop
    /// that reads the memory it overwrites.
    fn store_stage(&self, store: &Store, wanted: &[bool]) -> u32 {
        let program = &self.kernel.body.program;
        let mut stage = self.writer.stage(store.value);
        for (instruction, wanted) in program.instructions.iter().zip(wanted) {
            if let (Instruction::Reduce(_, operand), true) = (instruction, wanted)
                && self.reads_place(*operand, store)
            {
                stage = stage.max(self.writer.stage(*operand));
            }
        }
        for other in &self.kernel.body.stores {
            if self.reads_place(other.value, store) {
                stage = stage.max(self.writer.stage(other.value));
            }
        }
        stage
    }

    fn reads_place(&self, value: ValueId, store: &Store) -> bool {
        let program = &self.kernel.body.program;
        let cone = self.writer.cone([value], false);
        (program.instructions.iter().zip(cone)).any(|(instruction, used)| match instruction {
            Instruction::Load(access) => {
                used && self.memory.is_same(access.buffer, store.access.buffer)
            }
            _ => false,
        })
    }

    /// Write the loop over the columns.
    fn columns(
        &self,
        code: &mut Code,
        reductions: &[(String, Combine, ValueId)],
        stores: &[&Store],
        point: &Point,
    ) {
        let looped = Loop {
            variable: "q",
            first: "first",
            end: self.kernel.columns / self.lanes,
            step: self.threads,
        };
        let part = |(name, how, _): &(String, Combine, ValueId)| Part {
            variable: format!("part_{name}"),
            how: *how,
        };
        let parts: Vec<Part> = reductions.iter().map(part).collect();
        sums::write(
            code,
            looped,
            &parts,
            self.lanes,
            self.functions,
            &|code, suffix| {
                self.column_body(code, suffix, reductions, stores, point);
            },
        );
    }

    fn column_body(
        &self,
        code: &mut Code,
        suffix: &str,
        reductions: &[(String, Combine, ValueId)],
        stores: &[&Store],
        point: &Point,
    ) {
        let point = Point {
            column: column(code, self.lanes, "q"),
            ..point.clone()
        };
        let targets = reductions.iter().map(|(_, _, operand)| *operand);
        let wanted = self
            .writer
            .cone(targets.chain(stores.iter().map(|store| store.value)), false);
        self.writer.full_values(code, &point, &wanted);
        for (name, how, operand) in reductions {
            let variable = format!("part_{name}{suffix}");
            let value = self.writer.value(*operand, &point, self.lanes);
            let text = combine(*how, &variable, &value, self.lanes, self.functions);
            code.line(format!("{variable} = {text};"));
        }
        if stores.is_empty() {
            return;
        }
        let write = |code: &mut Code| {
            stores
                .iter()
                .for_each(|store| self.writer.store(code, store, &point));
        };
        match self.threads {
            1 => write(code),
            _ => code.block("if inside", write),
        }
    }

    /// Write the tree that combines what the threads of a row found.
    fn tree(&self, code: &mut Code, reductions: &[(String, Combine, ValueId)]) -> usize {
        if reductions.is_empty() {
            return 0;
        }
        code.line("workgroupBarrier();");
        let head = format!(
            "for (var width = {}u; width > 0u; width /= 2u)",
            self.threads / 2
        );
        code.block(head, |code| {
            code.block("if first < width", |code| {
                for (index, (_, how, _)) in reductions.iter().enumerate() {
                    let mine = format!("shared{index}[lane]");
                    let other = format!("shared{index}[lane + width]");
                    let text = combine(*how, &mine, &other, 1, self.functions);
                    code.line(format!("{mine} = {text};"));
                }
            });
            code.line("workgroupBarrier();");
        });
        for (index, (name, _, _)) in reductions.iter().enumerate() {
            code.line(format!("let {name} = shared{index}[lane - first];"));
        }
        // The next stage writes the same arrays.
        code.line("workgroupBarrier();");
        reductions.len()
    }
}
