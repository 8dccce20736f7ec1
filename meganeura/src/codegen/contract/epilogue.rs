//! What is done with a product before it is stored.

use super::indices::{column_group, four};
use crate::codegen::body::{Code, Point, Writer, announce_loads};
use crate::codegen::memory::{Memory, is_vector};
use crate::codegen::scalar::Functions;
use crate::schedule::kernel::{ContractKernel, Instruction, ValueId};

/// Announce what the epilogue of a contraction touches.
pub(super) fn announce_epilogue(memory: &mut Memory<'_>, kernel: &ContractKernel, wide: bool) {
    announce_loads(memory, &kernel.epilogue.program, wide);
    for store in &kernel.epilogue.stores {
        memory.add(&store.access, true, wide && is_vector(&store.access));
    }
}

/// Writes what is done with four columns of a result.
pub(super) struct Epilogue<'a> {
    kernel: &'a ContractKernel,
    writer: Writer<'a>,
}

impl<'a> Epilogue<'a> {
    pub fn new(
        kernel: &'a ContractKernel,
        memory: &'a Memory<'a>,
        functions: &'a Functions,
    ) -> Epilogue<'a> {
        Epilogue {
            kernel,
            writer: Writer::new(&kernel.epilogue.program, memory, functions, "e"),
        }
    }

    /// Write the epilogue for row `row` and the columns of group `group`, whose sums `sum`
    /// holds; nothing happens past the result's end.
    pub fn element(&self, code: &mut Code, batch: &[String], row: &str, group: &str, sum: &str) {
        let kernel = self.kernel;
        code.line(format!("let m = {row};"));
        code.line(format!("let g = {group};"));
        let (rows, columns) = (kernel.rows(), kernel.columns());
        let head = format!("if m < {rows}u && g < {}u", columns.div_ceil(4));
        code.block(head, |code| {
            column_group(code, columns, "g", "", 1);
            let point = Point {
                outer: [batch, &["m".to_owned()]].concat(),
                column: four(columns, ""),
                suffix: String::new(),
            };
            let stores = &kernel.epilogue.stores;
            let wanted = self
                .writer
                .cone(stores.iter().map(|store| store.value), false);
            for (index, instruction) in kernel.epilogue.program.instructions.iter().enumerate() {
                if *instruction == Instruction::Accumulator && wanted[index] {
                    let name = self.writer.name(ValueId(index as u32), &point);
                    code.line(format!("let {name} = {sum};"));
                }
            }
            self.writer.row_values(code, &point, 0, &wanted);
            self.writer.full_values(code, &point, &wanted);
            for store in stores {
                self.writer.store(code, store, &point);
            }
        });
    }
}
