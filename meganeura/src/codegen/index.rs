//! Rows of tables, chosen and added to by indices.

use super::{LowerError, Lowering};
use crate::ir::DType;
use crate::schedule::kernel::{Access, BufferId, GatherKernel, ScatterAddKernel};
use meganeura_shaders::{GATHER, SCATTER_ADD, fill, lane_types};

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

impl Lowering<'_> {
    pub(super) fn gather(&mut self, kernel: &GatherKernel) -> Result<(), LowerError> {
        let (table, indices, output) = (
            whole(kernel.table, DType::F32),
            whole(kernel.indices, DType::U32),
            whole(kernel.output, DType::F32),
        );
        let lanes = if kernel.width.is_multiple_of(4) { 4 } else { 1 };
        let width = kernel.width / lanes;
        let items = kernel.count * width;
        if items == 0 {
            return Ok(());
        }
        let mut memory = self.memory();
        memory.add(&table, false, lanes == 4);
        memory.add(&indices, false, false);
        memory.add(&output, true, lanes == 4);
        let number = |value: usize| format!("{value}u");
        let declarations = memory.declarations();
        let (workgroup, items_text) = (number(WORKGROUP), number(items));
        let (width, rows) = (number(width), number(kernel.rows));
        let variables = [kernel.table, kernel.indices, kernel.output].map(|id| memory.variable(id));
        let mut values = vec![
            ("declarations", declarations.as_str()),
            ("workgroup", &workgroup),
            ("items", &items_text),
            ("width", &width),
            ("rows", &rows),
            ("table", &variables[0]),
            ("indices", &variables[1]),
            ("output", &variables[2]),
        ];
        values.extend(lane_types(lanes));
        let source = fill(GATHER, &values);
        self.emit("", source, &memory, items.div_ceil(WORKGROUP))
    }

    pub(super) fn scatter_add(&mut self, kernel: &ScatterAddKernel) -> Result<(), LowerError> {
        let (updates, indices, output) = (
            whole(kernel.updates, DType::F32),
            whole(kernel.indices, DType::U32),
            whole(kernel.output, DType::F32),
        );
        let lanes = if kernel.width.is_multiple_of(4) { 4 } else { 1 };
        let width = kernel.width / lanes;
        // Everyone goes through all indices: on a processor the fewer the better, a GPU needs
        // many to hide the latency.
        let strips = if self.target.software {
            1
        } else {
            width.min(64)
        };
        let items = kernel.rows * strips;
        if items == 0 {
            return Ok(());
        }
        let mut memory = self.memory();
        memory.add(&updates, false, lanes == 4);
        memory.add(&indices, false, false);
        memory.add(&output, true, lanes == 4);
        let number = |value: usize| format!("{value}u");
        let declarations = memory.declarations();
        let numbers = [WORKGROUP, items, strips, width, kernel.count].map(number);
        let variables =
            [kernel.updates, kernel.indices, kernel.output].map(|id| memory.variable(id));
        let mut values = vec![
            ("declarations", declarations.as_str()),
            ("workgroup", &numbers[0]),
            ("items", &numbers[1]),
            ("strips", &numbers[2]),
            ("width", &numbers[3]),
            ("count", &numbers[4]),
            ("updates", &variables[0]),
            ("indices", &variables[1]),
            ("output", &variables[2]),
        ];
        values.extend(lane_types(lanes));
        let source = fill(SCATTER_ADD, &values);
        self.emit("", source, &memory, items.div_ceil(WORKGROUP))
    }
}
