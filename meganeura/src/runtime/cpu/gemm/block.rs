//! Walking the blocks of a product.
//!
//! A unit (one thread's part of C) is computed by blocks of columns and of depth: the block
//! of B is packed once into panels that stay in the second-level cache, then a few rows of A
//! after the other pass along all of them, so that a strip of C as wide as the block becomes
//! complete while it is in the first-level cache. A is read where it lies if its layout
//! allows, and so is B if there are too few rows to make packing worth it.

use super::dot;
use super::kernel::{Along, Call, Kernels, PANEL};
use super::pack::Lines;
use super::problem::{Matrix, Operand, Problem, Source, Tile, batch_offset};
use super::split::{self, Costs, Grid};
use crate::runtime::cpu::pool::Pool;
use std::cell::RefCell;
use std::ops::Range;

/// With up to this many rows B is read where it lies: the copy would hardly pay off.
const DIRECT_ROWS: usize = 1024;
/// The same for a B whose rows compete for the same lines of the cache.
const DIRECT_COMPETING_ROWS: usize = 64;
/// Rows this many floats apart compete for the same lines of the first-level cache, on most
/// CPUs: 64 sets of 64 bytes.
const WAY: usize = 1024;
/// How many row panels of a computed operand are asked for at a time.
const COMPUTED_PANELS: usize = 4;
/// How many rows of memory are packed into all panels of B before the next.
const STEPS: usize = 16;

/// Where finished elements go.
#[derive(Clone, Copy)]
pub(super) enum Destination<'a> {
    /// To memory whose columns are contiguous.
    Memory(Memory<'a>),
    Tiles(&'a (dyn Fn(Tile<'_>) + Sync)),
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
    /// Writes a tile float by float, for layouts without contiguous rows or columns.
    pub fn scatter(&self, problem: &Problem<'_>, tile: &Tile<'_>) {
        let offset = batch_offset(tile.batch, problem.batch, self.batch_strides);
        for (i, row) in tile.rows.clone().enumerate() {
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

/// Computes a checked problem that is not empty.
pub(super) fn run(
    kernels: &'static Kernels,
    pool: &Pool,
    problem: &Problem<'_>,
    destination: Destination<'_>,
) {
    let [m, n, k] = problem.size;
    let batches = problem.batch.iter().product::<usize>();
    let by_dots = dot::suits(problem);
    let costs = Costs {
        batches,
        size: problem.size,
        prepare_a: prepare_a_cost(&problem.a, kernels, n),
        prepare_b: prepare_b_cost(&problem.b),
        direct_rows: direct_rows(&problem.b),
        keeps_sums: matches!(destination, Destination::Tiles(_)),
    };
    let grid = split::grid(kernels, pool.threads(), &costs);
    let job = Job {
        kernels,
        problem,
        destination,
        grid,
        column_block: if by_dots {
            n
        } else {
            split::column_block(kernels, k)
        },
        depth_blocks: if by_dots { 1 } else { split::depth_blocks(k) },
        by_dots,
    };
    let units = batches * grid.rows * grid.columns;
    // Many small units are taken by the handful.
    let tasks = units.min(4 * pool.threads());
    let alone = m
        .saturating_mul(n)
        .saturating_mul(k)
        .saturating_mul(batches)
        < split::WORTH_SHARING;
    let tasks = if alone { 1 } else { tasks };
    pool.run(tasks, |task, worker| {
        for unit in split::part(units, 1, tasks, task) {
            job.unit(unit, worker);
        }
    });
}

fn prepare_a_cost(a: &Operand<'_>, kernels: &Kernels, columns: usize) -> f64 {
    match a {
        Operand::Memory(matrix) if is_direct_a(matrix, kernels, columns) => 0.0,
        Operand::Memory(_) => 0.3,
        Operand::Computed { .. } => 2.0,
    }
}

fn prepare_b_cost(b: &Operand<'_>) -> f64 {
    match b {
        Operand::Memory(_) => 0.5,
        Operand::Computed { .. } => 2.5,
    }
}

/// Whether A is read where it lies.
fn is_direct_a(a: &Matrix<'_>, kernels: &Kernels, columns: usize) -> bool {
    match a.strides {
        [stride, 1] | [1, stride] => !competes(stride) || columns <= kernels.panel(),
        _ => false,
    }
}

/// Up to how many rows B is read where it lies.
fn direct_rows(b: &Operand<'_>) -> usize {
    match b {
        Operand::Memory(Matrix {
            strides: [row, 1], ..
        }) => {
            if competes(*row) {
                DIRECT_COMPETING_ROWS
            } else {
                DIRECT_ROWS
            }
        }
        _ => 0,
    }
}

/// Whether neighbours at this stride fall into the same lines of the first-level cache and
/// drive each other out.
fn competes(stride: usize) -> bool {
    stride.is_multiple_of(WAY)
}

/// Memory of a thread for prepared operands and unfinished sums.
#[derive(Default)]
pub(super) struct Scratch {
    a: Buffer,
    pub b: Buffer,
    computed: Buffer,
    pub sums: Buffer,
    panels: Vec<Panel>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Floats that begin at a cache line.
#[derive(Default)]
pub(super) struct Buffer(Vec<Line>);

impl Buffer {
    /// At least `length` floats, of any value.
    pub fn get(&mut self, length: usize) -> &mut [f32] {
        let lines = length.div_ceil(16);
        if self.0.len() < lines {
            self.0.resize(lines, Line([0.0; 16]));
        }
        // SAFETY: a line is sixteen floats without padding.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), 16 * lines) }
    }
}

/// A panel of B as a micro-kernel reads it.
#[derive(Clone, Copy)]
struct Panel {
    from: *const f32,
    stride: usize,
    registers: usize,
    /// Its first column, counted from the block's.
    first: usize,
    columns: usize,
}

/// Rows of A as a micro-kernel reads them.
#[derive(Clone, Copy)]
struct Rows {
    from: *const f32,
    stride: usize,
    along: Along,
}

impl Rows {
    fn skip(self, rows: usize) -> Self {
        let step = match self.along {
            Along::Depth => self.stride,
            Along::Rows => 1,
        };
        Self {
            from: self.from.wrapping_add(rows * step),
            ..self
        }
    }
}

/// What a tile of C is computed from and where it stands.
pub(super) struct Block {
    pub batch: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    pub depth: Range<usize>,
    pub first_depth: bool,
    pub last_depth: bool,
    pub worker: usize,
}

/// A product while it is being computed.
pub(super) struct Job<'a> {
    pub kernels: &'static Kernels,
    pub problem: &'a Problem<'a>,
    pub destination: Destination<'a>,
    grid: Grid,
    column_block: usize,
    depth_blocks: usize,
    /// Whether it is computed by dot products.
    by_dots: bool,
}

impl Job<'_> {
    /// Computes one part of one matrix of C.
    fn unit(&self, unit: usize, worker: usize) {
        // Taken, not borrowed: an epilogue may itself compute a product.
        let mut scratch = SCRATCH.take();
        let [m, n, k] = self.problem.size;
        let Grid { rows, columns } = self.grid;
        let batch = unit / (rows * columns);
        let rows = split::part(m, 1, rows, unit / columns % rows);
        let columns = split::part(n, self.kernels.lanes, columns, unit % columns);
        let column_blocks = columns.len().div_ceil(self.column_block);
        for column_block in 0..column_blocks {
            let part = split::part(
                columns.len(),
                self.kernels.panel(),
                column_blocks,
                column_block,
            );
            for depth_block in 0..self.depth_blocks {
                let block = Block {
                    batch,
                    rows: rows.clone(),
                    columns: columns.start + part.start..columns.start + part.end,
                    depth: split::part(k, 16, self.depth_blocks, depth_block),
                    first_depth: depth_block == 0,
                    last_depth: depth_block + 1 == self.depth_blocks,
                    worker,
                };
                if self.by_dots {
                    self.dots(&block, &mut scratch);
                } else {
                    self.block(&block, &mut scratch);
                }
            }
        }
        SCRATCH.set(scratch);
    }

    /// Adds one block of depth to one block of columns.
    fn block(&self, block: &Block, scratch: &mut Scratch) {
        self.prepare_b(block, scratch);
        let height = block.rows.len();
        let panels = height.div_ceil(self.kernels.rows);
        let group = match self.problem.a {
            Operand::Memory(_) => 1,
            Operand::Computed { .. } => COMPUTED_PANELS,
        };
        let row_of = |panel: usize| block.rows.start + height * panel / panels;
        for first in (0..panels).step_by(group) {
            let last = (first + group).min(panels);
            let start = row_of(first);
            let a = self.prepare_a(block, start..row_of(last), &mut scratch.a);
            for panel in first..last {
                let rows = row_of(panel)..row_of(panel + 1);
                self.strip(block, a.skip(rows.start - start), rows, scratch);
            }
        }
    }

    /// Computes a strip of C: as wide as the block and as tall as a micro-kernel's tile.
    fn strip(&self, block: &Block, a: Rows, rows: Range<usize>, scratch: &mut Scratch) {
        let width = block.columns.len().next_multiple_of(self.kernels.panel());
        let (c, c_stride, accumulate) = match self.destination {
            Destination::Memory(memory) => {
                let at = batch_offset(block.batch, self.problem.batch, memory.batch_strides)
                    + rows.start * memory.row_stride
                    + block.columns.start;
                let accumulate = memory.accumulate || !block.first_depth;
                (memory.to.wrapping_add(at), memory.row_stride, accumulate)
            }
            Destination::Tiles(_) => {
                // Where depth is cut, the sums of all rows wait for the rest.
                let (kept, first) = if self.depth_blocks > 1 {
                    (block.rows.len(), rows.start - block.rows.start)
                } else {
                    (rows.len(), 0)
                };
                let sums = scratch.sums.get(kept * width);
                (
                    sums[first * width..].as_mut_ptr(),
                    width,
                    !block.first_depth,
                )
            }
        };
        for panel in &scratch.panels {
            let Some(kernel) = self.kernels.get(a.along, rows.len(), panel.registers) else {
                unreachable!("there are kernels for all rows up to the tallest");
            };
            let call = Call {
                depth: block.depth.len(),
                a: a.from,
                a_stride: a.stride,
                b: panel.from,
                b_stride: panel.stride,
                c: c.wrapping_add(panel.first),
                c_stride,
                columns: panel.columns,
                accumulate,
            };
            // SAFETY: `kernels` are the CPU's; `a` and `panel` hold the block's rows, columns
            // and depth; the tile of C lies in the destination's memory, where it belongs to
            // this unit alone, or in the thread's sums, which have that width and height.
            unsafe { kernel(&call) };
        }
        if let (Destination::Tiles(function), true) = (self.destination, block.last_depth) {
            // SAFETY: the sums of these rows, which nobody else refers to.
            let data = unsafe { std::slice::from_raw_parts_mut(c, rows.len() * c_stride) };
            function(Tile {
                batch: block.batch,
                rows,
                columns: block.columns.clone(),
                data,
                stride: c_stride,
                worker: block.worker,
            });
        }
    }

    /// Makes rows of A readable for micro-kernels.
    fn prepare_a(&self, block: &Block, rows: Range<usize>, buffer: &mut Buffer) -> Rows {
        let depth = &block.depth;
        match self.problem.a {
            Operand::Memory(matrix) => self.prepare_a_in_memory(&matrix, block, rows, buffer),
            Operand::Computed {
                source,
                transposed: false,
            } => {
                let stride = padded(depth.len());
                let data = buffer.get(rows.len() * stride);
                let from = data.as_ptr();
                fill(source, block, rows, depth.clone(), data, stride);
                Rows {
                    from,
                    stride,
                    along: Along::Depth,
                }
            }
            Operand::Computed {
                source,
                transposed: true,
            } => {
                let stride = padded(rows.len());
                let data = buffer.get(depth.len() * stride);
                let from = data.as_ptr();
                fill(source, block, depth.clone(), rows, data, stride);
                Rows {
                    from,
                    stride,
                    along: Along::Rows,
                }
            }
        }
    }

    /// Makes rows of an A in memory readable for micro-kernels, in place if possible.
    fn prepare_a_in_memory(
        &self,
        matrix: &Matrix<'_>,
        block: &Block,
        rows: Range<usize>,
        buffer: &mut Buffer,
    ) -> Rows {
        let depth = block.depth.len();
        let [row_stride, depth_stride] = matrix.strides;
        let from = element(
            matrix,
            self.problem.batch,
            block.batch,
            [rows.start, block.depth.start],
        );
        let columns = self.problem.size[1];
        if is_direct_a(matrix, self.kernels, columns) {
            return if depth_stride == 1 {
                Rows {
                    from,
                    stride: row_stride,
                    along: Along::Depth,
                }
            } else {
                Rows {
                    from,
                    stride: depth_stride,
                    along: Along::Rows,
                }
            };
        }
        if depth_stride == 1 {
            let stride = padded(depth);
            let data = buffer.get(rows.len() * stride);
            for row in 0..rows.len() {
                // SAFETY: `depth` floats of this row, inside the checked matrix, and of
                // the buffer.
                unsafe {
                    let from = from.add(row * row_stride);
                    data.as_mut_ptr()
                        .add(row * stride)
                        .copy_from_nonoverlapping(from, depth);
                }
            }
            return Rows {
                from: data.as_ptr(),
                stride,
                along: Along::Depth,
            };
        }
        let lines = Lines {
            from,
            line_stride: row_stride,
            depth_stride,
            count: rows.len(),
            depth,
        };
        let narrow = rows.len() <= self.kernels.lanes;
        let (pack, stride) = if narrow {
            (self.kernels.pack_narrow, self.kernels.lanes)
        } else {
            (self.kernels.pack_panel, self.kernels.panel())
        };
        let data = buffer.get(depth * stride);
        // SAFETY: `kernels` are the CPU's; the lines lie inside the checked matrix.
        unsafe { pack(&lines, data.as_mut_ptr()) };
        Rows {
            from: data.as_ptr(),
            stride,
            along: Along::Rows,
        }
    }

    /// Lists the panels of a block of B, packed where it does not lie right already.
    fn prepare_b(&self, block: &Block, scratch: &mut Scratch) {
        let Scratch {
            b,
            computed,
            panels,
            ..
        } = scratch;
        panels.clear();
        let depth = block.depth.len();
        let width = block.columns.len().next_multiple_of(self.kernels.panel());
        let packed = b.get(depth * width).as_mut_ptr();
        match self.problem.b {
            Operand::Memory(matrix) => {
                let first = [block.depth.start, block.columns.start];
                let lines = Lines {
                    from: element(&matrix, self.problem.batch, block.batch, first),
                    line_stride: matrix.strides[1],
                    depth_stride: matrix.strides[0],
                    count: block.columns.len(),
                    depth,
                };
                let mut done = 0;
                if block.rows.len() <= direct_rows(&self.problem.b) {
                    done = self.direct_panels(&lines, block.rows.len(), panels);
                }
                let listed = panels.len();
                self.list_panels(done, &lines, packed, panels);
                // SAFETY: the lines lie inside the checked matrix, and the buffer has the
                // block's width, rounded up to panels, times its depth.
                unsafe { self.pack_panels(&lines, 0, &panels[listed..]) };
            }
            Operand::Computed { source, transposed } => {
                self.compute_panels(source, transposed, block, computed, packed, panels);
            }
        }
    }

    /// Lists panels that are read where they lie, as many as there are whole registers;
    /// how many columns that are.
    fn direct_panels(&self, lines: &Lines, rows: usize, panels: &mut Vec<Panel>) -> usize {
        let lanes = self.kernels.lanes;
        let mut registers = self.kernels.widest(rows.min(self.kernels.rows));
        let mut first = 0;
        while registers > 0 {
            let columns = registers * lanes;
            while first + columns <= lines.count {
                panels.push(Panel {
                    from: lines.from.wrapping_add(first),
                    stride: lines.depth_stride,
                    registers,
                    first,
                    columns,
                });
                first += columns;
            }
            registers /= 2;
        }
        first
    }

    /// Lists packed panels for the columns of a block from `first` on.
    fn list_panels(
        &self,
        mut first: usize,
        lines: &Lines,
        packed: *mut f32,
        panels: &mut Vec<Panel>,
    ) {
        let mut to = packed;
        while first < lines.count {
            let columns = (lines.count - first).min(self.kernels.panel());
            let panel = self.panel(to, first, columns);
            to = to.wrapping_add(panel.stride * lines.depth);
            first += columns;
            panels.push(panel);
        }
    }

    /// Packs lines into panels, whose depth they fill from `step` on.
    ///
    /// # Safety
    ///
    /// The lines must be readable and the panels valid for that depth.
    unsafe fn pack_panels(&self, lines: &Lines, step: usize, panels: &[Panel]) {
        // Along rows of memory first: a panel at a time would jump from page to page.
        let steps = if lines.line_stride == 1 {
            STEPS
        } else {
            lines.depth.max(1)
        };
        for start in (0..lines.depth).step_by(steps) {
            for panel in panels {
                let part = Lines {
                    from: lines
                        .from
                        .wrapping_add(panel.first * lines.line_stride + start * lines.depth_stride),
                    count: panel.columns,
                    depth: steps.min(lines.depth - start),
                    ..*lines
                };
                let pack = if panel.registers == PANEL {
                    self.kernels.pack_panel
                } else {
                    self.kernels.pack_narrow
                };
                let to = panel
                    .from
                    .cast_mut()
                    .wrapping_add((step + start) * panel.stride);
                // SAFETY: `kernels` are the CPU's; the rest is the caller's word.
                unsafe { pack(&part, to) };
            }
        }
    }

    /// The packed panel at `from` for some columns, as narrow as they allow.
    fn panel(&self, from: *const f32, first: usize, columns: usize) -> Panel {
        let registers = if columns <= self.kernels.lanes {
            1
        } else {
            PANEL
        };
        Panel {
            from,
            stride: registers * self.kernels.lanes,
            registers,
            first,
            columns,
        }
    }

    /// Computes B and packs it, a few of the source's rows at a time.
    fn compute_panels(
        &self,
        source: &dyn Source,
        transposed: bool,
        block: &Block,
        computed: &mut Buffer,
        packed: *mut f32,
        panels: &mut Vec<Panel>,
    ) {
        let (depth, width) = (block.depth.len(), block.columns.len());
        // The source's rows are the block's columns or its steps of depth.
        let (rows, row_length, rows_at_a_time) = if transposed {
            (width, depth, self.kernels.panel())
        } else {
            (depth, width, STEPS)
        };
        let stride = padded(row_length);
        let (line_stride, depth_stride) = if transposed { (stride, 1) } else { (1, stride) };
        let mut lines = Lines {
            from: std::ptr::null(),
            line_stride,
            depth_stride,
            count: width,
            depth,
        };
        self.list_panels(0, &lines, packed, panels);
        for first in (0..rows).step_by(rows_at_a_time) {
            let chosen = first..rows.min(first + rows_at_a_time);
            let data = computed.get(chosen.len() * stride);
            lines.from = data.as_ptr();
            if transposed {
                let begin = block.columns.start;
                let columns = begin + chosen.start..begin + chosen.end;
                fill(source, block, columns, block.depth.clone(), data, stride);
                let panel = first / rows_at_a_time;
                // SAFETY: the buffer holds the columns of this panel, from the first one on.
                unsafe { self.pack_panels(&lines.before(first), 0, &panels[panel..=panel]) };
            } else {
                let begin = block.depth.start;
                let steps = begin + chosen.start..begin + chosen.end;
                lines.depth = chosen.len();
                fill(source, block, steps, block.columns.clone(), data, stride);
                // SAFETY: the buffer holds these steps of depth of all columns.
                unsafe { self.pack_panels(&lines, first, panels) };
            }
        }
    }
}

/// A row length that is a multiple of a cache line but not of a large power of two, so that
/// neighbouring rows do not compete for the same lines of the first-level cache.
pub(super) fn padded(length: usize) -> usize {
    length.next_multiple_of(16) / 32 * 32 + 16
}

/// The address of an element of a checked matrix.
pub(super) fn element(
    matrix: &Matrix<'_>,
    batch: &[usize],
    index: usize,
    [row, column]: [usize; 2],
) -> *const f32 {
    let offset = batch_offset(index, batch, matrix.batch_strides)
        + row * matrix.strides[0]
        + column * matrix.strides[1];
    matrix.data.as_ptr().wrapping_add(offset)
}

/// Asks a source for rows and columns of its own.
fn fill(
    source: &dyn Source,
    block: &Block,
    rows: Range<usize>,
    columns: Range<usize>,
    data: &mut [f32],
    stride: usize,
) {
    source.fill(Tile {
        batch: block.batch,
        rows,
        columns,
        data,
        stride,
        worker: block.worker,
    });
}
