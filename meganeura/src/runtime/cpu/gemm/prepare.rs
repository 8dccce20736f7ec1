//! Making operands readable for micro-kernels: in place where their layout allows, else
//! copied or computed into a thread's own memory.

use super::block::{Block, Job};
use super::kernel::{Along, Kernels, PANEL};
use super::pack::Lines;
use super::problem::{Matrix, Operand, Soon, Source, Tile, batch_offset};
use super::split;
use std::ops::Range;

/// With up to this many rows B is read where it lies: the copy would hardly pay off.
const DIRECT_ROWS: usize = 1024;
/// The same for a B whose rows compete for the same lines of the cache.
const DIRECT_COMPETING_ROWS: usize = 512;
/// Rows this many floats apart compete for the same lines of the first-level cache, on most
/// CPUs: 64 sets of 64 bytes.
const WAY: usize = 1024;
/// Half of a second-level cache, in floats.
const HALF_A_CACHE: usize = 128 * 1024;
/// Cycles to turn around a computed element of B while it is packed.
const TURNING: f64 = 0.3;
/// The same for an element in memory, whose lines are read many at a time.
const TRANSPOSING: f64 = 0.5;
/// How many rows of memory are packed into all panels of B before the next.
pub(super) const STEPS: usize = 16;

/// About how many cycles it takes to prepare an element of A for a block of columns, and to
/// fetch it from outside a thread's own caches.
pub(super) fn cost_of_a(a: &Operand<'_>, kernels: &Kernels, [m, n, k]: [usize; 3]) -> f64 {
    match a {
        Operand::Memory(_) if suits_direct_a(a, kernels, [m, n, k]) => cost_of_fetching(m, k),
        Operand::Memory(_) => 0.3 + cost_of_fetching(m, k),
        Operand::Computed { source, .. } => source.cost() + cost_of_rounding(kernels),
    }
}

/// The same for an element of B and a block of rows, if it has to be packed.
pub(super) fn cost_of_b(b: &Operand<'_>, kernels: &Kernels, [_, n, k]: [usize; 3]) -> f64 {
    match b {
        Operand::Memory(matrix) => {
            let turning = if matrix.strides[1] == 1 {
                0.0
            } else {
                TRANSPOSING
            };
            0.4 + turning + cost_of_fetching(k, n)
        }
        Operand::Computed { source, transposed } => {
            let turning = if *transposed { TURNING } else { 0.0 };
            source.cost() + turning + cost_of_rounding(kernels)
        }
    }
}

/// About how many cycles it takes to round a computed element, where that is another walk.
fn cost_of_rounding(kernels: &Kernels) -> f64 {
    if kernels.rounding.is_some() { 0.1 } else { 0.0 }
}

/// About how many cycles it takes to fetch an element of a matrix of that size.
pub(super) fn cost_of_fetching(rows: usize, columns: usize) -> f64 {
    let elements = rows.saturating_mul(columns);
    if elements <= HALF_A_CACHE {
        0.1
    } else if elements <= 1024 * 1024 {
        0.3
    } else {
        // It hardly stays in the last-level cache from one product to the next.
        0.7
    }
}

/// The same for an element of B that is read where it lies: from the second-level cache for
/// every few rows of A where it does not stay in the first, which is as expensive as packing it
/// with the most rows for which it is still done.
pub(super) fn cost_of_direct_b(b: &Operand<'_>, kernels: &Kernels, size: [usize; 3]) -> f64 {
    let [m, n, k] = size;
    match direct_rows(b, kernels) {
        DIRECT_ROWS => cost_of_fetching(k, n),
        0 => cost_of_b(b, kernels, size),
        rows => {
            let (near, packed) = (cost_of_fetching(k, n), cost_of_b(b, kernels, size));
            near + (packed - near) * (m as f64 / rows as f64).min(1.0)
        }
    }
}

/// Whether A is better read where it lies.
pub(super) fn suits_direct_a(a: &Operand<'_>, kernels: &Kernels, [_, n, k]: [usize; 3]) -> bool {
    match a {
        _ if kernels.rounding.is_some() => false,
        Operand::Memory(matrix) => match matrix.strides {
            [stride, 1] | [1, stride] if !competes(stride) || n <= kernels.panel() => true,
            // One line for each step of depth: as many of them as the second-level cache holds at
            // that stride, and they are read from there with every panel of B.
            [1, stride] => {
                let depth = k.div_ceil(split::Depth::whole(k).blocks(kernels));
                depth.saturating_mul(stride) <= 2 * HALF_A_CACHE
            }
            _ => false,
        },
        Operand::Computed { .. } => false,
    }
}

/// Up to how many rows B is better read where it lies.
pub(super) fn direct_rows(b: &Operand<'_>, kernels: &Kernels) -> usize {
    match b {
        _ if kernels.rounding.is_some() => 0,
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
pub(super) fn competes(stride: usize) -> bool {
    stride.is_multiple_of(WAY)
}

/// Memory of a thread for prepared operands and unfinished sums.
#[derive(Default)]
pub(super) struct Scratch {
    pub a: Buffer,
    pub b: Buffer,
    pub computed: Buffer,
    pub sums: Buffer,
    pub panels: Vec<Panel>,
    /// Memory that is needed soon.
    pub soon: Vec<Soon>,
    /// The same of the next panel of B.
    pub soon_b: Vec<Soon>,
    /// Where rows are cut into strips.
    pub cuts: Vec<usize>,
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    pub from: *const f32,
    pub stride: usize,
    pub registers: usize,
    /// Its first column, counted from the block's.
    pub first: usize,
    pub columns: usize,
}

/// Rows of A as a micro-kernel reads them.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub from: *const f32,
    pub stride: usize,
    pub along: Along,
}

impl Rows {
    pub fn skip(self, rows: usize) -> Self {
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

impl Job<'_> {
    /// Makes rows of A readable for micro-kernels.
    pub(super) fn prepare_a(&self, block: &Block, rows: Range<usize>, buffer: &mut Buffer) -> Rows {
        let depth = &block.depth;
        if let Some(rounding) = &self.kernels.rounding {
            return self.round_a(rounding, block, rows, buffer);
        }
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
        let rows_in_place = |stride, along| Rows {
            from,
            stride,
            along,
        };
        match matrix.strides {
            [stride, 1] if !self.copied[0] => return rows_in_place(stride, Along::Depth),
            [1, stride] if !self.copied[0] => return rows_in_place(stride, Along::Rows),
            _ => {}
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
            let width = self.kernels.rows.next_multiple_of(self.kernels.lanes);
            (self.kernels.pack_rows, width)
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
    pub(super) fn prepare_b(&self, block: &Block, scratch: &mut Scratch) {
        let Scratch {
            b,
            computed,
            panels,
            ..
        } = scratch;
        panels.clear();
        let depth = block.depth.len();
        match self.problem.b {
            Operand::Memory(matrix) => {
                let width = block.columns.len().next_multiple_of(self.kernels.panel());
                let packed = b.get(depth * width).as_mut_ptr();
                let first = [block.depth.start, block.columns.start];
                let lines = Lines {
                    from: element(&matrix, self.problem.batch, block.batch, first),
                    line_stride: matrix.strides[1],
                    depth_stride: matrix.strides[0],
                    count: block.columns.len(),
                    depth,
                };
                let mut done = 0;
                if matrix.strides[1] == 1 && !self.copied[1] {
                    done = self.direct_panels(&lines, block.rows.len(), panels);
                }
                let listed = panels.len();
                self.list_panels(done, &lines, packed, panels);
                // SAFETY: the lines lie inside the checked matrix, and the buffer has the
                // block's width, rounded up to panels, times its depth.
                unsafe { self.pack_panels(&lines, &panels[listed..]) };
            }
            Operand::Computed { source, transposed } => {
                self.compute_panels(source, transposed, block, [b, computed], panels);
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
    pub(super) fn list_panels(
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
            to = to.wrapping_add(panel.stride * lines.depth.div_ceil(self.kernels.steps()));
            first += columns;
            panels.push(panel);
        }
    }

    /// Packs lines into panels.
    ///
    /// # Safety
    ///
    /// The lines must be readable and the panels valid for that depth.
    unsafe fn pack_panels(&self, lines: &Lines, panels: &[Panel]) {
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
                let element = start / self.kernels.steps();
                let to = panel.from.cast_mut().wrapping_add(element * panel.stride);
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

    /// Computes B, by rows where these are its steps of depth, else turned around a panel at a
    /// time.
    fn compute_panels(
        &self,
        source: &dyn Source,
        transposed: bool,
        block: &Block,
        scratch: [&mut Buffer; 2],
        panels: &mut Vec<Panel>,
    ) {
        let [packed, computed] = scratch;
        let (depth, width) = (block.depth.len(), block.columns.len());
        if let (false, Some(rounding), Some(matrix)) =
            (transposed, &self.kernels.rounding, source.halves())
        {
            return self.pack_halves(rounding, &matrix, block, packed, panels);
        }
        if !transposed {
            let stride = padded(width);
            let data = packed.get(depth * stride);
            let (steps, columns) = (block.depth.clone(), block.columns.clone());
            fill(source, block, steps, columns, data, stride);
            let lines = Lines {
                from: data.as_ptr(),
                line_stride: 1,
                depth_stride: stride,
                count: width,
                depth,
            };
            if let Some(rounding) = &self.kernels.rounding {
                // SAFETY: `kernels` are the CPU's; elements come before the steps they are made
                // of, in rows with room for whole registers.
                unsafe { (rounding.across)(&lines, data.as_mut_ptr(), stride) };
            }
            let done = self.direct_panels(&lines, block.rows.len(), panels);
            if done < width {
                // A padded row has room for a whole register.
                panels.push(Panel {
                    from: lines.from.wrapping_add(done),
                    stride,
                    registers: 1,
                    first: done,
                    columns: width - done,
                });
            }
            return;
        }
        let stride = padded(depth);
        let mut lines = Lines {
            from: std::ptr::null(),
            line_stride: stride,
            depth_stride: 1,
            count: width,
            depth,
        };
        let at_a_time = self.kernels.panel();
        let packed = packed.get(depth * width.next_multiple_of(at_a_time));
        self.list_panels(0, &lines, packed.as_mut_ptr(), panels);
        for (panel, first) in (0..width).step_by(at_a_time).enumerate() {
            let chosen = first..width.min(first + at_a_time);
            let data = computed.get(chosen.len() * stride);
            lines.from = data.as_ptr();
            let begin = block.columns.start;
            let columns = begin + chosen.start..begin + chosen.end;
            fill(source, block, columns, block.depth.clone(), data, stride);
            // SAFETY: the buffer holds the columns of this panel, from the first one on.
            unsafe { self.pack_panels(&lines.before(first), &panels[panel..=panel]) };
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
pub(super) fn fill(
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
