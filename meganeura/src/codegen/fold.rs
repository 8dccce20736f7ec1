//! Values combined over rows.

use super::body::{Code, Point, Writer, announce_loads, store_columns};
use super::loops::{column, outer_indices};
use super::memory::is_vector;
use super::scalar::{Functions, combine};
use super::simplify::merge_outer;
use super::split::{Fold, row_strides};
use super::sums::{self, Loop, Part};
use super::{LowerError, Lowering, count};
use crate::ir::DType;
use crate::schedule::kernel::{Access, Accumulate, Instruction, LoopKernel, ValueId};
use meganeura_shaders::{FOLD, fill};

const WORKGROUP: usize = 64;
/// Rows that one invocation combines at most.
const MOST_STEPS: usize = 1024;
/// With this few rows it is not worth to split them.
const FEW_STEPS: usize = 256;

impl Lowering<'_> {
    /// Combine over rows: in blocks first, where there are many rows, and then the blocks.
    pub(super) fn fold(&mut self, mut fold: Fold) -> Result<(), LowerError> {
        simplify(&mut fold);
        let results = count(&[kept_size(&fold), fold.kernel.columns])?;
        if results == 0 {
            return Ok(());
        }
        let steps = count(&[fold.kernel.rows()])? / kept_size(&fold);
        let lanes = choose_lanes(&fold);
        let blocks = self.blocks(results / lanes, steps);
        if blocks == 1 {
            return self.fold_blocks(&fold, lanes, steps, 1, None);
        }
        let mut partial = Vec::new();
        for _ in &fold.kernel.body.accumulates {
            partial.push(self.partial_access(&fold, blocks, results)?);
        }
        self.fold_blocks(&fold, lanes, steps, blocks, Some(&partial))?;
        let rest = combine_blocks(&fold, blocks, &partial);
        self.fold(rest)
    }

    /// Into how many blocks the rows are cut: enough to keep the device busy, and so that
    /// none gets too long for a plain sum.
    fn blocks(&self, items: usize, steps: usize) -> usize {
        if steps <= FEW_STEPS && (items > 1 || steps <= 64) {
            return 1;
        }
        let busy = if self.target.software { 64 } else { 1 << 16 };
        let wanted = (busy / items.max(1)).min(steps / 16);
        wanted
            .max(steps.div_ceil(MOST_STEPS))
            .clamp(1, steps.max(1))
    }

    /// Scratch for the partial results of one accumulate, blocks first, over the axes that
    /// are kept.
    fn partial_access(
        &mut self,
        fold: &Fold,
        blocks: usize,
        results: usize,
    ) -> Result<Access, LowerError> {
        let columns = fold.kernel.columns;
        let kept: Vec<usize> = sizes_of(fold, true);
        let mut outer = vec![blocks];
        outer.extend(kept);
        Ok(Access {
            buffer: self.scratch(count(&[blocks, results])?),
            dtype: DType::F32,
            offset: 0,
            strides: row_strides(&outer, columns),
            column_stride: usize::from(columns != 1),
        })
    }

    fn fold_blocks(
        &mut self,
        fold: &Fold,
        lanes: usize,
        steps: usize,
        blocks: usize,
        partial: Option<&[Access]>,
    ) -> Result<(), LowerError> {
        let kernel = &fold.kernel;
        let mut memory = self.memory();
        announce_loads(&mut memory, &kernel.body.program, lanes == 4);
        let accumulates = &kernel.body.accumulates;
        for (index, accumulate) in accumulates.iter().enumerate() {
            let access = partial.map_or(&accumulate.access, |partial| &partial[index]);
            memory.add(access, true, lanes == 4 && is_vector(access));
        }
        let functions = Functions::default();
        let writer = Writer::new(&kernel.body.program, &memory, &functions, "");
        let groups_of_columns = kernel.columns / lanes;
        let results = kept_size(fold) * groups_of_columns;

        let mut before = Code::default();
        let kept = split_result(&mut before, fold, groups_of_columns);
        let mut point = Point {
            outer: vec!["0u".to_owned(); kernel.outer.len()],
            column: column(&mut before, lanes, "result_column"),
            suffix: String::new(),
        };
        place_indices(&mut point, fold, true, &kept);
        let looped = Loop {
            variable: "step",
            first: "block",
            end: steps,
            step: blocks,
        };
        let part = |(index, accumulate): (usize, &Accumulate)| Part {
            variable: format!("sum{index}"),
            how: accumulate.combine,
        };
        let parts: Vec<Part> = accumulates.iter().enumerate().map(part).collect();
        let mut rows = Code::default();
        sums::write(
            &mut rows,
            looped,
            &parts,
            lanes,
            &functions,
            &|code, suffix| {
                fold_row(code, fold, &writer, &functions, &point, lanes, suffix);
            },
        );
        let mut after = Code::default();
        let mut target = point.clone();
        if partial.is_some() {
            target.outer = [vec!["block".to_owned()], kept].concat();
        }
        for (index, accumulate) in accumulates.iter().enumerate() {
            let access = partial.map_or(&accumulate.access, |partial| &partial[index]);
            store_columns(&memory, &mut after, access, &format!("sum{index}"), &target);
        }
        let items = count(&[results, blocks])?;
        let source = fill(
            FOLD,
            &[
                ("declarations", &memory.declarations()),
                ("functions", &functions.text()),
                ("workgroup", &format!("{WORKGROUP}u")),
                ("items", &format!("{items}u")),
                ("results", &format!("{results}u")),
                ("before", before.text()),
                ("loop", rows.text()),
                ("after", after.text()),
            ],
        );
        let part = if partial.is_some() {
            "blocks of rows"
        } else {
            "over rows"
        };
        self.emit(part, source, &memory, items.div_ceil(WORKGROUP))
    }
}

/// Write the statements for one row.
fn fold_row(
    code: &mut Code,
    fold: &Fold,
    writer: &Writer<'_>,
    functions: &Functions,
    point: &Point,
    lanes: usize,
    suffix: &str,
) {
    let mut point = point.clone();
    let combined = outer_indices(code, &sizes_of(fold, false), "step", "s");
    place_indices(&mut point, fold, false, &combined);
    let accumulates = &fold.kernel.body.accumulates;
    let wanted = writer.cone(accumulates.iter().map(|accumulate| accumulate.value), false);
    writer.row_values(code, &point, 0, &wanted);
    writer.full_values(code, &point, &wanted);
    for (index, accumulate) in accumulates.iter().enumerate() {
        let sum = format!("sum{index}{suffix}");
        let value = writer.value(accumulate.value, &point, lanes);
        let text = combine(accumulate.combine, &sum, &value, lanes, functions);
        code.line(format!("{sum} = {text};"));
    }
}

/// Write the indices of a result: its columns as `result_column`, and one for each kept axis.
fn split_result(code: &mut Code, fold: &Fold, columns: usize) -> Vec<String> {
    let kept = sizes_of(fold, true);
    if kept.iter().all(|&size| size == 1) {
        code.line("let result_column = result;");
        return vec!["0u".to_owned(); kept.len()];
    }
    code.line(format!("let result_column = result % {columns}u;"));
    code.line(format!("let result_row = result / {columns}u;"));
    outer_indices(code, &kept, "result_row", "i")
}

fn place_indices(point: &mut Point, fold: &Fold, kept: bool, names: &[String]) {
    let mut names = names.iter();
    for (axis, &is_kept) in fold.kept.iter().enumerate() {
        if is_kept == kept
            && let Some(name) = names.next()
        {
            point.outer[axis].clone_from(name);
        }
    }
}

fn sizes_of(fold: &Fold, kept: bool) -> Vec<usize> {
    let axes = fold.kernel.outer.iter().zip(&fold.kept);
    axes.filter(|(_, is_kept)| **is_kept == kept)
        .map(|(&size, _)| size)
        .collect()
}

fn kept_size(fold: &Fold) -> usize {
    sizes_of(fold, true).iter().product()
}

fn choose_lanes(fold: &Fold) -> usize {
    let gains = fold.kernel.body.program.loads().any(is_vector);
    if fold.keeps_columns && gains && fold.kernel.columns.is_multiple_of(4) {
        4
    } else {
        1
    }
}

/// Merge neighbouring axes that are both kept or both combined.
fn simplify(fold: &mut Fold) {
    let kernel = &mut fold.kernel;
    let kept_of = |body: &crate::schedule::kernel::Body, outer: &[usize]| -> Vec<bool> {
        let strides = &body.accumulates[0].access.strides;
        outer
            .iter()
            .zip(strides)
            .map(|(&size, &stride)| size == 1 || stride != 0)
            .collect()
    };
    merge_outer(&mut kernel.outer, &mut kernel.body, &|body, axis| {
        let is_kept = |axis: usize| body.accumulates[0].access.strides[axis] != 0;
        is_kept(axis) == is_kept(axis + 1)
    });
    fold.kept = kept_of(&kernel.body, &kernel.outer);
}

/// The fold that combines partial results: blocks are its rows.
fn combine_blocks(fold: &Fold, blocks: usize, partial: &[Access]) -> Fold {
    let kept = sizes_of(fold, true);
    let mut kernel = LoopKernel {
        outer: [vec![blocks], kept].concat(),
        columns: fold.kernel.columns,
        body: Default::default(),
    };
    for (accumulate, access) in fold.kernel.body.accumulates.iter().zip(partial) {
        let value: ValueId = kernel.body.program.push(Instruction::Load(access.clone()));
        let strides = accumulate.access.strides.iter().zip(&fold.kept);
        let kept_strides = strides
            .filter(|(_, is_kept)| **is_kept)
            .map(|(&stride, _)| stride);
        let access = Access {
            strides: std::iter::once(0).chain(kept_strides).collect(),
            ..accumulate.access.clone()
        };
        kernel.body.accumulates.push(Accumulate {
            combine: accumulate.combine,
            value,
            access,
        });
    }
    let mut is_kept = vec![true; kernel.outer.len()];
    is_kept[0] = false;
    Fold {
        kernel,
        kept: is_kept,
        keeps_columns: fold.keeps_columns,
    }
}
