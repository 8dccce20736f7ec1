//! What an invocation reads and writes: which rows, in which pieces, and from where.

use super::{Side, Sizes, WORKGROUP};
use crate::codegen::body::Code;
use crate::codegen::memory::{Memory, is_vector};
use crate::ir::DType;
use crate::schedule::attention::{AttentionKernel, AttentionPass};
use crate::schedule::kernel::{Access, BufferId};

/// Floats of the other side that lie in workgroup memory at a time.
const TILE_FLOATS: usize = 3072;

/// A row of a query or a key.
pub(super) struct Row<'a> {
    /// The name of its values: a letter, or a word for what is one number in any case.
    name: &'static str,
    access: &'a Access,
    width: usize,
}

impl Row<'_> {
    /// The variable of one of its values.
    fn variable(&self, piece: usize) -> String {
        match self.name.len() {
            1 => format!("{}{piece}", self.name),
            _ => self.name.to_owned(),
        }
    }
}

/// What adds up over all that an invocation meets.
pub(super) struct Total {
    /// The name of its values.
    pub name: &'static str,
    /// Where it goes, if anybody wants it.
    pub buffer: Option<BufferId>,
    pub width: usize,
}

/// Writes one shader.
pub(super) struct Writer<'a> {
    pub kernel: &'a AttentionKernel,
    pub side: Side,
    pub memory: Memory<'a>,
    /// Columns at a time.
    lanes: usize,
}

impl<'a> Writer<'a> {
    pub fn new(kernel: &'a AttentionKernel, side: Side, memory: Memory<'a>) -> Writer<'a> {
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

    pub fn sizes(&self) -> Sizes {
        Sizes::of(self.kernel, self.side)
    }

    /// The operands with several columns.
    fn rows(&self) -> Vec<&'a Access> {
        let mut rows = vec![&self.kernel.query, &self.kernel.key];
        rows.extend(self.values());
        if let AttentionPass::Backward { upstream, .. } = &self.kernel.pass {
            rows.push(upstream);
        }
        rows
    }

    /// The values, unless only normalizers are asked for.
    fn values(&self) -> Option<&'a Access> {
        match &self.kernel.pass {
            AttentionPass::Forward { output: None, .. } => None,
            _ => self.kernel.value.as_ref(),
        }
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
        let totals = self.totals().into_iter();
        totals
            .filter_map(|total| Some((total.buffer?, Some(total.width))))
            .chain(self.normalizer().map(|buffer| (buffer, None)))
            .collect()
    }

    /// What this shader adds up for each of its rows.
    pub fn totals(&self) -> Vec<Total> {
        let (width, value_width) = (self.kernel.width, self.kernel.value_width);
        let total = |name, buffer, width| Total {
            name,
            buffer,
            width,
        };
        match (&self.kernel.pass, self.side) {
            (AttentionPass::Forward { output: None, .. }, _) => Vec::new(),
            (AttentionPass::Forward { output, .. }, _) => vec![total("o", *output, value_width)],
            (AttentionPass::Backward { query, .. }, Side::Queries) => {
                vec![total("dq", *query, width)]
            }
            (AttentionPass::Backward { key, value, .. }, _) => {
                vec![total("dk", *key, width), total("dv", *value, value_width)]
            }
        }
    }

    /// Where normalizers go, if they are asked for.
    pub fn normalizer(&self) -> Option<BufferId> {
        match self.kernel.pass {
            AttentionPass::Forward { normalizer, .. } => normalizer,
            AttentionPass::Backward { .. } => None,
        }
    }

    /// What belongs to a query.
    fn of_query(&self) -> Vec<Row<'a>> {
        let mut rows = vec![row("q", &self.kernel.query, self.kernel.width)];
        if let AttentionPass::Backward {
            upstream,
            normalizer,
            sums,
            ..
        } = &self.kernel.pass
        {
            rows.push(row("u", upstream, self.kernel.value_width));
            rows.push(row("normalizer", normalizer, 1));
            rows.push(row("mean", sums, 1));
        }
        rows
    }

    /// What belongs to a key.
    fn of_key(&self) -> Vec<Row<'a>> {
        let mut rows = vec![row("k", &self.kernel.key, self.kernel.width)];
        let values = self.values();
        rows.extend(values.map(|values| row("v", values, self.kernel.value_width)));
        rows
    }

    /// What belongs to the invocation.
    fn own(&self) -> Vec<Row<'a>> {
        match self.side {
            Side::Keys => self.of_key(),
            Side::Forward | Side::Queries => self.of_query(),
        }
    }

    /// What comes from the other side.
    fn others(&self) -> Vec<Row<'a>> {
        match self.side {
            Side::Keys => self.of_query(),
            Side::Forward | Side::Queries => self.of_key(),
        }
    }

    /// Rows of the other side that lie in workgroup memory.
    pub fn tile(&self) -> usize {
        let width: usize = self.others().iter().map(|other| other.width).sum();
        let most = TILE_FLOATS / width.max(1);
        (1 << most.max(1).ilog2()).clamp(1, 32)
    }

    pub fn real(&self, width: usize) -> &'static str {
        if self.lanes == 4 && width > 1 {
            "vec4<f32>"
        } else {
            "f32"
        }
    }

    /// How many values a row of so many columns is.
    pub fn pieces(&self, width: usize) -> usize {
        if width > 1 { width / self.lanes } else { 1 }
    }

    /// The first value of a row, counted in values.
    pub fn start(&self, access: &Access, width: usize, first: &str, second: &str) -> String {
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

    /// Loads a row into its variables.
    fn load_row(&self, code: &mut Code, row: &Row<'_>, first: &str, second: &str) {
        let Row {
            name,
            access,
            width,
        } = *row;
        let start = self.start(access, width, first, second);
        if width == 1 {
            let piece = self.value(access, &start, "0u");
            return code.line(format!("let {} = {piece};", row.variable(0)));
        }
        code.line(format!("let at_{name} = {start};"));
        for piece in 0..self.pieces(width) {
            let value = self.value(access, &format!("at_{name}"), &format!("{piece}u"));
            code.line(format!("let {} = {value};", row.variable(piece)));
        }
    }

    /// The invocation's own rows from memory.
    pub fn load_own(&self, code: &mut Code) {
        for row in self.own() {
            self.load_row(code, &row, "own", "head");
        }
    }

    /// The other side's rows from memory.
    pub fn load(&self, code: &mut Code) {
        for row in self.others() {
            self.load_row(code, &row, "other", "other_head");
        }
    }

    /// The other side's rows through workgroup memory.
    pub fn share(&self, shared: &mut Code, fill: &mut Code, load: &mut Code) {
        let tile = self.tile();
        let last = self.sizes().others.saturating_sub(1);
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
            fill.line(format!("    let row = min(tile + i / {pieces}u, {last}u);"));
            let start = self.start(other.access, other.width, "row", "other_head");
            let value = self.value(other.access, &start, &format!("(i % {pieces}u)"));
            fill.line(format!("    tile_{name}[i] = {value};"));
            fill.line("}");
            for piece in 0..pieces {
                let variable = other.variable(piece);
                load.line(format!(
                    "let {variable} = tile_{name}[place * {pieces}u + {piece}u];"
                ));
            }
        }
    }
}

fn row<'a>(name: &'static str, access: &'a Access, width: usize) -> Row<'a> {
    Row {
        name,
        access,
        width,
    }
}

/// A result as an access; only its buffer and type count.
pub(super) fn dense(buffer: BufferId, rounds: bool) -> Access {
    Access {
        buffer,
        dtype: if rounds { DType::BF16 } else { DType::F32 },
        offset: 0,
        strides: Vec::new(),
        column_stride: 1,
    }
}
