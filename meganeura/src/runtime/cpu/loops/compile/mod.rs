//! From a program to steps.

mod loads;
mod pairs;
mod results;

use super::super::memory::Region;
use super::super::vector::{Form, InstructionSet, Kind, PairOp, lookup};
use super::program::{Code, HalfMoves, NO_SLOT, Origin, Phase, Shape, Slot, Step, Tiling, Work};
use super::schedule::{Consumer, Schedule};
use super::simplify::Domain;
use super::{again, fuse, registers};
use crate::ir::{Combine, ScalarOp};
use crate::schedule::kernel::{Instruction, Level, ValueId};

/// Columns in a piece of a long row.
const CHUNK: usize = 1024;
/// Rows up to this long are taken several at a time.
pub(super) const NARROW: usize = 128;
/// Up to so many rows of at least so many columns are reduced by all threads together.
const FEW: usize = 4;
const LONG: usize = 64 * 1024;
/// Elements in a tile of short rows.
pub(super) const TILE: usize = 1024;

/// How rows are best cut into tiles.
pub(super) fn tiling(domain: &Domain, set: InstructionSet) -> Tiling {
    let rows = domain.rows();
    let repeats = !domain.repeated.is_empty();
    if repeats && set.fuses() && domain.columns > NARROW {
        // Long enough for a loop in machine code, which moves pairs itself.
        return WIDE;
    }
    // Rows that were joined have more registers at work, and long ones to fetch ahead.
    let tile = if repeats { TILE / 2 } else { TILE };
    if repeats || (domain.columns > 0 && domain.columns <= NARROW && rows > 1) {
        Tiling::Narrow {
            rows: (tile / domain.columns).clamp(1, rows),
        }
    } else {
        WIDE
    }
}

/// One row at a time.
pub(super) const WIDE: Tiling = Tiling::Wide { columns: CHUNK };

/// Compiles a simplified kernel whose accesses are known to stay inside their buffers.
pub(super) fn compile(
    domain: &Domain,
    buffers: &[Region],
    set: InstructionSet,
    tiling: Tiling,
) -> Code {
    let rows = domain.rows();
    let wide = tiling == WIDE;
    let staged = wide && rows <= FEW && domain.columns >= LONG && domain.reduces();
    let multiple = wide && domain.columns > CHUNK;
    let schedule = Schedule::new(domain, buffers, wide, multiple, staged);
    let code = Code {
        outer: domain.outer.clone(),
        rows,
        columns: domain.columns,
        tiling,
        phases: vec![Phase::default(); schedule.phases],
        last: Vec::new(),
        slots: vec![Origin::Null],
        walks: Vec::new(),
        sums: Vec::new(),
        constants: Vec::new(),
        fused: Vec::new(),
        cells: Vec::new(),
        folds: Vec::new(),
        staged: staged && !schedule.rows_stay_whole,
        product: NO_SLOT,
        scratch: 0,
        rows_stay_whole: schedule.rows_stay_whole,
        moves: set.row_moves(),
        halves: HalfMoves {
            widen: lookup(set, Form::Widen),
            round: lookup(set, Form::Round(Kind::Stream)),
        },
    };
    let count = domain.program.instructions.len();
    let mut compiler = Compiler {
        domain,
        buffers,
        set,
        schedule: &schedule,
        code,
        places: vec![None; count],
        expanded: vec![None; count],
        cells: vec![NO_SLOT; count],
        registers: Vec::new(),
        phase: 0,
    };
    compiler.declare_sums();
    for phase in 0..schedule.phases {
        compiler.phase(phase);
    }
    compiler.row_results();
    let Compiler {
        mut code,
        mut registers,
        ..
    } = compiler;
    pairs::join(&mut code);
    if set.fuses() {
        if code.rows_are_tiles() || (wide && !code.staged && code.product == NO_SLOT) {
            again::make_again(&mut code, &mut registers);
            fuse::fetch_in_loops(&mut code);
        }
        fuse::count_in_loops(&mut code, &mut registers);
        fuse::fuse(&mut code);
    }
    registers::assign(&mut code, &registers);
    code
}

/// A register to find room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Register {
    pub(super) slot: Slot,
    pub(super) full: bool,
}

/// Where a value is.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: Slot,
    shape: Shape,
}

struct Compiler<'a> {
    domain: &'a Domain,
    buffers: &'a [Region],
    set: InstructionSet,
    schedule: &'a Schedule,
    code: Code,
    places: Vec<Option<Place>>,
    /// Row values repeated for each column.
    expanded: Vec<Option<Slot>>,
    /// The double of each reduction.
    cells: Vec<Slot>,
    registers: Vec<Register>,
    phase: usize,
}

impl Compiler<'_> {
    fn wide(&self) -> bool {
        matches!(self.code.tiling, Tiling::Wide { .. })
    }

    fn slot(&mut self, origin: Origin) -> Slot {
        self.code.slots.push(origin);
        Slot::try_from(self.code.slots.len() - 1).unwrap_or(NO_SLOT)
    }

    fn register(&mut self, full: bool) -> Slot {
        // Its place is found once all steps are known.
        let slot = self.slot(Origin::Null);
        self.registers.push(Register { slot, full });
        slot
    }

    fn cell(&mut self, start: f64) -> (Slot, usize) {
        let cell = self.code.cells.len();
        self.code.cells.push(start);
        (self.slot(Origin::Cell(cell)), cell)
    }

    fn push(&mut self, level: Level, work: Work, to: Slot, from: [Slot; 3]) {
        let phase = &mut self.code.phases[self.phase];
        let steps = match level {
            Level::Row => &mut phase.row,
            Level::Full => &mut phase.column,
        };
        steps.push(Step { work, to, from });
    }

    fn vector(&mut self, level: Level, form: Form, to: Slot, from: [Slot; 3]) {
        let work = Work::Vector(lookup(self.set, form), form);
        self.push(level, work, to, from);
    }

    /// The steps of one phase.
    fn phase(&mut self, phase: usize) {
        self.phase = phase;
        let schedule = self.schedule;
        for value in 0..self.places.len() {
            if schedule.levels[value] == Level::Row && schedule.row_phase(value) == Some(phase) {
                self.row_value(value);
            }
        }
        if schedule.recompute {
            for value in 0..self.places.len() {
                if schedule.levels[value] == Level::Full {
                    self.places[value] = None;
                }
            }
        }
        for value in 0..self.places.len() {
            if schedule.levels[value] == Level::Full {
                if !schedule.computes(value, phase) {
                    continue;
                }
                match schedule.consumer[value] {
                    None => self.full_value(value),
                    Some(Consumer::Value) => continue,
                    Some(Consumer::Result) => {}
                }
            }
            if schedule.results_phase(value) == Some(phase) {
                self.results(value);
            }
        }
        for (index, store) in self.domain.stores.iter().enumerate() {
            if schedule.delayed_store[index] == Some(phase) {
                self.store(store.value.index(), &store.access);
            }
        }
    }

    /// A step on the rows of a tile.
    fn row_value(&mut self, value: usize) {
        let place = match &self.domain.program.instructions[value] {
            Instruction::Load(access) => self.row_load(value, access),
            Instruction::Constant(number) => {
                let constant = self.code.constants.len();
                self.code.constants.push(*number);
                Place {
                    slot: self.slot(Origin::Constant(constant)),
                    shape: Shape::Uniform,
                }
            }
            Instruction::OuterIndex(axis) => {
                let slot = self.register(false);
                self.push(Level::Row, Work::OuterIndex(*axis), slot, [NO_SLOT; 3]);
                Place {
                    slot,
                    shape: Shape::Row,
                }
            }
            Instruction::Scalar(op, operands) => {
                let slot = self.register(false);
                let (from, kinds) = self.operands(operands, Level::Row);
                self.vector(Level::Row, scalar_form(*op, kinds), slot, from);
                Place {
                    slot,
                    shape: Shape::Row,
                }
            }
            Instruction::Reduce(combine, _) => self.finished(value, *combine),
            Instruction::ColumnIndex | Instruction::Accumulator => return,
        };
        self.places[value] = Some(place);
    }

    /// A reduction's result, whose fold was in an earlier phase.
    fn finished(&mut self, value: usize, combine: Combine) -> Place {
        let slot = self.cells[value];
        if !self.wide() {
            // Folded row by row right into its register.
            return Place {
                slot,
                shape: Shape::Row,
            };
        }
        let result = self.register(false);
        let from = [slot, NO_SLOT, NO_SLOT];
        self.push(Level::Row, Work::Finish(combine), result, from);
        Place {
            slot: result,
            shape: Shape::Row,
        }
    }

    /// A step on the columns of a tile.
    fn full_value(&mut self, value: usize) {
        let slot = match &self.domain.program.instructions[value] {
            Instruction::Load(access) => self.full_load(value, access),
            Instruction::ColumnIndex => {
                let slot = self.register(true);
                self.push(Level::Full, Work::Columns, slot, [NO_SLOT; 3]);
                slot
            }
            Instruction::Scalar(op, operands) => self.full_scalar(value, *op, operands),
            Instruction::Accumulator => {
                if self.code.product == NO_SLOT {
                    self.code.product = self.slot(Origin::Null);
                }
                self.code.product
            }
            _ => return,
        };
        self.places[value] = Some(Place {
            slot,
            shape: Shape::Full,
        });
    }

    fn full_scalar(&mut self, value: usize, op: ScalarOp, operands: &[ValueId]) -> Slot {
        let (form, from) = match self.schedule.folded[value] {
            Some(side) => self.pair(op, operands, side),
            None => {
                let (from, kinds) = self.operands(operands, Level::Full);
                (scalar_form(op, kinds), from)
            }
        };
        let slot = match self.schedule.direct_store[value] {
            Some(store) if self.stores_directly(value, store) => {
                let walk = self.written_walk(&self.domain.stores[store].access, false);
                self.code.walks[walk].slot
            }
            _ => self.register(true),
        };
        self.vector(Level::Full, form, slot, from);
        slot
    }

    /// Whether a value is computed right where a store wants it.
    fn stores_directly(&self, value: usize, store: usize) -> bool {
        let access = &self.domain.stores[store].access;
        self.schedule.results_phase(value) == Some(self.phase) && self.in_place(access)
    }

    /// An operation together with one of its operands (`side`), which only it uses.
    fn pair(&mut self, op: ScalarOp, operands: &[ValueId], side: usize) -> (Form, [Slot; 3]) {
        let folded = operands[side];
        let Instruction::Scalar(first, inner) = &self.domain.program.instructions[folded.index()]
        else {
            // The schedule folds scalar instructions only.
            return (Form::Unary(op, Kind::Stream), [NO_SLOT; 3]);
        };
        let second = match (op, side) {
            (ScalarOp::Add, _) => PairOp::Add,
            (ScalarOp::Subtract, 0) => PairOp::Subtract,
            (ScalarOp::Subtract, _) => PairOp::SubtractFrom,
            _ => PairOp::Multiply,
        };
        let (a, b) = (inner[0], inner[1]);
        let (from, kinds) = self.operands(&[a, b, operands[1 - side]], Level::Full);
        (Form::Pair(pair_op(*first), second, kinds), from)
    }

    /// The slots of operands and how a step of this level reads them.
    fn operands(&mut self, values: &[ValueId], level: Level) -> ([Slot; 3], [Kind; 3]) {
        let mut slots = [NO_SLOT; 3];
        let mut kinds = [Kind::Stream; 3];
        for (i, value) in values.iter().enumerate() {
            (slots[i], kinds[i]) = self.operand(value.index(), level);
        }
        (slots, kinds)
    }

    fn operand(&mut self, value: usize, level: Level) -> (Slot, Kind) {
        let Some(place) = self.places[value] else {
            return (NO_SLOT, Kind::Splat);
        };
        match (level, place.shape) {
            (_, Shape::Uniform) => (place.slot, Kind::Splat),
            (Level::Row, _) | (Level::Full, Shape::Full) => (place.slot, Kind::Stream),
            (Level::Full, Shape::Row) if self.wide() => (place.slot, Kind::Splat),
            (Level::Full, Shape::Row) => {
                let slot = match self.expanded[value] {
                    Some(slot) => slot,
                    None => {
                        let slot = self.register(true);
                        let from = [place.slot, NO_SLOT, NO_SLOT];
                        self.push(Level::Full, Work::Expand, slot, from);
                        self.expanded[value] = Some(slot);
                        slot
                    }
                };
                (slot, Kind::Stream)
            }
        }
    }

    fn is_full(&self, value: usize) -> bool {
        self.schedule.levels[value] == Level::Full
    }

    /// The factors of a product that only its sum uses.
    fn product(&self, value: usize) -> Option<[ValueId; 2]> {
        match &self.domain.program.instructions[value] {
            Instruction::Scalar(_, operands)
                if self.schedule.consumer[value] == Some(Consumer::Result) =>
            {
                Some([operands[0], operands[1]])
            }
            _ => None,
        }
    }
}

/// The scalar instruction that combines.
fn combining(combine: Combine) -> ScalarOp {
    match combine {
        Combine::Sum => ScalarOp::Add,
        Combine::Maximum => ScalarOp::Maximum,
    }
}

fn pair_op(op: ScalarOp) -> PairOp {
    match op {
        ScalarOp::Add => PairOp::Add,
        ScalarOp::Subtract => PairOp::Subtract,
        _ => PairOp::Multiply,
    }
}

fn scalar_form(op: ScalarOp, kinds: [Kind; 3]) -> Form {
    match op.arity() {
        1 => Form::Unary(op, kinds[0]),
        2 => Form::Binary(op, [kinds[0], kinds[1]]),
        _ => Form::Select(kinds),
    }
}
