//! Short rows made dense, and put back: what tiles of several rows read and write.

use super::InstructionSet;
use super::lanes::{Lanes, Portable};

/// Copies rows between a dense tile and memory, where each begins `rows` elements after the
/// base and its columns are some elements apart.
///
/// # Safety
/// The instruction set must be there, the tile and all elements of the rows.
pub(in super::super) type RowsFn = unsafe fn(tile: *mut f32, memory: &Rows<'_>);

/// Rows in memory.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Rows<'a> {
    pub base: *mut f32,
    pub starts: &'a [usize],
    /// The rows that are worked on next, which are worth fetching meanwhile.
    pub next: &'a [usize],
    pub columns: usize,
    pub stride: usize,
    /// Whether a whole vector may be written from any row of the tile on.
    pub roomy: bool,
}

/// Floats of a cache line.
const LINE: usize = 16;

/// Asks for a line.
#[inline(always)]
fn fetch_line<const WRITE: bool>(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it reads nothing that the program could notice.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        match WRITE {
            true => _mm_prefetch::<_MM_HINT_ET0>(at.cast()),
            false => _mm_prefetch::<_MM_HINT_T0>(at.cast()),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks for what a vector of pairs takes: many requests at once would wait for each other.
#[inline(always)]
fn fetch_pairs<const WRITE: bool>(at: *const f32) {
    fetch_line::<WRITE>(at);
    fetch_line::<WRITE>(at.wrapping_add(LINE));
}

impl Rows<'_> {
    /// Asks for the next tile's row in place of one. Rows are too short, and too many of them
    /// take turns, for the hardware to notice that they follow each other.
    #[inline(always)]
    fn fetch<const WRITE: bool>(&self, row: usize) {
        // Rows of far elements lie side by side as a rule: the next has the same lines.
        if self.stride > 2 {
            return;
        }
        let Some(&start) = self.next.get(row) else {
            return;
        };
        let from = self.base.wrapping_add(start);
        let last = self.columns.saturating_sub(1) * self.stride;
        for at in (0..last).step_by(LINE).chain([last]) {
            fetch_line::<WRITE>(from.wrapping_add(at));
        }
    }

    /// Where the next tile's row in place of one begins; behind the last tile, that row itself.
    #[inline(always)]
    fn behind(&self, row: usize, start: usize) -> *const f32 {
        let next = self.next.get(row).copied().unwrap_or(start);
        self.base.wrapping_add(next)
    }

    /// A single row.
    pub fn one(base: *mut f32, columns: usize, stride: usize) -> Self {
        Rows {
            base,
            starts: &[0],
            next: &[],
            columns,
            stride,
            roomy: false,
        }
    }
}

/// As [`RowsFn`], for the elements at even places of memory and those at odd ones.
///
/// # Safety
/// As [`RowsFn`].
pub(in super::super) type PairsFn = unsafe fn(even: *mut f32, odd: *mut f32, memory: &Rows<'_>);

/// As [`RowsFn`], with every row so many times side by side in the tile.
///
/// # Safety
/// As [`RowsFn`].
pub(in super::super) type RepeatFn = unsafe fn(tile: *mut f32, memory: &Rows<'_>, times: usize);

/// The loops from memory to a tile and back.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RowMoves {
    pub gather: RowsFn,
    pub scatter: RowsFn,
    pub repeat: RepeatFn,
    pub gather_pairs: PairsFn,
    pub scatter_pairs: PairsFn,
}

/// The first `count` lanes into a tile.
///
/// # Safety
/// The memory must be there, for all lanes if it is `roomy`.
#[inline(always)]
unsafe fn put<L: Lanes>(value: L, to: *mut f32, count: usize, roomy: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if roomy || count == L::COUNT {
            value.store(to);
        } else {
            value.store_partial(to, count);
        }
    }
}

/// # Safety
/// As [`RowsFn`]; it must be inlined into a function compiled for the instruction set.
#[inline(always)]
unsafe fn gather<L: Lanes>(tile: *mut f32, memory: &Rows<'_>) {
    let Rows {
        columns, stride, ..
    } = *memory;
    if stride > 2 && columns > 1 {
        // SAFETY: the caller's promise.
        return unsafe { gather_far(tile, memory) };
    }
    let roomy = memory.roomy && columns > 1;
    for (row, &start) in memory.starts.iter().enumerate() {
        memory.fetch::<false>(row);
        // SAFETY: the caller's promise; parts stay within the columns.
        unsafe {
            let (from, to) = (memory.base.add(start), tile.add(row * columns));
            if columns == 1 {
                to.write(from.read());
                continue;
            }
            for i in (0..columns).step_by(L::COUNT) {
                let count = L::COUNT.min(columns - i);
                let value = match stride {
                    0 => L::splat(from.read()),
                    1 if count == L::COUNT => L::load(from.add(i)),
                    1 => L::load_partial(from.add(i), count),
                    _ => L::load_even(from.add(2 * i), count),
                };
                put(value, to.add(i), count, roomy);
            }
        }
    }
}

/// Rows whose elements lie apart, a few columns of all rows after the other: where the rows lie side
/// by side, as in a transpose, each line of memory then stays in the first-level cache until all its
/// elements are read.
///
/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn gather_far(tile: *mut f32, memory: &Rows<'_>) {
    /// As many lines as even a stride of 4 KiB leaves room for.
    const FEW: usize = 8;
    let Rows {
        columns, stride, ..
    } = *memory;
    for first in (0..columns).step_by(FEW) {
        let last = (first + FEW).min(columns);
        for (row, &start) in memory.starts.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (memory.base.add(start), tile.add(row * columns));
                (first..last).for_each(|i| to.add(i).write(from.add(i * stride).read()));
            }
        }
    }
}

/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn repeat<L: Lanes>(tile: *mut f32, memory: &Rows<'_>, times: usize) {
    let columns = memory.columns;
    for (row, &start) in memory.starts.iter().enumerate() {
        memory.fetch::<false>(row);
        for time in 0..times {
            // SAFETY: the caller's promise; vectors stay within the columns.
            unsafe {
                let from = memory.base.add(start);
                let to = tile.add((row * times + time) * columns);
                let Some(last) = columns.checked_sub(L::COUNT) else {
                    L::load_partial(from, columns).store_partial(to, columns);
                    continue;
                };
                for i in (0..last).step_by(L::COUNT) {
                    L::load(from.add(i)).store(to.add(i));
                }
                L::load(from.add(last)).store(to.add(last));
            }
        }
    }
}

/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn gather_pairs<L: Lanes>(even: *mut f32, odd: *mut f32, memory: &Rows<'_>) {
    let Rows { columns, roomy, .. } = *memory;
    for (row, &start) in memory.starts.iter().enumerate() {
        let next = memory.behind(row, start);
        // SAFETY: the caller's promise; parts stay within the columns.
        unsafe {
            let from = memory.base.add(start);
            for i in (0..columns).step_by(L::COUNT) {
                let count = L::COUNT.min(columns - i);
                fetch_pairs::<false>(next.wrapping_add(2 * i));
                // Whole vectors, as constants, need no masks.
                let (first, second) = match count == L::COUNT {
                    true => L::load_pairs(from.add(2 * i), L::COUNT),
                    false => L::load_pairs(from.add(2 * i), count),
                };
                put(first, even.add(row * columns + i), count, roomy);
                put(second, odd.add(row * columns + i), count, roomy);
            }
        }
    }
}

/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn scatter_pairs<L: Lanes>(even: *mut f32, odd: *mut f32, memory: &Rows<'_>) {
    let columns = memory.columns;
    let load = |from: *mut f32, count: usize| {
        // SAFETY: the tile has so many more elements.
        unsafe {
            match count == L::COUNT {
                true => L::load(from),
                false => L::load_partial(from, count),
            }
        }
    };
    for (row, &start) in memory.starts.iter().enumerate() {
        let next = memory.behind(row, start);
        // SAFETY: the caller's promise; parts stay within the columns.
        unsafe {
            let to = memory.base.add(start);
            for i in (0..columns).step_by(L::COUNT) {
                let count = L::COUNT.min(columns - i);
                fetch_pairs::<true>(next.wrapping_add(2 * i));
                let first = load(even.add(row * columns + i), count);
                let second = load(odd.add(row * columns + i), count);
                // As above.
                match count == L::COUNT {
                    true => first.store_pairs(second, to.add(2 * i), L::COUNT),
                    false => first.store_pairs(second, to.add(2 * i), count),
                }
            }
        }
    }
}

/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn scatter<L: Lanes>(tile: *mut f32, memory: &Rows<'_>) {
    let Rows {
        columns, stride, ..
    } = *memory;
    for (row, &start) in memory.starts.iter().enumerate() {
        memory.fetch::<true>(row);
        // SAFETY: the caller's promise; parts stay within the columns.
        unsafe {
            let (from, to) = (tile.add(row * columns), memory.base.add(start));
            let mut i = 0;
            match stride {
                1 => {
                    while i + L::COUNT <= columns {
                        L::load(from.add(i)).store(to.add(i));
                        i += L::COUNT;
                    }
                    if i < columns {
                        L::load_partial(from.add(i), columns - i)
                            .store_partial(to.add(i), columns - i);
                    }
                }
                2 => {
                    while i + L::COUNT <= columns {
                        L::load(from.add(i)).store_even(to.add(2 * i), L::COUNT);
                        i += L::COUNT;
                    }
                    if i < columns {
                        let rest = columns - i;
                        L::load_partial(from.add(i), rest).store_even(to.add(2 * i), rest);
                    }
                }
                _ => (0..columns).for_each(|i| to.add(i * stride).write(from.add(i).read())),
            }
        }
    }
}

/// The loops of one instruction set, as a module.
macro_rules! instantiate {
    ($module:ident, $lanes:ty $(, #[$features:meta])?) => {
        mod $module {
            use super::*;

            $(#[$features])?
            unsafe fn gathered(tile: *mut f32, memory: &Rows<'_>) {
                // SAFETY: the caller's promise.
                unsafe { gather::<$lanes>(tile, memory) }
            }

            $(#[$features])?
            unsafe fn scattered(tile: *mut f32, memory: &Rows<'_>) {
                // SAFETY: the caller's promise.
                unsafe { scatter::<$lanes>(tile, memory) }
            }

            $(#[$features])?
            unsafe fn repeated(tile: *mut f32, memory: &Rows<'_>, times: usize) {
                // SAFETY: the caller's promise.
                unsafe { repeat::<$lanes>(tile, memory, times) }
            }

            $(#[$features])?
            unsafe fn pairs_gathered(even: *mut f32, odd: *mut f32, memory: &Rows<'_>) {
                // SAFETY: the caller's promise.
                unsafe { gather_pairs::<$lanes>(even, odd, memory) }
            }

            $(#[$features])?
            unsafe fn pairs_scattered(even: *mut f32, odd: *mut f32, memory: &Rows<'_>) {
                // SAFETY: the caller's promise.
                unsafe { scatter_pairs::<$lanes>(even, odd, memory) }
            }

            pub(super) const MOVES: RowMoves = RowMoves {
                gather: gathered,
                scatter: scattered,
                repeat: repeated,
                gather_pairs: pairs_gathered,
                scatter_pairs: pairs_scattered,
            };
        }
    };
}

instantiate!(portable, Portable);
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx2,
    super::super::avx2::Avx2,
    #[target_feature(enable = "avx2,fma")]
);
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx512,
    super::super::avx512::Avx512,
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
);

impl InstructionSet {
    /// How it moves rows.
    pub(in super::super) fn row_moves(self) -> RowMoves {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::MOVES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::MOVES,
            Self::Portable => portable::MOVES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_there_and_back() {
        let memory: Vec<f32> = (0..4096).map(|i| i as f32).collect();
        for set in InstructionSet::available() {
            for columns in 1..40 {
                for stride in 0..4 {
                    let starts = [0, 7, columns * stride + 90, 1000];
                    let mut tile = vec![-1.0; starts.len() * columns + 1];
                    let mut copy = memory.clone();
                    let rows = Rows {
                        base: copy.as_mut_ptr(),
                        starts: &starts,
                        next: &starts[1..],
                        columns,
                        stride,
                        roomy: false,
                    };
                    // SAFETY: the memory holds all rows, the tile too.
                    unsafe { (set.row_moves().gather)(tile.as_mut_ptr(), &rows) };
                    for (row, start) in starts.iter().enumerate() {
                        for column in 0..columns {
                            let expected = (start + column * stride) as f32;
                            assert_eq!(tile[row * columns + column], expected, "{set:?} {stride}");
                        }
                    }
                    assert_eq!(tile.pop(), Some(-1.0));
                    if stride == 0 {
                        continue;
                    }
                    tile.iter_mut().for_each(|value| *value += 10_000.0);
                    let far = [2000, 2000 + columns * stride];
                    let rows = Rows {
                        starts: &far,
                        ..rows
                    };
                    // SAFETY: as above.
                    unsafe { (set.row_moves().scatter)(tile.as_mut_ptr(), &rows) };
                    for (at, &value) in copy.iter().enumerate() {
                        let from = at.checked_sub(2000).filter(|from| from % stride == 0);
                        let index = from.map(|from| from / stride);
                        let expected = match index.filter(|index| *index < 2 * columns) {
                            Some(index) => tile[index],
                            None => at as f32,
                        };
                        assert_eq!(value, expected, "{set:?} {columns} by {stride} at {at}");
                    }
                }
            }
        }
    }
    #[test]
    fn pairs_go_there_and_back() {
        for set in InstructionSet::available() {
            for columns in 1..40 {
                let mut memory: Vec<f32> = (0..1000).map(|i| i as f32).collect();
                let starts = [3, 3 + 2 * columns, 400];
                let length = starts.len() * columns;
                let (mut even, mut odd) = (vec![-1.0; length + 16], vec![-1.0; length + 16]);
                let rows = Rows {
                    base: memory.as_mut_ptr(),
                    starts: &starts,
                    next: &[],
                    columns,
                    stride: 2,
                    roomy: columns % 2 == 0,
                };
                let moves = set.row_moves();
                // SAFETY: the memory holds all rows, and the tiles have room for a vector more.
                unsafe { (moves.gather_pairs)(even.as_mut_ptr(), odd.as_mut_ptr(), &rows) };
                for index in 0..length {
                    let at = starts[index / columns] + 2 * (index % columns);
                    assert_eq!((even[index], odd[index]), (at as f32, at as f32 + 1.0));
                }
                assert!(rows.roomy || even[length] == -1.0);
                for value in even.iter_mut().chain(&mut odd) {
                    *value = -*value;
                }
                // SAFETY: as above.
                unsafe { (moves.scatter_pairs)(even.as_mut_ptr(), odd.as_mut_ptr(), &rows) };
                for (at, &value) in memory.iter().enumerate() {
                    let of_row = |start: &usize| (*start..start + 2 * columns).contains(&at);
                    let sign = if starts.iter().any(of_row) { -1.0 } else { 1.0 };
                    assert_eq!(value, sign * at as f32, "{set:?} {columns}");
                }
            }
        }
    }
}
