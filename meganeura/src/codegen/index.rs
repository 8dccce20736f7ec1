//! Rows of tables, chosen and added to by indices.

use super::memory::Memory;
use super::{LowerError, Lowering};
use crate::ir::DType;
use crate::schedule::kernel::{Access, BufferId, GatherKernel, ScatterAddKernel};
use meganeura_shaders::{CLEAR, GATHER, SCATTER_ADD, SCATTER_LINK, fill, lane_types};

const WORKGROUP: usize = 64;

/// A buffer in row-major order without gaps.
fn whole(buffer: BufferId, dtype: DType) -> Access {
    Access {
        buffer,
        dtype,
        offset: 0,
        strides: Vec::new(),
        column_stride: 1,
    }
}

/// The numbers and buffers of one shader's template.
struct Values<'a> {
    memory: Memory<'a>,
    lanes: usize,
    texts: Vec<(&'static str, String)>,
}

impl Values<'_> {
    fn number(&mut self, name: &'static str, value: usize) {
        self.texts.push((name, format!("{value}u")));
    }

    /// The same for a result that may be rounded.
    fn result(&mut self, name: &'static str, buffer: BufferId, rounds: bool) {
        let dtype = if rounds { DType::BF16 } else { DType::F32 };
        self.memory
            .add(&whole(buffer, dtype), true, self.lanes == 4);
        self.texts.push((name, self.memory.variable(buffer)));
        let lanes = self.lanes;
        let rounded = if rounds {
            format!("rounded{lanes}")
        } else {
            String::new()
        };
        self.texts.push(("rounded", rounded));
    }

    /// A buffer of floats, accessed in as many lanes as the shader has.
    fn floats(&mut self, name: &'static str, buffer: BufferId, writes: bool) {
        self.memory
            .add(&whole(buffer, DType::F32), writes, self.lanes == 4);
        self.texts.push((name, self.memory.variable(buffer)));
    }

    fn words(&mut self, name: &'static str, buffer: BufferId, writes: bool) {
        self.memory.add(&whole(buffer, DType::U32), writes, false);
        self.texts.push((name, self.memory.variable(buffer)));
    }
}

impl<'a> Lowering<'a> {
    fn values(&self, lanes: usize) -> Values<'a> {
        let mut values = Values {
            memory: self.memory(),
            lanes,
            texts: Vec::new(),
        };
        values.number("workgroup", WORKGROUP);
        values
    }

    fn finish(
        &mut self,
        part: &str,
        template: &str,
        values: &Values<'_>,
        items: usize,
    ) -> Result<(), LowerError> {
        let declarations = values.memory.declarations();
        let mut all = vec![("declarations", declarations.as_str())];
        all.extend(
            values
                .texts
                .iter()
                .map(|(name, text)| (*name, text.as_str())),
        );
        all.extend(lane_types(values.lanes));
        let source = fill(template, &all);
        self.emit(part, source, &values.memory, items.div_ceil(WORKGROUP))
    }

    pub(super) fn gather(&mut self, kernel: &GatherKernel) -> Result<(), LowerError> {
        let lanes = if kernel.width.is_multiple_of(4) { 4 } else { 1 };
        let width = kernel.width / lanes;
        let items = kernel.count * width;
        if items == 0 {
            return Ok(());
        }
        let mut values = self.values(lanes);
        values.floats("table", kernel.table, false);
        values.words("indices", kernel.indices, false);
        values.result("output", kernel.output, kernel.rounds);
        values.number("items", items);
        values.number("width", width);
        values.number("rows", kernel.rows);
        self.finish("", GATHER, &values, items)
    }

    pub(super) fn scatter_add(&mut self, kernel: &ScatterAddKernel) -> Result<(), LowerError> {
        let lanes = if kernel.width.is_multiple_of(4) { 4 } else { 1 };
        let width = kernel.width / lanes;
        if kernel.rows * width == 0 {
            return Ok(());
        }
        if kernel.count > self.target.rounds {
            return Err(LowerError::TooManyRounds(kernel.count));
        }
        let mut clear = self.values(lanes);
        clear.floats("output", kernel.output, true);
        clear.number("items", kernel.rows * width);
        self.finish("clear", CLEAR, &clear, kernel.rows * width)?;
        if kernel.count == 0 {
            return Ok(());
        }
        let next = self.scratch(kernel.count);
        let mut link = self.values(1);
        link.words("indices", kernel.indices, false);
        link.words("next", next, true);
        link.number("count", kernel.count);
        self.finish("link", SCATTER_LINK, &link, kernel.count)?;

        let mut add = self.values(lanes);
        add.floats("updates", kernel.updates, false);
        add.words("indices", kernel.indices, false);
        add.words("next", next, false);
        add.floats("output", kernel.output, true);
        add.number("items", kernel.count * width);
        add.number("width", width);
        add.number("rows", kernel.rows);
        add.number("count", kernel.count);
        self.finish("", SCATTER_ADD, &add, kernel.count * width)
    }
}
