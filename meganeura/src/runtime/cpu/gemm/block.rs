//! Walking the blocks of a product.
//!
//! A unit (one thread's part of C) is computed by blocks of columns and of depth: the block
//! of B is packed once into panels that stay in the second-level cache, then a few rows of A
//! after the other pass along all of them, so that a strip of C as wide as the block becomes
//! complete while it is in the first-level cache. A is read where it lies if its layout
//! allows, and so is B if there are too few rows to make packing worth it.

use super::ahead::{Alike, Area, Shares};
use super::choice::Choice;
use super::dot;
use super::fold::{self, Pass, Sum};
use super::kernel::{Along, Call, Kernels};
use super::pack::Lines;
use super::prepare::{self, Panel, Rows, Scratch};
use super::problem::{Epilogue, Matrix, Operand, Problem, Soon, Tile, batch_offset};
use super::split::{self, Grid};
use crate::runtime::cpu::pool::Pool;
use std::cell::RefCell;
use std::mem;
use std::ops::Range;

/// How many row panels of a computed operand are asked for at a time, or of one that is rounded
/// along its rows: whole lines of the cache, then.
const PREPARED_PANELS: usize = 4;

/// Where finished elements go.
#[derive(Clone, Copy)]
pub(super) enum Destination<'a> {
    /// To memory whose columns are contiguous.
    Memory(Memory<'a>),
    Tiles(&'a dyn Epilogue),
    /// Tiles of the product's transpose.
    Turned(&'a dyn Epilogue),
}

/// Memory for a result. Its pointer is valid for the problem's size and its elements do not
/// overlap, which [`super::problem::Output::check`] has made sure of.
#[derive(Clone, Copy)]
pub(super) struct Memory<'a> {
    pub to: *mut f32,
    pub row_stride: usize,
    pub column_stride: usize,
    pub batch_strides: &'a [usize],
    pub accumulate: bool,
}

// SAFETY: it stands for a `&mut [f32]` of which each thread writes elements of its own.
unsafe impl Send for Memory<'_> {}
// SAFETY: as above.
unsafe impl Sync for Memory<'_> {}

impl Memory<'_> {
    /// Writes a tile.
    pub fn scatter(&self, problem: &Problem<'_>, tile: &Tile<'_>) {
        let offset = batch_offset(tile.batch, problem.batch, self.batch_strides);
        for (i, row) in tile.rows.clone().enumerate() {
            if self.column_stride == 1 && !self.accumulate {
                let from = &tile.data[i * tile.stride..][..tile.columns.len()];
                let at = offset + row * self.row_stride + tile.columns.start;
                // SAFETY: inside the memory, and no other tile has these elements.
                unsafe {
                    self.to
                        .add(at)
                        .copy_from_nonoverlapping(from.as_ptr(), from.len());
                }
                continue;
            }
            for (j, column) in tile.columns.clone().enumerate() {
                let value = tile.data[i * tile.stride + j];
                let at = offset + row * self.row_stride + column * self.column_stride;
                // SAFETY: inside the memory, and no other tile has this element.
                unsafe {
                    let to = self.to.add(at);
                    *to = if self.accumulate { *to + value } else { value };
                }
            }
        }
    }
}

/// Computes a checked problem that is not empty, as was chosen.
pub(super) fn run(
    kernels: &'static Kernels,
    pool: &Pool,
    problem: &Problem<'_>,
    destination: Destination<'_>,
    choice: &Choice,
) {
    let [m, n, k] = problem.size;
    let batches = problem.batch.iter().product::<usize>();
    let by_dots = dot::suits(problem);
    let grid = choice.grid;
    let units = batches * grid.rows * grid.columns;
    // Very many small units are taken by the handful.
    let tasks = units.min(16 * pool.threads());
    let tasks = match split::worth_sharing(batches, [m, n, k]) {
        true => tasks,
        false => 1,
    };
    let passes = match by_dots {
        true => [Some(Pass::Whole), None],
        false => Pass::of(problem, units, pool.threads().min(tasks)),
    };
    let job = |pass| Job {
        kernels,
        problem,
        destination,
        grid,
        copied: choice.copied,
        column_block: if by_dots { n } else { choice.columns },
        depth_blocks: if by_dots {
            1
        } else {
            split::Depth::of(problem).blocks(kernels)
        },
        by_dots,
        pass,
        units,
        threads: pool.threads(),
    };
    for job in passes.into_iter().flatten().map(job) {
        pool.run(tasks, |task, worker| {
            for place in split::part(units, 1, tasks, task) {
                job.unit(place, worker);
            }
        });
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// What a tile of C is computed from and where it stands.
pub(super) struct Block {
    pub batch: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    pub depth: Range<usize>,
    pub sum: Sum,
    /// Whether it is the first of the sum's depth.
    pub first_depth: bool,
    /// Whether it completes the result.
    pub last_depth: bool,
    pub worker: usize,
}

/// A product while it is being computed.
pub(super) struct Job<'a> {
    pub kernels: &'static Kernels,
    pub problem: &'a Problem<'a>,
    pub destination: Destination<'a>,
    grid: Grid,
    /// Which operands are copied though they could be read in place.
    pub copied: [bool; 2],
    column_block: usize,
    pub depth_blocks: usize,
    /// Whether it is computed by dot products.
    by_dots: bool,
    /// Which sums are made.
    pub pass: Pass,
    /// How many units there are, and threads that take them.
    units: usize,
    threads: usize,
}

impl Job<'_> {
    /// Computes one part of one matrix of C, at some place of the walk over them.
    fn unit(&self, place: usize, worker: usize) {
        // Taken, not borrowed: an epilogue may itself compute a product.
        let mut scratch = SCRATCH.take();
        // The share of a thread are neighbouring units.
        let follows = |place: usize| {
            let share = |place: usize| place * self.threads / self.units;
            place > 0 && place < self.units && share(place - 1) == share(place)
        };
        let mut index = 0;
        while let Some(block) = self.block_of(place, index, worker) {
            index += 1;
            if self.by_dots {
                self.dots(&block, &mut scratch);
                continue;
            }
            let next = self.block_of(place, index, worker).or_else(|| {
                let next = place + 1;
                follows(next).then(|| self.block_of(next, 0, worker))?
            });
            let fetched = index > 1 || follows(place);
            self.block(&block, next.as_ref(), fetched, &mut scratch);
        }
        SCRATCH.set(scratch);
    }

    /// A block of a unit, all depth of some columns after the other.
    fn block_of(&self, place: usize, index: usize, worker: usize) -> Option<Block> {
        let [m, n, k] = self.problem.size;
        let unit = self.pass.unit(place, self.units);
        let [batch, row, column] = self.grid.place(unit);
        let Grid { rows, columns, .. } = self.grid;
        let columns = split::part(n, self.kernels.lanes, columns, column);
        let column_blocks = columns.len().div_ceil(self.column_block);
        let (sums, depth_block) = (index / self.depth_blocks, index % self.depth_blocks);
        let (column_block, sum) = (sums / self.pass.sums(), sums % self.pass.sums());
        if column_block >= column_blocks {
            return None;
        }
        let panel = self.kernels.panel();
        let part = split::part(columns.len(), panel, column_blocks, column_block);
        let (all, sum) = self.pass.sum(sum, [unit, self.units], k);
        let depth = split::part(all.len(), split::DEPTH_UNIT, self.depth_blocks, depth_block);
        Some(Block {
            batch,
            rows: split::part(m, self.problem.row_unit, rows, row),
            columns: columns.start + part.start..columns.start + part.end,
            depth: all.start + depth.start..all.start + depth.end,
            sum,
            first_depth: depth_block == 0,
            last_depth: sum != Sum::Kept && depth_block + 1 == self.depth_blocks,
            worker,
        })
    }

    /// Adds one block of depth to one block of columns, of which the block before may have
    /// fetched B; this one fetches that of the next.
    fn block(&self, block: &Block, next: Option<&Block>, fetched: bool, scratch: &mut Scratch) {
        self.prepare_b(block, scratch);
        let mut cuts = mem::take(&mut scratch.cuts);
        self.cut_rows(&block.rows, &mut cuts);
        let panels = cuts.len() - 1;
        let group = match self.problem.a {
            Operand::Memory(matrix) if !self.rounds_by_steps(&matrix) => 1,
            _ => PREPARED_PANELS,
        };
        let row_of = |panel: usize| cuts[panel];
        let (width, tiles) = (self.kernels.panel(), scratch.panels.len());
        let mut alike = Alike::NOTHING;
        // What the next strips read of A that are prepared together, and what the next block reads
        // of B, a part of it in each strip.
        let next_b = next.and_then(|next| self.area_of_b(next));
        let next_b = alike.shares(next_b, width, panels * tiles);
        let mut ahead = [Shares::NOTHING, next_b];
        for first in (0..panels).step_by(group) {
            let last = (first + group).min(panels);
            let start = row_of(first);
            let a = self.prepare_a(block, start..row_of(last), &mut scratch.a);
            let next_a = match cuts.get(last + 1) {
                Some(_) => {
                    let end = row_of((last + group).min(panels));
                    self.area_of_a(block, row_of(last)..end)
                }
                None => next.and_then(|next| self.area_of_a(next, self.first_rows(next, group))),
            };
            ahead[0] = alike.shares(next_a, width, (last - first) * tiles);
            for strip in first..last {
                let rows = row_of(strip)..row_of(strip + 1);
                let near = fetched || strip > 0;
                let a = a.skip(rows.start - start);
                self.strip(block, a, rows, &mut ahead, near, scratch);
            }
        }
        scratch.cuts = cuts;
        if let (Destination::Turned(function), true) = (self.destination, block.last_depth) {
            self.turn(block, function, scratch);
        }
    }

    /// Elements of prepared operands in the depth of a block.
    pub(super) fn elements(&self, block: &Block) -> usize {
        block.depth.len().div_ceil(self.kernels.steps())
    }

    /// Where rows are cut into strips as tall as micro-kernels, nearly equal and within the
    /// problem's blocks of rows.
    fn cut_rows(&self, rows: &Range<usize>, cuts: &mut Vec<usize>) {
        let unit = match self.problem.row_unit {
            1 => rows.len().max(1),
            unit => unit,
        };
        cuts.clear();
        cuts.push(rows.start);
        for start in rows.clone().step_by(unit) {
            let height = unit.min(rows.end - start);
            let strips = height.div_ceil(self.kernels.rows);
            cuts.extend((1..=strips).map(|strip| start + height * strip / strips));
        }
    }

    /// The rows of a block's first strips.
    fn first_rows(&self, block: &Block, strips: usize) -> Range<usize> {
        let rows = &block.rows;
        rows.start..rows.end.min(rows.start + strips * self.kernels.rows)
    }

    /// Rows of A, if they lie in memory. The hardware follows them by itself, but only from where the
    /// strip's first products have waited for them on.
    fn area_of_a(&self, block: &Block, rows: Range<usize>) -> Option<Area> {
        let part = [rows, block.depth.clone()];
        Area::new(&self.problem.a, self.problem, block.batch, part)
    }

    /// B where it is read in place, over and over. A copy of it is made at once, along lines that
    /// the hardware follows, and what is fetched long before drives out the block in use.
    fn area_of_b(&self, block: &Block) -> Option<Area> {
        let in_place = |b: &Matrix<'_>| b.strides[1] == 1 && !self.copied[1];
        let rounded = self.kernels.rounding.is_some();
        let part = [block.depth.clone(), block.columns.clone()];
        let area = Area::new(&self.problem.b, self.problem, block.batch, part);
        area.filter(|_| matches!(&self.problem.b, Operand::Memory(b) if in_place(b) || rounded))
    }

    /// Lists where the rows of a strip's results and of what its epilogue reads begin. Sums that
    /// wait for the rest of the depth may have left the nearer caches.
    fn list_soon(
        &self,
        block: &Block,
        rows: &Range<usize>,
        c: (*mut f32, usize),
        in_room: Option<(*mut f32, usize)>,
        list: &mut Vec<Soon>,
    ) {
        list.clear();
        let in_memory = matches!(self.destination, Destination::Memory(_));
        let waits = (in_memory || !block.first_depth).then_some(c);
        if let Some((c, c_stride)) = in_room.or(waits) {
            list.extend((0..rows.len()).map(|row| Soon {
                from: c.wrapping_add(row * c_stride),
                written: in_memory || in_room.is_some(),
            }));
        }
        if let (Destination::Tiles(function), true) = (self.destination, block.last_depth) {
            function.soon(block.batch, rows.clone(), block.columns.start, list);
        }
        list.truncate(self.elements(block));
    }

    /// Multiplies rows of A by all panels of B. Where panels are far and jump from row to row, which
    /// the hardware does not foresee, each fetches the next one's rows instead of what is due otherwise.
    ///
    /// # Safety
    /// A, the panels and C are valid for what the call says, and nobody else uses the tiles of C.
    unsafe fn multiply(
        &self,
        call: &Call<'_>,
        along: Along,
        rows: usize,
        ahead: &mut [Shares; 2],
        far: Option<&mut Vec<Soon>>,
    ) {
        let run = |call: &Call<'_>, ahead: &mut [Shares; 2]| {
            let Some(kernel) = self.kernels.get(along, rows, call.panels[0].registers) else {
                unreachable!("there are kernels for all rows up to the tallest");
            };
            // SAFETY: the caller's promise; `kernels` are the CPU's.
            unsafe { kernel(call, ahead) };
        };
        let jumps = |panel: &Panel| panel.stride > panel.registers * self.kernels.lanes;
        let mut near = 0;
        if let Some(list) = far {
            while let Some(next) = call.panels.get(near + 1).filter(|next| jumps(next)) {
                let panel = call.panels[near];
                list.clear();
                list.extend((0..call.depth).map(|step| {
                    Soon {
                        from: (next.from)
                            .wrapping_add(step * next.stride)
                            .wrapping_sub(panel.first),
                        written: false,
                    }
                }));
                let panels = &call.panels[near..near + 1];
                run(
                    &Call {
                        panels,
                        soon: list,
                        ..*call
                    },
                    ahead,
                );
                near += 1;
            }
        }
        let alike = |one: &Panel, next: &Panel| one.registers == next.registers;
        for panels in call.panels[near..].chunk_by(alike) {
            run(&Call { panels, ..*call }, ahead);
        }
    }

    /// Hands on the transpose of a block's sums.
    fn turn(&self, block: &Block, function: &dyn Epilogue, scratch: &mut Scratch) {
        let width = block.columns.len().next_multiple_of(self.kernels.panel());
        let stride = prepare::padded(block.rows.len());
        let lines = Lines {
            from: scratch.sums.get(block.rows.len() * width).as_ptr(),
            line_stride: width,
            depth_stride: 1,
            count: block.rows.len(),
            depth: block.columns.len(),
        };
        let data = scratch.computed.get(block.columns.len() * stride);
        // SAFETY: `kernels` are the CPU's; the sums have these rows and columns, and a padded
        // row of the buffer holds a column of them.
        unsafe { (self.kernels.transpose)(&lines, data.as_mut_ptr(), stride) };
        function.tile(Tile {
            batch: block.batch,
            rows: block.columns.clone(),
            columns: block.rows.clone(),
            data: &mut data[..block.columns.len() * stride],
            stride,
            worker: block.worker,
        });
    }

    /// Computes a strip of C: as wide as the block and as tall as a micro-kernel's tile. All of the
    /// block's B is `near`, or comes as it is needed.
    fn strip(
        &self,
        block: &Block,
        a: Rows,
        rows: Range<usize>,
        ahead: &mut [Shares; 2],
        near: bool,
        scratch: &mut Scratch,
    ) {
        let width = block.columns.len().next_multiple_of(self.kernels.panel());
        let (c, c_stride, accumulate) = match self.destination {
            _ if self.adds_to_kept(block) => {
                let (c, c_stride) = self.kept(block, &rows, &mut scratch.sums);
                let accumulate = block.sum == Sum::Added || !block.first_depth;
                (c, c_stride, accumulate)
            }
            Destination::Memory(memory) => {
                let at = batch_offset(block.batch, self.problem.batch, memory.batch_strides)
                    + rows.start * memory.row_stride
                    + block.columns.start;
                let accumulate = memory.accumulate || !block.first_depth;
                (memory.to.wrapping_add(at), memory.row_stride, accumulate)
            }
            Destination::Tiles(_) | Destination::Turned(_) => {
                // Where depth is cut, the sums of all rows wait for the rest.
                let turned = matches!(self.destination, Destination::Turned(_));
                let (kept, first) = if self.depth_blocks > 1 || turned {
                    (block.rows.len(), rows.start - block.rows.start)
                } else {
                    (rows.len(), 0)
                };
                // Where others are kept, these come behind them.
                let before = match (self.pass, block.sum) {
                    (Pass::Both, Sum::Added) => kept,
                    _ => 0,
                };
                let first = before + first;
                let sums = scratch.sums.get((before + kept) * width);
                (
                    sums[first * width..].as_mut_ptr(),
                    width,
                    !block.first_depth,
                )
            }
        };
        let in_room = self.soon_in_room(block, &rows, &mut scratch.sums);
        let Scratch {
            panels,
            soon,
            soon_b,
            ..
        } = scratch;
        self.list_soon(block, &rows, (c, c_stride), in_room, soon);
        let call = Call {
            depth: self.elements(block),
            a: a.from,
            a_stride: a.stride,
            panels,
            c,
            c_stride,
            accumulate,
            soon,
        };
        // SAFETY: `a` and the panels hold the block's rows, columns and depth; the tiles of C lie in
        // the destination's memory, where they belong to this unit alone, or in the thread's sums,
        // which have that width and height.
        unsafe { self.multiply(&call, a.along, rows.len(), ahead, (!near).then_some(soon_b)) };
        let waits = block.last_depth && block.sum == Sum::Added && !self.adds_to_kept(block);
        let (c, c_stride) = match waits {
            true => {
                let kept = self.kept(block, &rows, &mut scratch.sums);
                let size = [rows.len(), block.columns.len()];
                // SAFETY: both have these rows and columns, and belong to this unit alone.
                unsafe { fold::add_to_kept(size, kept, (c, c_stride)) };
                kept
            }
            false => (c, c_stride),
        };
        if let (Destination::Tiles(function), true) = (self.destination, block.last_depth) {
            // SAFETY: the sums of these rows, which nobody else refers to.
            let data = unsafe { std::slice::from_raw_parts_mut(c, rows.len() * c_stride) };
            function.tile(Tile {
                batch: block.batch,
                rows,
                columns: block.columns.clone(),
                data,
                stride: c_stride,
                worker: block.worker,
            });
        }
    }
}
