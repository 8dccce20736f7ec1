//! Attention: every query, or every key, walks along what it meets with an online softmax.

use super::body::Code;
use super::loops::outer_indices;
use super::memory::{Memory, is_vector};
use super::{LowerError, Lowering, check_access, count};
use crate::ir::DType;
use crate::schedule::attention::{AttentionKernel, AttentionPass};
use crate::schedule::kernel::{Access, BufferId};
use meganeura_shaders::{ATTENTION_SERIAL, ATTENTION_TILES, fill};

/// Invocations of a workgroup.
const WORKGROUP: usize = 64;
/// Floats of the other side that lie in workgroup memory at a time.
const TILE_FLOATS: usize = 3072;

/// Everything that is counted with 32 bits.
pub(super) fn check(kernel: &AttentionKernel) -> Result<(), LowerError> {
    let with = |first, second| [&kernel.batch[..], &[first, second]].concat();
    let queries = with(kernel.queries, kernel.heads);
    let keys = with(kernel.keys, kernel.key_heads());
    check_access(&kernel.query, &queries, kernel.width)?;
    check_access(&kernel.key, &keys, kernel.width)?;
    if let Some(value) = &kernel.value {
        check_access(value, &keys, kernel.value_width)?;
    }
    if let Some(mask) = &kernel.mask {
        check_access(mask, &with(kernel.heads, kernel.queries), kernel.keys)?;
    }
    if let AttentionPass::Backward { upstream, .. } = &kernel.pass {
        check_access(upstream, &queries, kernel.value_width)?;
    }
    let widest = kernel.width.max(kernel.value_width);
    count(&[&queries[..], &[widest]].concat())?;
    count(&[&keys[..], &[widest]].concat()).map(|_| ())
}

/// What one shader computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Mixed values and normalizers, an invocation for each query.
    Forward,
    /// The gradient of the queries.
    Queries,
    /// The gradients of keys and values, an invocation for each key.
    Keys,
}

impl Lowering<'_> {
    pub(super) fn attention(&mut self, kernel: &AttentionKernel) -> Result<(), LowerError> {
        match &kernel.pass {
            AttentionPass::Forward { .. } => self.attention_side(kernel, Side::Forward),
            AttentionPass::Backward {
                query, key, value, ..
            } => {
                if query.is_some() {
                    self.attention_side(kernel, Side::Queries)?;
                }
                if key.is_some() || value.is_some() {
                    self.attention_side(kernel, Side::Keys)?;
                }
                Ok(())
            }
        }
    }

    fn attention_side(&mut self, kernel: &AttentionKernel, side: Side) -> Result<(), LowerError> {
        let of_keys = side == Side::Keys;
        let (own, heads, members) = match of_keys {
            true => (kernel.keys, kernel.key_heads(), kernel.group),
            false => (kernel.queries, kernel.heads, 1),
        };
        let batches: usize = kernel.batch.iter().product();
        if batches * own * heads == 0 {
            return Ok(());
        }
        let rounds = members * if of_keys { kernel.queries } else { kernel.keys };
        if rounds > self.target.rounds {
            return Err(LowerError::TooManyRounds(rounds));
        }
        let writer = Writer::new(kernel, side, self.memory());
        let number = |value: usize| format!("{value}u");
        let mut before = Code::default();
        writer.before(&mut before);
        let (mut step, mut after) = (Code::default(), Code::default());
        writer.step(&mut step);
        writer.after(&mut after);
        let group = kernel.group;
        let other_head = match of_keys {
            true => format!("head * {group}u + member"),
            false => format!("head / {group}u + member"),
        };
        let tile = writer.tile();
        let blocks = own.div_ceil(WORKGROUP);
        let (mut fill_tile, mut load) = (Code::default(), Code::default());
        let (mut shared, template, groups) = (Code::default(), ATTENTION_TILES, blocks);
        let (template, groups) = match self.target.software {
            true => {
                writer.load(&mut load);
                (
                    ATTENTION_SERIAL,
                    (batches * heads * own).div_ceil(WORKGROUP),
                )
            }
            false => {
                writer.share(&mut shared, &mut fill_tile, &mut load);
                (template, groups * batches * heads)
            }
        };
        let source = fill(
            template,
            &[
                ("declarations", &writer.memory.declarations()),
                ("ranges", &ranges(kernel, of_keys)),
                ("workgroup", &number(WORKGROUP)),
                ("items", &number(batches * heads * own)),
                ("works", &number(blocks * batches * heads)),
                ("blocks", &number(blocks)),
                ("tile", &number(tile)),
                ("shared", shared.text()),
                ("fill", fill_tile.text()),
                ("count", &number(own)),
                ("heads", &number(heads)),
                ("members", &number(members)),
                ("other_head", &other_head),
                ("before", before.text()),
                ("load", load.text()),
                ("step", step.text()),
                ("after", after.text()),
            ],
        );
        let part = match side {
            Side::Forward => "",
            Side::Queries => "queries",
            Side::Keys => "keys",
        };
        self.emit(part, source, &writer.memory, groups)
    }
}

/// The functions that tell which of the other side a query (or a key) meets.
fn ranges(kernel: &AttentionKernel, of_keys: bool) -> String {
    let (queries, keys) = (kernel.queries as i64, kernel.keys as i64);
    // Where the other side's row stands that is at the same position.
    let (shift, others) = match of_keys {
        true => (queries - keys, queries),
        false => (keys - queries, keys),
    };
    let window = kernel.window.map(|window| window.min(1 << 30) as i64);
    let (before, beyond) = match (of_keys, kernel.causal) {
        (false, true) => (window.map(|w| 1 - w), Some(1)),
        (true, true) => (Some(0), window),
        (_, false) => (window.map(|w| 1 - w), window),
    };
    let bound = |by: Option<i64>, otherwise: i64| match by {
        Some(by) => format!("u32(clamp(i32(own) + ({}i), 0i, {others}i))", shift + by),
        None => format!("{otherwise}u"),
    };
    format!(
        "fn range_start(own: u32) -> u32 {{\n    return {};\n}}\n\
         fn range_end(own: u32) -> u32 {{\n    return {};\n}}\n",
        bound(before, 0),
        bound(beyond, others)
    )
}

/// A row that the other side brings.
struct Other<'a> {
    /// The name of its values.
    name: &'static str,
    access: &'a Access,
    width: usize,
}

/// Writes one shader.
struct Writer<'a> {
    kernel: &'a AttentionKernel,
    side: Side,
    memory: Memory<'a>,
    /// Columns at a time.
    lanes: usize,
}

impl<'a> Writer<'a> {
    fn new(kernel: &'a AttentionKernel, side: Side, memory: Memory<'a>) -> Writer<'a> {
        let mut writer = Writer {
            kernel,
            side,
            memory,
            lanes: 1,
        };
        let rows = writer.rows();
        let widths = [kernel.width, kernel.value_width];
        let vectors = rows.iter().all(|access| is_vector(access))
            && widths.iter().all(|width| width.is_multiple_of(4))
            && !rows.iter().any(|row| {
                let mut scalars = writer.scalars().into_iter();
                scalars.any(|scalar| writer.memory.is_same(row.buffer, scalar.buffer))
            });
        writer.lanes = if vectors { 4 } else { 1 };
        for access in rows {
            writer.memory.add(access, false, vectors);
        }
        for access in writer.scalars() {
            writer.memory.add(access, false, false);
        }
        for (buffer, width) in writer.results() {
            let vectors = vectors && width.is_some();
            writer
                .memory
                .add(&dense(buffer, kernel.rounds), true, vectors);
        }
        writer
    }

    /// The operands with several columns.
    fn rows(&self) -> Vec<&'a Access> {
        let kernel = self.kernel;
        let mut rows = vec![&kernel.query, &kernel.key];
        match &kernel.pass {
            AttentionPass::Forward { output: None, .. } => {}
            AttentionPass::Forward { .. } => rows.extend(&kernel.value),
            AttentionPass::Backward { upstream, .. } => {
                rows.extend(&kernel.value);
                rows.push(upstream);
            }
        }
        rows
    }

    /// The operands read element by element.
    fn scalars(&self) -> Vec<&'a Access> {
        let mut scalars: Vec<_> = self.kernel.mask.iter().collect();
        if let AttentionPass::Backward {
            normalizer, sums, ..
        } = &self.kernel.pass
        {
            scalars.extend([normalizer, sums]);
        }
        scalars
    }

    /// What this shader writes, and the width of its rows where they have several columns.
    fn results(&self) -> Vec<(BufferId, Option<usize>)> {
        let (width, value_width) = (Some(self.kernel.width), Some(self.kernel.value_width));
        let all = match (&self.kernel.pass, self.side) {
            (AttentionPass::Forward { output, normalizer }, _) => [
                output.map(|id| (id, value_width)),
                normalizer.map(|id| (id, None)),
            ],
            (AttentionPass::Backward { query, .. }, Side::Queries) => {
                [query.map(|id| (id, width)), None]
            }
            (AttentionPass::Backward { key, value, .. }, _) => {
                [key.map(|id| (id, width)), value.map(|id| (id, value_width))]
            }
        };
        all.into_iter().flatten().collect()
    }

    fn mixes(&self) -> bool {
        matches!(
            self.kernel.pass,
            AttentionPass::Forward {
                output: Some(_),
                ..
            }
        )
    }

    /// What comes from the other side.
    fn others(&self) -> Vec<Other<'a>> {
        let kernel = self.kernel;
        let (width, value_width) = (kernel.width, kernel.value_width);
        let other = |name, access, width| Other {
            name,
            access,
            width,
        };
        let mut others = Vec::new();
        match (self.side, &kernel.pass) {
            (
                Side::Keys,
                AttentionPass::Backward {
                    upstream,
                    normalizer,
                    sums,
                    ..
                },
            ) => {
                others.push(other("q", &kernel.query, width));
                others.push(other("u", upstream, value_width));
                others.push(other("normalizer", normalizer, 1));
                others.push(other("mean", sums, 1));
            }
            _ => {
                others.push(other("k", &kernel.key, width));
                if let Some(value) = &kernel.value
                    && (self.side == Side::Queries || self.mixes())
                {
                    others.push(other("v", value, value_width));
                }
            }
        }
        others
    }

    /// Rows of the other side that lie in workgroup memory.
    fn tile(&self) -> usize {
        let width: usize = self.others().iter().map(|other| other.width).sum();
        let most = TILE_FLOATS / width.max(1);
        (1 << most.max(1).ilog2()).clamp(1, 32)
    }

    fn real(&self, width: usize) -> &'static str {
        if self.lanes == 4 && width > 1 {
            "vec4<f32>"
        } else {
            "f32"
        }
    }

    /// How many values a row of so many columns is.
    fn pieces(&self, width: usize) -> usize {
        if width > 1 { width / self.lanes } else { 1 }
    }

    /// The first value of a row, counted in values.
    fn start(&self, access: &Access, width: usize, first: &str, second: &str) -> String {
        let lanes = if width > 1 { self.lanes } else { 1 };
        let axes = self.kernel.batch.len();
        let mut names: Vec<String> = (0..axes).map(|axis| format!("i{axis}")).collect();
        names.extend([first.to_owned(), second.to_owned()]);
        // An axis of one element has no index.
        let sizes = self.kernel.batch.iter().copied().chain([0, 0]);
        let mut terms: Vec<String> = names
            .iter()
            .zip(&access.strides)
            .zip(sizes)
            .filter(|((_, stride), size)| **stride != 0 && *size != 1)
            .map(|((name, stride), _)| format!("{name} * {}u", stride / lanes))
            .collect();
        terms.push(format!("{}u", access.offset / lanes));
        terms.join(" + ")
    }

    /// A value of a row that starts at `start`.
    fn value(&self, access: &Access, start: &str, piece: &str) -> String {
        let stride = match self.memory.is_vectors(access.buffer) {
            true => 1,
            false => access.column_stride,
        };
        self.memory
            .load(access, &format!("{start} + {piece} * {stride}u"))
    }

    /// Loads a row into values called `name` and a number, or `name` alone.
    fn row(&self, code: &mut Code, other: &Other<'_>, first: &str, second: &str) {
        let Other {
            name,
            access,
            width,
        } = *other;
        let start = self.start(access, width, first, second);
        if width == 1 {
            let piece = self.value(access, &start, "0u");
            // A width of 1 makes both rows and single numbers.
            let number = if name.len() == 1 { "0" } else { "" };
            return code.line(format!("let {name}{number} = {piece};"));
        }
        code.line(format!("let at_{name} = {start};"));
        for piece in 0..self.pieces(width) {
            let value = self.value(access, &format!("at_{name}"), &format!("{piece}u"));
            code.line(format!("let {name}{piece} = {value};"));
        }
    }

    /// The invocation's own row, and zeros to add to.
    fn before(&self, code: &mut Code) {
        let kernel = self.kernel;
        outer_indices(code, &kernel.batch, "batch", "i");
        let own = |name, access, width| Other {
            name,
            access,
            width,
        };
        let (width, value_width) = (kernel.width, kernel.value_width);
        let mut zeros = Vec::new();
        match (&kernel.pass, self.side) {
            (AttentionPass::Backward { .. }, Side::Keys) => {
                self.row(code, &own("k", &kernel.key, width), "own", "head");
                if let Some(value) = &kernel.value {
                    self.row(code, &own("v", value, value_width), "own", "head");
                }
                zeros.extend([("dk", width), ("dv", value_width)]);
            }
            (AttentionPass::Forward { .. }, _) => {
                self.row(code, &own("q", &kernel.query, width), "own", "head");
                // Lower than any score, and finite.
                code.line("var largest = -3.4e38f;");
                code.line("var sum = 0.0f;");
                if self.mixes() {
                    zeros.push(("o", value_width));
                }
            }
            (
                AttentionPass::Backward {
                    upstream,
                    normalizer,
                    sums,
                    ..
                },
                _,
            ) => {
                self.row(code, &own("q", &kernel.query, width), "own", "head");
                self.row(code, &own("u", upstream, value_width), "own", "head");
                self.row(code, &own("normalizer", normalizer, 1), "own", "head");
                self.row(code, &own("mean", sums, 1), "own", "head");
                zeros.push(("dq", width));
            }
        }
        for (name, width) in zeros {
            for piece in 0..self.pieces(width) {
                let real = self.real(width);
                code.line(format!("var {name}{piece} = {real}(0.0f);"));
            }
        }
    }

    /// The other side's rows from memory.
    fn load(&self, code: &mut Code) {
        for other in self.others() {
            self.row(code, &other, "other", "other_head");
        }
    }

    /// The other side's rows through workgroup memory.
    fn share(&self, shared: &mut Code, fill: &mut Code, load: &mut Code) {
        let tile = self.tile();
        let last = match self.side {
            Side::Keys => self.kernel.queries,
            _ => self.kernel.keys,
        };
        for other in self.others() {
            let (name, pieces) = (other.name, self.pieces(other.width));
            let real = self.real(other.width);
            let size = tile * pieces;
            shared.line(format!(
                "var<workgroup> tile_{name}: array<{real}, {size}>;"
            ));
            fill.line(format!(
                "for (var i = lane; i < {size}u; i += {WORKGROUP}u) {{"
            ));
            fill.line(format!(
                "    let row = min(tile + i / {pieces}u, {}u);",
                last.saturating_sub(1)
            ));
            let start = self.start(other.access, other.width, "row", "other_head");
            let value = self.value(other.access, &start, &format!("(i % {pieces}u)"));
            fill.line(format!("    tile_{name}[i] = {value};"));
            fill.line("}");
            for piece in 0..pieces {
                let number = match name.len() {
                    1 => piece.to_string(),
                    _ => String::new(),
                };
                load.line(format!(
                    "let {name}{number} = tile_{name}[place * {pieces}u + {piece}u];"
                ));
            }
        }
    }

    /// The sum of products of two rows.
    fn dot(&self, code: &mut Code, name: &str, a: &str, b: &str, width: usize) {
        let pieces = self.pieces(width);
        code.line(format!("var {name}_parts = {a}0 * {b}0;"));
        for piece in 1..pieces {
            code.line(format!("{name}_parts += {a}{piece} * {b}{piece};"));
        }
        let parts = format!("{name}_parts");
        let sum = match self.real(width) {
            "f32" => parts,
            _ => format!("({parts}.x + {parts}.y) + ({parts}.z + {parts}.w)"),
        };
        code.line(format!("var {name} = {sum};"));
    }

    fn add(&self, code: &mut Code, to: &str, factor: &str, row: &str, width: usize) {
        for piece in 0..self.pieces(width) {
            code.line(format!("{to}{piece} += {factor} * {row}{piece};"));
        }
    }

    /// What a pair does.
    fn step(&self, code: &mut Code) {
        let kernel = self.kernel;
        self.dot(code, "score", "q", "k", kernel.width);
        code.line(format!("score *= {:?}f;", kernel.scale));
        if let Some(mask) = &kernel.mask {
            let (head, query, key) = match self.side {
                Side::Keys => ("other_head", "other", "own"),
                _ => ("head", "own", "other"),
            };
            let start = self.start(mask, 1, head, query);
            let index = format!("{start} + {key} * {}u", mask.column_stride);
            let value = self.memory.load(mask, &index);
            match mask.dtype {
                DType::F32 => code.line(format!("score += {value};")),
                _ => code.line(format!("if {value} == 0.0f {{ continue; }}")),
            }
        }
        match self.side {
            Side::Forward => {
                code.line("let most = max(largest, score);");
                code.line("let fade = exp(largest - most);");
                code.line("let weight = exp(score - most);");
                code.line("largest = most;");
                code.line("sum = sum * fade + weight;");
                if self.mixes() {
                    for piece in 0..self.pieces(kernel.value_width) {
                        code.line(format!("o{piece} = o{piece} * fade + weight * v{piece};"));
                    }
                }
            }
            Side::Queries | Side::Keys => {
                code.line("let weight = exp(score - normalizer);");
                self.dot(code, "slope", "u", "v", kernel.value_width);
                code.line(format!(
                    "slope = weight * (slope - mean) * {:?}f;",
                    kernel.scale
                ));
                if self.side == Side::Queries {
                    self.add(code, "dq", "slope", "k", kernel.width);
                } else {
                    self.add(code, "dk", "slope", "q", kernel.width);
                    self.add(code, "dv", "weight", "u", kernel.value_width);
                }
            }
        }
    }

    fn after(&self, code: &mut Code) {
        let kernel = self.kernel;
        let (times, heads) = match self.side {
            Side::Keys => (kernel.keys, kernel.key_heads()),
            _ => (kernel.queries, kernel.heads),
        };
        code.line(format!(
            "let result = (batch * {times}u + own) * {heads}u + head;"
        ));
        let store = |code: &mut Code, buffer, width, name: &str, factor: &str| {
            for piece in 0..self.pieces(width) {
                let index = format!("result * {}u + {piece}u", self.pieces(width));
                let value = format!("{name}{piece}{factor}");
                code.line(
                    self.memory
                        .store(&dense(buffer, kernel.rounds), &index, &value),
                );
            }
        };
        match &kernel.pass {
            AttentionPass::Forward { output, normalizer } => {
                if let Some(buffer) = *output {
                    code.line("let factor = select(1.0f / sum, 0.0f, sum == 0.0f);");
                    store(code, buffer, kernel.value_width, "o", " * factor");
                }
                if let Some(buffer) = *normalizer {
                    let nothing = "bitcast<f32>(0x7f800000u)";
                    let value = format!("select(largest + log(sum), {nothing}, sum == 0.0f)");
                    code.line(self.memory.store(&dense(buffer, false), "result", &value));
                }
            }
            AttentionPass::Backward {
                query, key, value, ..
            } => {
                let results = match self.side {
                    Side::Keys => {
                        vec![("dk", key, kernel.width), ("dv", value, kernel.value_width)]
                    }
                    _ => vec![("dq", query, kernel.width)],
                };
                for (name, buffer, width) in results {
                    if let Some(buffer) = *buffer {
                        store(code, buffer, width, name, "");
                    }
                }
            }
        }
    }
}

/// A result as an access; only its buffer and type count.
fn dense(buffer: BufferId, rounds: bool) -> Access {
    Access {
        buffer,
        dtype: if rounds { DType::BF16 } else { DType::F32 },
        offset: 0,
        strides: Vec::new(),
        column_stride: 1,
    }
}
