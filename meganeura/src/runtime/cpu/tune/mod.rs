//! Choices that a search on the machine itself makes, where rules only estimate.
//!
//! Rules propose how every contraction of a plan is computed; a [`Table`] that a search has filled
//! puts other [`Choice`]s in their place. The search runs on demand only, on a step's own buffers
//! and in its own order, so that operands lie in the caches they lie in when the step trains. What
//! it finds is kept on disk by device and shape.
//!
//! No choice changes a bit of any result: see `gemm/choice.rs`. A table thus changes how fast a
//! step runs and nothing else, whoever wrote it.

mod device;
mod file;
mod search;
mod step;
mod table;
#[cfg(test)]
mod tests;

pub use device::Cache;
pub(super) use search::search;
pub(super) use step::{Origin, Step};
pub(super) use table::Table;

use super::gemm::{self, NoChoice, sides_from_text, sides_to_text};
use crate::ir::Precision;
use crate::schedule::kernel::{Access, Body, ContractKernel, Operand};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// How a contraction is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Which operands of several axes (windows, heads) are gathered to a matrix first.
    pub gathered: [bool; 2],
    /// How the product is computed.
    pub product: gemm::Choice,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gathered = sides_to_text(self.gathered);
        write!(f, "gathered:{gathered} {}", self.product)
    }
}

impl FromStr for Choice {
    type Err = NoChoice;

    fn from_str(text: &str) -> Result<Self, NoChoice> {
        let text = text.strip_prefix("gathered:").ok_or(NoChoice)?;
        let (gathered, product) = text.split_once(' ').ok_or(NoChoice)?;
        Ok(Self {
            gathered: sides_from_text(gathered).ok_or(NoChoice)?,
            product: product.parse()?,
        })
    }
}

/// What a choice depends on beside the device, as a line of text: sizes, how operands lie, and what
/// is done with the result.
pub(super) fn key(kernel: &ContractKernel) -> String {
    let axes = |axes: &[usize]| join(axes, ".");
    let (batch, m, n, k) = (&kernel.batch, &kernel.m, &kernel.n, &kernel.k);
    format!(
        "[{}] {}x{}x{} in {} left {} right {} then {}",
        axes(batch),
        axes(m),
        axes(n),
        axes(k),
        kernel.precision,
        operand(&kernel.left),
        operand(&kernel.right),
        epilogue(&kernel.epilogue),
    )
}

fn join(numbers: &[usize], separator: &str) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join(separator)
}

fn operand(operand: &Operand) -> String {
    match operand.as_load() {
        Some(load) => access(load),
        None => format!("computed by {}", operand.program.instructions.len()),
    }
}

fn access(access: &Access) -> String {
    let strides = join(&access.strides, ",");
    format!("{:?}:{strides},{}", access.dtype, access.column_stride)
}

fn epilogue(body: &Body) -> String {
    let stores: Vec<String> = body
        .stores
        .iter()
        .map(|store| access(&store.access))
        .collect();
    format!(
        "{} loads {} steps {} sums to {}",
        body.program.loads().count(),
        body.program.instructions.len(),
        body.accumulates.len(),
        stores.join(" "),
    )
}

/// The choices for this device, with the file that they are kept in.
#[derive(Debug)]
pub(super) struct Choices {
    device: String,
    file: Option<PathBuf>,
    pub table: Table,
    /// What is wrong with the file.
    pub note: Option<String>,
}

impl Choices {
    /// What is kept for a device with so many threads.
    pub fn kept(cache: &Cache, threads: usize) -> Self {
        let device = device::name(gemm::instruction_set(Precision::F32), threads);
        let directory = cache.directory();
        let file = directory.map(|directory| directory.join(device::file_name(&device)));
        let (table, note) = match &file {
            Some(file) => file::read(file, &device),
            None => Default::default(),
        };
        Self {
            device,
            file,
            table,
            note,
        }
    }

    /// Remembers choices, which take the rules' place, and those that give it back. The file that
    /// has them now, or why none does.
    pub fn remember(
        &mut self,
        changes: &[(String, Option<Choice>)],
    ) -> Result<Option<PathBuf>, String> {
        for (key, choice) in changes {
            self.table.set(key, *choice);
        }
        let Some(file) = &self.file else {
            return Ok(None);
        };
        match file::update(file, &self.device, changes) {
            Ok(()) => Ok(Some(file.clone())),
            Err(error) => Err(format!("{} cannot be written: {error}", file.display())),
        }
    }
}
