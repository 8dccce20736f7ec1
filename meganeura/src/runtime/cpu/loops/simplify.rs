//! The same kernel over a simpler domain: fewer and longer axes.

use super::super::memory::Element;
use super::compile::{NARROW, TILE};
use crate::ir::Combine;
use crate::schedule::kernel::{
    Access, Accumulate, Instruction, Level, LoopKernel, Program, Store, ValueId,
};

/// A kernel over few axes.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub(super) outer: Vec<usize>,
    pub(super) columns: usize,
    pub(super) program: Program,
    pub(super) stores: Vec<Store>,
    pub(super) accumulates: Vec<Accumulate>,
    /// Whether each accumulate takes its value once for each column, not once for the row.
    pub(super) each_column: Vec<bool>,
    /// The loads, by their instructions, that have the same elements again and again in a row, and how
    /// many they are.
    pub(super) repeated: Vec<(usize, usize)>,
}

/// Simplifies a kernel whose rows and columns keep their numbers.
pub(super) fn simplify_rows(kernel: &LoopKernel) -> Domain {
    let mut domain = Domain::new(kernel);
    domain.drop_unit_axes();
    domain.merge_outer_axes();
    domain
}

/// Simplifies a kernel.
pub(super) fn simplify(kernel: &LoopKernel) -> Domain {
    let mut domain = Domain::new(kernel);
    domain.simplify_reductions();
    domain.drop_unit_axes();
    domain.move_kept_axes_first();
    domain.merge_outer_axes();
    if domain.columns > 0 && domain.rows() > 0 {
        while domain.rotate() || domain.flatten() {
            domain.merge_outer_axes();
        }
        domain.join_rows();
    }
    domain
}

impl Domain {
    fn new(kernel: &LoopKernel) -> Self {
        let levels = kernel.body.program.levels();
        let each_column = |sum: &Accumulate| {
            sum.access.column_stride != 0 || levels[sum.value.index()] == Level::Full
        };
        Domain {
            outer: kernel.outer.clone(),
            columns: kernel.columns,
            program: kernel.body.program.clone(),
            stores: kernel.body.stores.clone(),
            each_column: kernel.body.accumulates.iter().map(each_column).collect(),
            accumulates: kernel.body.accumulates.clone(),
            repeated: Vec::new(),
        }
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.outer.iter().product()
    }

    /// Whether any instruction reduces.
    pub(super) fn reduces(&self) -> bool {
        let mut instructions = self.program.instructions.iter();
        instructions.any(|instruction| matches!(instruction, Instruction::Reduce(..)))
    }

    /// Every access.
    fn accesses(&self) -> impl Iterator<Item = &Access> {
        let written = self.stores.iter().map(|store| &store.access);
        let summed = self.accumulates.iter().map(|sum| &sum.access);
        self.program.loads().chain(written).chain(summed)
    }

    fn for_each_access(&mut self, mut change: impl FnMut(&mut Access)) {
        for instruction in &mut self.program.instructions {
            if let Instruction::Load(access) = instruction {
                change(access);
            }
        }
        for store in &mut self.stores {
            change(&mut store.access);
        }
        for sum in &mut self.accumulates {
            change(&mut sum.access);
        }
    }

    fn uses_index(&self, axis: usize) -> bool {
        let mut instructions = self.program.instructions.iter();
        instructions
            .any(|instruction| matches!(instruction, Instruction::OuterIndex(a) if *a == axis))
    }

    fn uses_column_index(&self) -> bool {
        self.program
            .instructions
            .contains(&Instruction::ColumnIndex)
    }

    /// Reductions of no column, of one, and of the same number in every column.
    fn simplify_reductions(&mut self) {
        let columns = self.columns;
        let mut program = Program::default();
        let mut moved: Vec<ValueId> = Vec::new();
        for instruction in &self.program.instructions {
            let mut instruction = instruction.clone();
            match &mut instruction {
                Instruction::Scalar(_, operands) => {
                    for operand in operands {
                        *operand = moved[operand.index()];
                    }
                }
                Instruction::Reduce(_, operand) => *operand = moved[operand.index()],
                _ => {}
            }
            let value = match instruction {
                Instruction::Reduce(combine, _) if columns == 0 => {
                    program.push(Instruction::Constant(combine.identity()))
                }
                Instruction::Reduce(_, operand) if columns == 1 => operand,
                Instruction::Reduce(combine, operand) if self.is_row(&program, operand) => {
                    match combine {
                        Combine::Sum => {
                            let count = program.push(Instruction::Constant(columns as f32));
                            program.push(Instruction::Scalar(
                                crate::ir::ScalarOp::Multiply,
                                vec![operand, count],
                            ))
                        }
                        Combine::Maximum => operand,
                    }
                }
                other => program.push(other),
            };
            moved.push(value);
        }
        self.program = program;
        for store in &mut self.stores {
            store.value = moved[store.value.index()];
        }
        for sum in &mut self.accumulates {
            sum.value = moved[sum.value.index()];
        }
    }

    fn is_row(&self, program: &Program, value: ValueId) -> bool {
        program.levels()[value.index()] == Level::Row
    }

    fn drop_unit_axes(&mut self) {
        for axis in (0..self.outer.len()).rev() {
            if self.outer[axis] == 1 {
                self.outer.remove(axis);
                self.for_each_access(|access| {
                    access.strides.remove(axis);
                });
                self.renumber(|index| match index {
                    _ if index == axis => None,
                    _ if index > axis => Some(index - 1),
                    _ => Some(index),
                });
            }
        }
    }

    /// Gives the outer axes new numbers; an axis without one has index 0.
    fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        for instruction in &mut self.program.instructions {
            if let Instruction::OuterIndex(axis) = instruction {
                *instruction = match number(*axis) {
                    Some(axis) => Instruction::OuterIndex(axis),
                    None => Instruction::Constant(0.0),
                };
            }
        }
    }

    /// Axes along which nothing is accumulated come first, so that the rows that share an
    /// address follow each other.
    fn move_kept_axes_first(&mut self) {
        if self.accumulates.is_empty() {
            return;
        }
        let kept = |axis: &usize| {
            let mut sums = self.accumulates.iter();
            sums.all(|sum| sum.access.strides[*axis] != 0)
        };
        let (first, then): (Vec<usize>, Vec<usize>) = (0..self.outer.len()).partition(kept);
        let order: Vec<usize> = first.into_iter().chain(then).collect();
        self.outer = order.iter().map(|&axis| self.outer[axis]).collect();
        self.for_each_access(|access| {
            access.strides = order.iter().map(|&axis| access.strides[axis]).collect();
        });
        self.renumber(|axis| order.iter().position(|&old| old == axis));
    }

    fn merge_outer_axes(&mut self) {
        for axis in (1..self.outer.len()).rev() {
            let size = self.outer[axis];
            let one_walk =
                |access: &Access| access.strides[axis - 1] == access.strides[axis] * size;
            if self.uses_index(axis) || self.uses_index(axis - 1) || !self.accesses().all(one_walk)
            {
                continue;
            }
            self.outer[axis - 1] *= size;
            self.outer.remove(axis);
            self.for_each_access(|access| {
                access.strides.remove(axis - 1);
            });
            self.renumber(|index| Some(if index > axis { index - 1 } else { index }));
        }
    }

    /// One column only: the last outer axis takes its place.
    fn rotate(&mut self) -> bool {
        let Some(axis) = self.outer.len().checked_sub(1) else {
            return false;
        };
        if self.columns != 1 || self.reduces() {
            return false;
        }
        for instruction in &mut self.program.instructions {
            *instruction = match instruction {
                Instruction::ColumnIndex => Instruction::Constant(0.0),
                Instruction::OuterIndex(a) if *a == axis => Instruction::ColumnIndex,
                _ => continue,
            };
        }
        self.columns = self.outer.remove(axis);
        self.for_each_access(|access| {
            access.column_stride = access.strides.pop().unwrap_or(0);
        });
        self.each_column.fill(true);
        self.columns > 0
    }

    /// Rows that follow each other become one.
    fn flatten(&mut self) -> bool {
        let Some(axis) = self.outer.len().checked_sub(1) else {
            return false;
        };
        let columns = self.columns;
        let one_walk = |access: &Access| access.strides[axis] == access.column_stride * columns;
        let apart = self.reduces()
            || self.uses_index(axis)
            || self.uses_column_index()
            || self.each_column.contains(&false);
        if apart || !self.accesses().all(one_walk) {
            return false;
        }
        self.columns *= self.outer.remove(axis);
        self.for_each_access(|access| {
            access.strides.pop();
        });
        self.columns > 0
    }

    /// Short rows that follow each other become one, as far as a tile has room, though some loads are
    /// the same for all of them: rotations of a token's heads by its position, for instance.
    fn join_rows(&mut self) {
        let Some(axis) = self.outer.len().checked_sub(1) else {
            return;
        };
        let (columns, size) = (self.columns, self.outer[axis]);
        let apart = self.reduces() || self.uses_index(axis) || self.uses_column_index();
        if !(2..=NARROW).contains(&columns) || apart || !self.accumulates.is_empty() {
            return;
        }
        let one_walk = |access: &Access| access.strides[axis] == access.column_stride * columns;
        let same = |access: &Access| {
            let float = Element::of(access.dtype) == Element::Float;
            access.strides[axis] == 0 && access.column_stride == 1 && float
        };
        let loads_fit = |access: &Access| one_walk(access) || same(access);
        let stores_fit = self.stores.iter().all(|store| one_walk(&store.access));
        let joined = (2..=TILE / columns).rev().find(|n| size.is_multiple_of(*n));
        let (Some(joined), true) = (joined, stores_fit) else {
            return;
        };
        if !self.program.loads().all(loads_fit) {
            return;
        }
        let instructions = self.program.instructions.iter().enumerate();
        let repeated = instructions.filter_map(|(value, instruction)| match instruction {
            Instruction::Load(access) if !one_walk(access) => Some((value, columns)),
            _ => None,
        });
        self.repeated = repeated.collect();
        self.columns *= joined;
        self.outer[axis] /= joined;
        self.for_each_access(|access| access.strides[axis] *= joined);
        self.drop_unit_axes();
        self.merge_outer_axes();
    }
}
