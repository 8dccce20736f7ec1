//! Programs as WGSL statements.

use super::memory::{Memory, is_vector};
use super::scalar::{Argument, Functions, expression, literal, real};
use crate::schedule::kernel::{Access, Instruction, Level, Program, Store, ValueId};

/// Lines of text with indentation.
#[derive(Debug, Default)]
pub(super) struct Code {
    text: String,
    depth: usize,
}

impl Code {
    /// Append a line.
    pub fn line(&mut self, line: impl AsRef<str>) {
        for _ in 0..self.depth {
            self.text.push_str("    ");
        }
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// Append a block: a head, indented lines, and a closing brace.
    pub fn block(&mut self, head: impl AsRef<str>, body: impl FnOnce(&mut Code)) {
        self.line(match head.as_ref() {
            "" => "{".to_owned(),
            head => format!("{head} {{"),
        });
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line("}");
    }

    /// What was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The column or columns that full values stand for.
#[derive(Debug, Clone)]
pub(super) enum Column {
    /// One, by its index.
    One(String),
    /// Four adjacent ones.
    Four {
        /// The first column's index divided by four.
        group: String,
        /// A variable with the indices of all four; past the end they repeat the last.
        each: String,
        /// The number of columns, when the four may lie partly past it.
        end: Option<usize>,
    },
}

impl Column {
    /// How many columns it stands for.
    pub fn lanes(&self) -> usize {
        match self {
            Column::One(_) => 1,
            Column::Four { .. } => 4,
        }
    }
}

/// Where a program is evaluated.
#[derive(Debug, Clone)]
pub(super) struct Point {
    /// The index along each outer axis.
    pub outer: Vec<String>,
    /// The columns.
    pub column: Column,
    /// What tells the variables of this copy of the program from those of others.
    pub suffix: String,
}

/// Writes the statements of one program.
pub(super) struct Writer<'a> {
    program: &'a Program,
    memory: &'a Memory<'a>,
    functions: &'a Functions,
    levels: Vec<Level>,
    stages: Vec<u32>,
    constants: Vec<Option<f32>>,
    /// What the variables of this program start with, where a shader has several programs.
    tag: &'static str,
}

impl<'a> Writer<'a> {
    pub fn new(
        program: &'a Program,
        memory: &'a Memory<'a>,
        functions: &'a Functions,
        tag: &'static str,
    ) -> Writer<'a> {
        Writer {
            levels: program.levels(),
            stages: program.stages(),
            constants: fold_constants(program),
            program,
            memory,
            functions,
            tag,
        }
    }

    /// Whether a value differs from column to column.
    pub fn is_full(&self, value: ValueId) -> bool {
        self.levels[value.index()] == Level::Full
    }

    /// The number of reductions that must come before a value.
    pub fn stage(&self, value: ValueId) -> u32 {
        self.stages[value.index()]
    }

    /// The values that the given ones are made of, themselves included. Operands of
    /// reductions count only when `through_reductions`.
    pub fn cone(
        &self,
        values: impl IntoIterator<Item = ValueId>,
        through_reductions: bool,
    ) -> Vec<bool> {
        let mut wanted = vec![false; self.program.instructions.len()];
        for value in values {
            wanted[value.index()] = true;
        }
        for index in (0..wanted.len()).rev() {
            if !wanted[index] || self.constants[index].is_some() {
                continue;
            }
            match &self.program.instructions[index] {
                Instruction::Scalar(_, operands) => {
                    operands
                        .iter()
                        .for_each(|operand| wanted[operand.index()] = true);
                }
                Instruction::Reduce(_, operand) if through_reductions => {
                    wanted[operand.index()] = true
                }
                _ => {}
            }
        }
        wanted
    }

    /// The text of a value with this many lanes.
    pub fn value(&self, value: ValueId, point: &Point, lanes: usize) -> String {
        let index = value.index();
        if let Some(constant) = self.constants[index] {
            return literal(constant, lanes);
        }
        match self.levels[index] {
            Level::Full => self.name(value, point),
            Level::Row if lanes == 4 => format!("vec4<f32>({})", self.name(value, point)),
            Level::Row => self.name(value, point),
        }
    }

    /// The variable of a value.
    pub fn name(&self, value: ValueId, point: &Point) -> String {
        let letter = match self.levels[value.index()] {
            Level::Full => "v",
            Level::Row => "r",
        };
        format!("{}{letter}{}{}", self.tag, value.0, point.suffix)
    }

    /// Write the row values of one stage, apart from reductions, which whoever runs the
    /// loops declares; and with stage 0 the addresses of full loads.
    pub fn row_values(&self, code: &mut Code, point: &Point, stage: u32, wanted: &[bool]) {
        for (index, instruction) in self.program.instructions.iter().enumerate() {
            if !wanted[index] || self.stages[index] != stage || self.constants[index].is_some() {
                continue;
            }
            let value = ValueId(index as u32);
            let name = self.name(value, point);
            match (instruction, self.levels[index]) {
                (Instruction::Load(access), Level::Row) => {
                    let element = self.memory.load(access, &self.address(access, point, 1));
                    code.line(format!("let {name} = {element};"));
                }
                (Instruction::Load(access), Level::Full) => {
                    let unit = if self.memory.is_vectors(access.buffer) {
                        4
                    } else {
                        1
                    };
                    let address = self.address(access, point, unit);
                    code.line(format!("let {} = {address};", self.base(index, point)));
                }
                (Instruction::OuterIndex(axis), _) => {
                    code.line(format!("let {name} = f32({});", point.outer[*axis]));
                }
                (Instruction::Scalar(op, operands), Level::Row) => {
                    let arguments = self.arguments(operands, point, 1);
                    let text = expression(*op, &arguments, 1, self.functions);
                    code.line(format!("let {name} = {text};"));
                }
                _ => {}
            }
        }
    }

    /// Write the wanted full values.
    pub fn full_values(&self, code: &mut Code, point: &Point, wanted: &[bool]) {
        let lanes = point.column.lanes();
        for (index, instruction) in self.program.instructions.iter().enumerate() {
            if !wanted[index]
                || self.levels[index] != Level::Full
                || self.constants[index].is_some()
            {
                continue;
            }
            let text = match instruction {
                Instruction::Load(access) => {
                    self.load_columns(access, &self.base(index, point), &point.column)
                }
                Instruction::ColumnIndex => match &point.column {
                    Column::One(column) => format!("f32({column})"),
                    Column::Four { each, .. } => format!("vec4<f32>({each})"),
                },
                Instruction::Scalar(op, operands) => {
                    let arguments = self.arguments(operands, point, lanes);
                    expression(*op, &arguments, lanes, self.functions)
                }
                // The contraction declares the accumulator under its name.
                _ => continue,
            };
            code.line(format!(
                "let {} = {text};",
                self.name(ValueId(index as u32), point)
            ));
        }
    }

    /// Write a store of the columns of a point.
    pub fn store(&self, code: &mut Code, store: &Store, point: &Point) {
        let access = &store.access;
        let value = self.value(store.value, point, point.column.lanes());
        store_columns(self.memory, code, access, &value, point);
    }

    /// Write a store of a row value once.
    pub fn store_row(&self, code: &mut Code, store: &Store, point: &Point) {
        let address = address(&store.access, &point.outer, 1);
        let value = self.value(store.value, point, 1);
        code.line(self.memory.store(&store.access, &address, &value));
    }

    /// Write four columns that have points of their own: the axes of rows, then those of each
    /// column; the text of all four.
    pub fn lanes(
        &self,
        code: &mut Code,
        value: ValueId,
        rows: &[&[String]],
        columns: &[Vec<String>],
        name: &str,
    ) -> String {
        let wanted = self.cone([value], false);
        let mut texts = Vec::new();
        for (lane, column) in columns.iter().enumerate() {
            let mut outer = [&rows.concat()[..], column].concat();
            let point = Point {
                column: Column::One(outer.pop().unwrap_or_default()),
                outer,
                suffix: format!("_{name}_{lane}"),
            };
            self.row_values(code, &point, 0, &wanted);
            self.full_values(code, &point, &wanted);
            texts.push(self.value(value, &point, 1));
        }
        code.line(format!("let {name} = {}({});", real(4), texts.join(", ")));
        name.to_owned()
    }

    fn arguments(&self, operands: &[ValueId], point: &Point, lanes: usize) -> Vec<Argument> {
        let argument = |&operand: &ValueId| Argument {
            text: self.value(operand, point, lanes),
            constant: self.constants[operand.index()],
        };
        operands.iter().map(argument).collect()
    }

    fn base(&self, index: usize, point: &Point) -> String {
        format!("{}a{index}{}", self.tag, point.suffix)
    }

    fn address(&self, access: &Access, point: &Point, unit: usize) -> String {
        address(access, &point.outer, unit)
    }

    fn load_columns(&self, access: &Access, base: &str, column: &Column) -> String {
        match column {
            Column::One(column) => {
                let index = step(base, column, access.column_stride);
                self.memory.load(access, &index)
            }
            Column::Four { group, .. } if self.memory.is_vectors(access.buffer) => {
                self.memory.load(access, &step(base, group, 1))
            }
            Column::Four { each, .. } => {
                let elements = ["x", "y", "z", "w"].map(|lane| {
                    let index = step(base, &format!("{each}.{lane}"), access.column_stride);
                    self.memory.load(access, &index)
                });
                format!("{}({})", real(4), elements.join(", "))
            }
        }
    }
}

/// Write a store of an expression at the columns of a point.
pub(super) fn store_columns(
    memory: &Memory<'_>,
    code: &mut Code,
    access: &Access,
    value: &str,
    point: &Point,
) {
    match &point.column {
        Column::One(column) => {
            let index = step(
                &address(access, &point.outer, 1),
                column,
                access.column_stride,
            );
            code.line(memory.store(access, &index, value));
        }
        Column::Four { group, .. } if memory.is_vectors(access.buffer) => {
            let index = step(&address(access, &point.outer, 4), group, 1);
            code.line(memory.store(access, &index, value));
        }
        Column::Four { group, end, .. } => {
            let name = format!("w{}", point.suffix);
            code.block("", |code| {
                code.line(format!("let {name} = {value};"));
                code.line(format!("let at = {};", address(access, &point.outer, 1)));
                for (lane, letter) in ["x", "y", "z", "w"].into_iter().enumerate() {
                    let column = format!("({group} * 4u + {lane}u)");
                    let index = step("at", &column, access.column_stride);
                    let statement = memory.store(access, &index, &format!("{name}.{letter}"));
                    match end {
                        Some(end) => code.line(format!("if {column} < {end}u {{ {statement} }}")),
                        None => code.line(statement),
                    }
                }
            });
        }
    }
}

/// Announce what a program loads. `wide` when full values stand for four columns, and vectors
/// are possible.
pub(super) fn announce_loads(memory: &mut Memory<'_>, program: &Program, wide: bool) {
    for access in program.loads() {
        memory.add(access, false, wide && is_vector(access));
    }
}

/// The address of column 0, in units of one element or of four.
pub(super) fn address(access: &Access, outer: &[String], unit: usize) -> String {
    let mut terms = Vec::new();
    if access.offset != 0 {
        terms.push(format!("{}u", access.offset / unit));
    }
    for (index, stride) in outer.iter().zip(&access.strides) {
        match stride / unit {
            0 => {}
            _ if index == "0u" => {}
            1 => terms.push(index.clone()),
            stride => terms.push(format!("{index} * {stride}u")),
        }
    }
    match terms.is_empty() {
        true => "0u".to_owned(),
        false => terms.join(" + "),
    }
}

/// `base + index · stride`
fn step(base: &str, index: &str, stride: usize) -> String {
    let offset = match stride {
        0 => return base.to_owned(),
        1 => index.to_owned(),
        _ => format!("{index} * {stride}u"),
    };
    match base {
        "0u" => offset,
        _ => format!("{base} + {offset}"),
    }
}

/// The values that are known numbers. Shader compilers refuse constant expressions that
/// overflow, so none are left to them.
fn fold_constants(program: &Program) -> Vec<Option<f32>> {
    let mut constants: Vec<Option<f32>> = Vec::with_capacity(program.instructions.len());
    for instruction in &program.instructions {
        constants.push(match instruction {
            Instruction::Constant(value) => Some(*value),
            Instruction::Scalar(op, operands) => {
                let known: Option<Vec<f64>> = operands
                    .iter()
                    .map(|operand| constants[operand.index()].map(f64::from))
                    .collect();
                known.map(|known| op.evaluate(&known) as f32)
            }
            _ => None,
        });
    }
    constants
}
