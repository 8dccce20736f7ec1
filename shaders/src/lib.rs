//! WGSL kernel templates.
//!
//! A template is WGSL with placeholders: a `$` and a name. [`fill`] puts text in their
//! place; a placeholder alone on its line takes text of several lines and keeps its
//! indentation. Kernels have the entry point `main`, storage buffers without binding
//! attributes, and no loops hidden in functions, which some shader compilers handle badly.

macro_rules! templates {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)+) => {
        $($(#[$doc])* pub const $name: &str = include_str!($file);)+
    };
}

templates! {
    /// Elementwise work: `declarations functions workgroup items body`.
    POINTWISE = "pointwise.wgsl";
    /// Reductions along rows, one invocation per row:
    /// `declarations functions workgroup rows body`.
    ROWS_SERIAL = "rows_serial.wgsl";
    /// Reductions along rows, several invocations per row:
    /// `declarations functions shared workgroup threads rows body`.
    ROWS_PARALLEL = "rows_parallel.wgsl";
    /// Values combined over rows:
    /// `declarations functions workgroup items results before loop after`.
    FOLD = "fold.wgsl";
    /// A matrix product in registers: `declarations functions workgroup groups_per_batch
    /// groups_across lanes_across lanes_down batches tiles_across tiles_down k before step
    /// after`.
    CONTRACT_REGISTERS = "contract_registers.wgsl";
    /// A matrix product with strips in workgroup memory: `declarations functions strip
    /// left_size right_size workgroup works groups_per_batch groups_across tile_rows
    /// tile_columns lanes_across k before fill step after`.
    CONTRACT_TILES = "contract_tiles.wgsl";
    /// Rows chosen by indices:
    /// `declarations workgroup items indices width rows table output rounded real word`.
    GATHER = "gather.wgsl";
    /// The chains of equal indices: `declarations workgroup count indices next`.
    SCATTER_LINK = "scatter_link.wgsl";
    /// Rows added at indices:
    /// `declarations workgroup items rows width count indices next updates output`.
    SCATTER_ADD = "scatter_add.wgsl";
    /// Attention, one invocation per row: `declarations ranges workgroup items count heads
    /// before members other_head load step after`.
    ATTENTION_SERIAL = "attention_serial.wgsl";
    /// Attention with tiles in workgroup memory: `declarations ranges tile shared workgroup
    /// works blocks count heads before members other_head fill load step after`.
    ATTENTION_TILES = "attention_tiles.wgsl";
    /// Zeros: `declarations workgroup items output real`.
    CLEAR = "clear.wgsl";
}

/// A function that shaders include when they need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// The name it is called by, without the number of lanes that follows it.
    pub name: &'static str,
    /// Its text: `n` is the number of lanes, `real`, `word`, `int` and `truth` the types.
    pub text: &'static str,
    /// The functions it calls.
    pub calls: &'static [&'static str],
}

macro_rules! functions {
    ($($name:literal: $file:literal, $calls:expr;)+) => {
        /// The functions, those called before their callers.
        pub const FUNCTIONS: &[Function] =
            &[$(Function { name: $name, text: include_str!($file), calls: &$calls }),+];
    };
}

functions! {
    "is_nan": "scalar/is_nan.wgsl", [];
    "maximum": "scalar/maximum.wgsl", ["is_nan"];
    "minimum": "scalar/minimum.wgsl", ["is_nan"];
    "tanh": "scalar/tanh.wgsl", [];
    "sigmoid": "scalar/sigmoid.wgsl", [];
    "erf": "scalar/erf.wgsl", ["is_nan"];
    "wave": "scalar/turn.wgsl", [];
    "sin": "scalar/sin.wgsl", ["wave"];
    "cos": "scalar/cos.wgsl", ["wave"];
    "finite_or_nan": "scalar/finite_or_nan.wgsl", [];
    "random": "scalar/random.wgsl", ["is_nan"];
    "bfloat16": "scalar/bfloat16.wgsl", ["is_nan"];
}

impl Function {
    /// The function called `name`.
    pub fn find(name: &str) -> Option<&'static Function> {
        FUNCTIONS.iter().find(|function| function.name == name)
    }

    /// Its text for one lane or for vectors of four.
    pub fn instantiate(&self, lanes: usize) -> String {
        let types = lane_types(lanes);
        let number = lanes.to_string();
        let mut values = vec![("n", number.as_str())];
        values.extend(types);
        fill(self.text, &values)
    }
}

/// The types of a value with one or four lanes, as placeholders: `real`, `word`, `int` and
/// `truth`.
pub fn lane_types(lanes: usize) -> [(&'static str, &'static str); 4] {
    match lanes {
        1 => [
            ("real", "f32"),
            ("word", "u32"),
            ("int", "i32"),
            ("truth", "bool"),
        ],
        _ => [
            ("real", "vec4<f32>"),
            ("word", "vec4<u32>"),
            ("int", "vec4<i32>"),
            ("truth", "vec4<bool>"),
        ],
    }
}

/// Replaces every placeholder by its value.
///
/// # Panics
/// When a placeholder has no value: a template and its user must agree.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut result = String::with_capacity(template.len() * 2);
    for line in template.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        match line.trim().strip_prefix('$') {
            Some(name) if name.chars().all(is_name) => {
                for filled in value_of(values, name).lines() {
                    if !filled.is_empty() {
                        result.push_str(indent);
                        result.push_str(filled);
                    }
                    result.push('\n');
                }
            }
            _ => {
                fill_line(line, values, &mut result);
                result.push('\n');
            }
        }
    }
    result
}

fn fill_line(line: &str, values: &[(&str, &str)], result: &mut String) {
    let mut pieces = line.split('$');
    result.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let end = piece.find(|c| !is_name(c)).unwrap_or(piece.len());
        result.push_str(value_of(values, &piece[..end]));
        result.push_str(&piece[end..]);
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn value_of<'a>(values: &[(&str, &'a str)], name: &str) -> &'a str {
    match values.iter().find(|(known, _)| *known == name) {
        Some((_, value)) => value,
        None => panic!("the placeholder ${name} has no value"),
    }
}

#[cfg(test)]
mod tests;
