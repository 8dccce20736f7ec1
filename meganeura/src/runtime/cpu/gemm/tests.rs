//! Every instruction set against a product in `f64`, over ragged sizes and all layouts.

mod choices;

use super::kernel::{self, Kernels};
use super::*;
use std::sync::Mutex;

/// Numbers in [-1, 1) that are the same every time.
fn random(length: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn rounded(values: &[f32], precision: Precision) -> Vec<f32> {
    values.iter().map(|&value| precision.round(value)).collect()
}

/// All kernels that this CPU can run.
fn all_kernels() -> Vec<&'static Kernels> {
    let of = kernel::available;
    [of(Precision::F32), of(Precision::BF16)].concat()
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    RowMajor,
    ColumnMajor,
    /// Rows with a gap between them.
    Padded,
    /// Columns with a gap between them.
    PaddedColumns,
    /// Neither rows nor columns are contiguous.
    Sparse,
}

const LAYOUTS: [Layout; 5] = [
    Layout::RowMajor,
    Layout::ColumnMajor,
    Layout::Padded,
    Layout::PaddedColumns,
    Layout::Sparse,
];

impl Layout {
    fn strides(self, rows: usize, columns: usize) -> [usize; 2] {
        match self {
            Self::RowMajor => [columns, 1],
            Self::ColumnMajor => [1, rows],
            Self::Padded => [columns + 5, 1],
            Self::PaddedColumns => [1, rows + 3],
            Self::Sparse => [2 * columns + 1, 2],
        }
    }

    /// The floats of one matrix, with nothing behind the last element.
    fn length(self, rows: usize, columns: usize) -> usize {
        if rows == 0 || columns == 0 {
            return 0;
        }
        let [row, column] = self.strides(rows, columns);
        (rows - 1) * row + (columns - 1) * column + 1
    }
}

/// A problem with operands and the product in `f64`, row-major.
struct Case {
    batch: Vec<usize>,
    size: [usize; 3],
    a: (Layout, Vec<f32>),
    b: (Layout, Vec<f32>),
    product: Vec<f64>,
}

impl Case {
    fn new(batch: &[usize], size: [usize; 3], a: Layout, b: Layout) -> Self {
        let [m, n, k] = size;
        let batches: usize = batch.iter().product();
        let a_data = random(batches * a.length(m, k), 1 + m as u64);
        let b_data = random(batches * b.length(k, n), 1000 + n as u64);
        Self {
            batch: batch.to_vec(),
            size,
            a: (a, a_data),
            b: (b, b_data),
            product: Vec::new(),
        }
        .multiplied()
    }

    /// The same with the product of its operands.
    fn multiplied(self) -> Self {
        let ([m, n, k], (a, a_data), (b, b_data)) = (self.size, &self.a, &self.b);
        let mut product = Vec::new();
        for index in 0..self.batch.iter().product() {
            let (a_at, b_at) = (index * a.length(m, k), index * b.length(k, n));
            let ([ar, ac], [br, bc]) = (a.strides(m, k), b.strides(k, n));
            for i in 0..m {
                for j in 0..n {
                    let term = |d: usize| {
                        f64::from(a_data[a_at + i * ar + d * ac])
                            * f64::from(b_data[b_at + d * br + j * bc])
                    };
                    product.push((0..k).map(term).sum());
                }
            }
        }
        Self { product, ..self }
    }

    /// The same with operands as exact as this.
    fn rounded(&self, precision: Precision) -> Self {
        Self {
            batch: self.batch.clone(),
            a: (self.a.0, rounded(&self.a.1, precision)),
            b: (self.b.0, rounded(&self.b.1, precision)),
            product: Vec::new(),
            ..*self
        }
        .multiplied()
    }

    fn batch_strides(&self, length: usize) -> Vec<usize> {
        let mut strides = vec![length; self.batch.len()];
        for axis in (1..self.batch.len()).rev() {
            strides[axis - 1] = strides[axis] * self.batch[axis];
        }
        strides
    }

    /// Calls a function with the problem.
    fn with<R>(&self, f: impl FnOnce(&Problem<'_>) -> R) -> R {
        let [m, n, k] = self.size;
        let a_strides = self.batch_strides(self.a.0.length(m, k));
        let b_strides = self.batch_strides(self.b.0.length(k, n));
        let a = Matrix::new(&self.a.1, self.a.0.strides(m, k)).batched(&a_strides);
        let b = Matrix::new(&self.b.1, self.b.0.strides(k, n)).batched(&b_strides);
        let (a, b) = (Operand::Memory(a), Operand::Memory(b));
        let problem = Problem::new(&self.batch, self.size, a, b);
        f(&problem.expect("the operands fit"))
    }

    /// The result in memory of some layout, over what is there; row-major.
    fn stored(&self, kernels: &'static Kernels, pool: &Pool, c: Layout, add: bool) -> Vec<f32> {
        let [m, n, _] = self.size;
        let length = c.length(m, n);
        let batches: usize = self.batch.iter().product();
        let mut data = vec![0.25; batches * length];
        let strides = self.batch_strides(length);
        let target = Target::new(&mut data, c.strides(m, n)).batched(&strides);
        let output = if add {
            Output::Add(target)
        } else {
            Output::Store(target)
        };
        self.with(|problem| gemm_with(kernels, pool, problem, output, None))
            .expect("the output fits");
        let [row, column] = c.strides(m, n);
        let mut result = Vec::new();
        for index in 0..batches {
            for i in 0..m {
                result.extend((0..n).map(|j| data[index * length + i * row + j * column]));
            }
        }
        result
    }

    /// The result by tiles, each element of which must come once; row-major.
    fn tiled(&self, kernels: &'static Kernels, pool: &Pool) -> Vec<f32> {
        let [m, n, _] = self.size;
        let result = Mutex::new(vec![None; self.product.len()]);
        self.with(|problem| {
            let collect = |mut tile: Tile<'_>| {
                assert!(tile.worker < pool.threads());
                let mut result = result.lock().unwrap();
                for i in 0..tile.rows.len() {
                    let begin = (tile.batch * m + tile.rows.start + i) * n + tile.columns.start;
                    for (j, value) in tile.row(i).iter().enumerate() {
                        assert_eq!(result[begin + j].replace(*value), None, "came twice");
                    }
                }
            };
            gemm_with(kernels, pool, problem, Output::Tiles(&collect), None)
        })
        .expect("tiles always fit");
        let result = result.into_inner().unwrap();
        result
            .into_iter()
            .map(|value| value.expect("came once"))
            .collect()
    }

    fn assert_close(&self, result: &[f32], offset: f64, context: &str) {
        assert_eq!(result.len(), self.product.len());
        let tolerance = 1e-6 * (self.size[2] as f64).sqrt() * 4.0 + 1e-6;
        for (index, (&result, &expected)) in result.iter().zip(&self.product).enumerate() {
            let error = (f64::from(result) - expected - offset).abs();
            assert!(
                error <= tolerance,
                "{context}: {result} instead of {expected} + {offset} at {index} of {:?}, {:?} x {:?}",
                self.size,
                self.a.0,
                self.b.0,
            );
        }
    }
}

/// Whether two results are the same to the last bit.
fn assert_same(left: &[f32], right: &[f32], context: &str) {
    assert_eq!(left.len(), right.len(), "{context}");
    let same = |(left, right): (&f32, &f32)| left.to_bits() == right.to_bits();
    let different = left.iter().zip(right).position(|pair| !same(pair));
    assert_eq!(different, None, "{context}: index of the first difference");
}

/// Everything that can be said of one case.
fn check(case: &Case, pools: &[Pool], layouts: &[Layout]) {
    check_kernels(kernel::available(Precision::F32), case, pools, layouts);
    let rounded = case.rounded(Precision::BF16);
    let kernels = kernel::available(Precision::BF16);
    if !case.with(dot::suits) {
        for kernels in &kernels {
            let [given, rounded] = [case, &rounded].map(|case| case.tiled(kernels, &pools[0]));
            assert_same(&given, &rounded, kernels.name);
        }
    }
    // Where results go has nothing to do with what operands are.
    check_kernels(kernels, &rounded, &pools[..2], &layouts[..1]);
}

fn check_kernels(kernels: Vec<&'static Kernels>, case: &Case, pools: &[Pool], layouts: &[Layout]) {
    for kernels in kernels {
        let reference = case.tiled(kernels, &pools[0]);
        case.assert_close(&reference, 0.0, kernels.name);
        for pool in pools {
            let context = format!("{}, {} threads", kernels.name, pool.threads());
            assert_same(&case.tiled(kernels, pool), &reference, &context);
            for &layout in layouts {
                let context = format!("{context}, to {layout:?}");
                let stored = case.stored(kernels, pool, layout, false);
                case.assert_close(&stored, 0.0, &context);
                let one = case.stored(kernels, &pools[0], layout, false);
                assert_same(&stored, &one, &context);
                let added = case.stored(kernels, pool, layout, true);
                case.assert_close(&added, 0.25, &context);
                let one = case.stored(kernels, &pools[0], layout, true);
                assert_same(&added, &one, &context);
            }
        }
    }
}

fn pools() -> [Pool; 3] {
    [1, 2, 3].map(Pool::new)
}

#[test]
fn ragged_sizes_in_all_layouts() {
    let pools = pools();
    let sizes = [
        [1, 1, 1],
        [3, 5, 7],
        [14, 32, 16],
        [15, 33, 17],
        [29, 70, 40],
        [61, 47, 130],
    ];
    for size in sizes {
        for a in LAYOUTS {
            for b in LAYOUTS {
                check(&Case::new(&[], size, a, b), &pools, &LAYOUTS);
            }
        }
    }
}

#[test]
fn skinny_sizes() {
    let pools = pools();
    for rows in (1..=16).chain([47, 48, 49]) {
        for columns in [1, 15, 16, 100, 300] {
            let case = Case::new(&[], [rows, columns, 33], Layout::RowMajor, Layout::RowMajor);
            check(&case, &pools, &[Layout::RowMajor]);
        }
    }
    for [m, n] in [[1, 257], [257, 1], [2, 200], [200, 3], [100, 10]] {
        for b in LAYOUTS {
            check(
                &Case::new(&[], [m, n, 100], Layout::RowMajor, b),
                &pools,
                &[Layout::RowMajor],
            );
        }
    }
}

#[test]
fn dot_products() {
    let pools = pools();
    for [m, n] in [
        [1, 1],
        [1, 700],
        [3, 50],
        [5, 7],
        [16, 9],
        [17, 12],
        [100, 10],
        [75, 1],
    ] {
        for depth in [192, 600] {
            for b in LAYOUTS {
                let case = Case::new(&[2], [m, n, depth], Layout::Padded, b);
                check(&case, &pools, &[Layout::RowMajor, Layout::Sparse]);
            }
        }
    }
}

#[test]
fn sizes_beyond_a_block() {
    let pools = pools();
    for size in [
        [130, 150, 1100],
        [530, 90, 600],
        [20, 1100, 530],
        [70, 600, 513],
    ] {
        for (a, b) in [
            (Layout::RowMajor, Layout::RowMajor),
            (Layout::RowMajor, Layout::ColumnMajor),
            (Layout::ColumnMajor, Layout::RowMajor),
            (Layout::ColumnMajor, Layout::ColumnMajor),
        ] {
            check(&Case::new(&[], size, a, b), &pools, &[Layout::RowMajor]);
        }
    }
}

#[test]
fn rows_a_power_of_two_apart() {
    let pools = pools();
    for (a, b) in [
        (Layout::RowMajor, Layout::RowMajor),
        (Layout::ColumnMajor, Layout::ColumnMajor),
    ] {
        check(
            &Case::new(&[], [512, 64, 512], a, b),
            &pools,
            &[Layout::RowMajor],
        );
    }
}

#[test]
fn batches() {
    let pools = pools();
    for size in [[7, 9, 11], [33, 65, 17], [64, 64, 520]] {
        for a in [Layout::RowMajor, Layout::ColumnMajor, Layout::Sparse] {
            let case = Case::new(&[2, 3], size, a, Layout::Padded);
            check(&case, &pools, &[Layout::RowMajor, Layout::ColumnMajor]);
        }
    }
}

#[test]
fn empty_sizes() {
    let pools = pools();
    for size in [[0, 3, 4], [3, 0, 4], [3, 4, 0], [0, 0, 0], [40, 50, 0]] {
        let case = Case::new(&[], size, Layout::RowMajor, Layout::RowMajor);
        check(&case, &pools, &LAYOUTS);
    }
    check(
        &Case::new(&[0], [3, 4, 5], Layout::RowMajor, Layout::RowMajor),
        &pools,
        &LAYOUTS,
    );
}

/// Repeats a matrix as an operand that is computed.
struct Copied {
    data: Vec<f32>,
    rows: usize,
    columns: usize,
}

impl Source for Copied {
    fn fill(&self, mut block: Tile<'_>) {
        for i in 0..block.rows.len() {
            let begin = (block.batch * self.rows + block.rows.start + i) * self.columns;
            let row = &self.data[begin..][block.columns.clone()];
            block.row(i).copy_from_slice(row);
        }
    }
}

#[test]
fn computed_operands() {
    let pools = pools();
    for size in [
        [5, 6, 7],
        [70, 90, 50],
        [150, 40, 600],
        [40, 550, 530],
        [33, 65, 0],
    ] {
        for [a_transposed, b_transposed] in
            [[false, false], [false, true], [true, false], [true, true]]
        {
            check_computed(size, a_transposed, b_transposed, &pools);
        }
    }
}

fn check_computed([m, n, k]: [usize; 3], a_transposed: bool, b_transposed: bool, pools: &[Pool]) {
    let layout = |transposed| {
        if transposed {
            Layout::ColumnMajor
        } else {
            Layout::RowMajor
        }
    };
    let case = Case::new(&[2], [m, n, k], layout(a_transposed), layout(b_transposed));
    let copied = |data: &[f32], rows, columns, transposed| Copied {
        data: data.to_vec(),
        rows: if transposed { columns } else { rows },
        columns: if transposed { rows } else { columns },
    };
    let a_copied = copied(&case.a.1, m, k, a_transposed);
    let b_copied = copied(&case.b.1, k, n, b_transposed);
    for kernels in all_kernels() {
        let plain = case.stored(kernels, &pools[0], Layout::RowMajor, false);
        for pool in pools {
            for which in 1..4 {
                let mut result = vec![f32::NAN; 2 * m * n];
                case.with(|problem| {
                    let mut problem = *problem;
                    if which & 1 != 0 {
                        let (source, transposed) = (&a_copied, a_transposed);
                        problem.a = Operand::Computed { source, transposed };
                    }
                    if which & 2 != 0 {
                        let (source, transposed) = (&b_copied, b_transposed);
                        problem.b = Operand::Computed { source, transposed };
                    }
                    let strides = [m * n];
                    let target = Target::new(&mut result, [n, 1]).batched(&strides);
                    gemm_with(kernels, pool, &problem, Output::Store(target), None).unwrap();
                });
                assert_same(&result, &plain, &format!("{} {m} {n} {k}", kernels.name));
            }
        }
    }
}

#[test]
fn tiles_are_wide() {
    let case = Case::new(&[], [200, 600, 80], Layout::RowMajor, Layout::RowMajor);
    let pool = Pool::new(2);
    case.with(|problem| {
        let wide = |tile: Tile<'_>| assert!(tile.columns.len() >= 64, "{:?}", tile.columns);
        gemm(&pool, problem, Output::Tiles(&wide)).unwrap();
    });
}

#[test]
fn not_a_number_is_kept() {
    // Padding must not reach the result, and zeros must not hide what they are multiplied with.
    for kernels in all_kernels() {
        let a = [f32::NAN, 0.0, 0.0, 1.0];
        let b = [0.0, 1.0, f32::INFINITY, 1.0];
        let mut c = [0.0; 4];
        let operand = |data| Operand::Memory(Matrix::new(data, [2, 1]));
        let problem = Problem::new(&[], [2, 2, 2], operand(&a), operand(&b)).unwrap();
        gemm_with(
            kernels,
            &Pool::new(1),
            &problem,
            Output::Store(Target::new(&mut c, [2, 1])),
            None,
        )
        .unwrap();
        assert!(c[0].is_nan() && c[1].is_nan());
        assert_eq!(c[2..], [f32::INFINITY, 1.0]);
    }
}

#[test]
fn operands_are_rounded_to_nearest() {
    // Beside one column of all kinds of numbers stands the identity.
    let large = f32::MAX;
    let numbers = [
        1.0 + 1.0 / 256.0,
        1.0 + 3.0 / 256.0,
        -1.0 - 1.000_1 / 256.0,
        3.0e-38,
        large,
        -large,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::from_bits(0x7f80_0001),
        f32::from_bits(0xffff_ffff),
        -0.0,
    ];
    let depth = numbers.len();
    for kernels in kernel::available(Precision::BF16) {
        for strides in [[1, depth], [depth, 1], [2, 7 * depth]] {
            // Each number in a row of its own: what is not finite would spoil others.
            for (index, &number) in numbers.iter().enumerate() {
                let mut a = vec![0.0; 20 * depth * depth];
                for row in 0..depth {
                    a[row * strides[0] + row * strides[1]] =
                        if row == index { number } else { 1.0 };
                }
                let b = vec![1.0; depth];
                let mut c = vec![0.0; depth];
                let a = Operand::Memory(Matrix::new(&a, strides));
                let b = Operand::Memory(Matrix::new(&b, [1, 1]));
                let problem = Problem::new(&[], [depth, 1, depth], a, b).unwrap();
                let output = Output::Store(Target::new(&mut c, [1, 1]));
                gemm_with(kernels, &Pool::new(1), &problem, output, None).unwrap();
                let expected = Precision::BF16.round(number);
                let same = c[index] == expected || c[index].is_nan() && expected.is_nan();
                assert!(same, "{}: {number} became {}", kernels.name, c[index]);
                c.remove(index);
                assert!(c.iter().all(|&other| other == 1.0));
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let data = [0.0; 10];
    let operand = |strides| Operand::Memory(Matrix::new(&data, strides));
    let problem = |size, a, b| Problem::new(&[], size, operand(a), operand(b));
    assert!(problem([2, 2, 5], [5, 1], [2, 1]).is_ok());
    let error = problem([2, 2, 5], [6, 1], [2, 1]).err();
    let operand_name = "the left operand";
    assert_eq!(
        error,
        Some(GemmError::OutOfBounds {
            operand: operand_name,
            has: 10
        })
    );
    assert!(problem([2, 2, 5], [5, 1], [usize::MAX, 1]).is_err());
    assert!(problem([2, 3, 5], [5, 1], [2, 1]).is_err());

    let problem = problem([2, 2, 5], [5, 1], [2, 1]).unwrap();
    let pool = Pool::new(1);
    let mut c = [0.0; 4];
    let mut store = |strides| gemm(&pool, &problem, Output::Store(Target::new(&mut c, strides)));
    assert!(store([2, 1]).is_ok());
    assert!(matches!(store([3, 1]), Err(GemmError::OutOfBounds { .. })));
    assert!(matches!(store([1, 1]), Err(GemmError::Overlap { .. })));
    assert!(matches!(store([0, 1]), Err(GemmError::Overlap { .. })));
    let batched = Matrix::new(&data, [0, 0]).batched(&[1, 1]);
    let error = Problem::new(
        &[2],
        [1, 1, 1],
        Operand::Memory(batched),
        Operand::Memory(batched),
    );
    assert!(matches!(error.err(), Some(GemmError::BatchStrides { .. })));
}

/// The axes of one side of an operand: sizes and strides.
type Axes<'a> = &'a [(usize, usize)];

fn offsets(axes: Axes<'_>) -> Vec<usize> {
    axes.iter().fold(vec![0], |starts, &(size, stride)| {
        let steps = |start: usize| (0..size).map(move |index| start + index * stride);
        starts.into_iter().flat_map(steps).collect()
    })
}

#[test]
fn compound_operands() {
    let pools = pools();
    // Windows of 3 in rows of 21, three images apart 500: rows of 19, overlapping.
    let windows: [Axes<'_>; 2] = [&[(3, 500), (7, 21), (19, 1)], &[(4, 147), (3, 21), (3, 1)]];
    let heads: [Axes<'_>; 2] = [&[(2, 600), (70, 5)], &[(3, 200), (5, 1)]];
    let sparse: [Axes<'_>; 2] = [&[(5, 7), (3, 50)], &[(11, 2), (2, 40)]];
    for [rows, columns] in [windows, heads, sparse] {
        for [rows, columns] in [[rows, columns], [columns, rows]] {
            check_compound(rows, columns, &pools, Precision::F32);
            check_compound(rows, columns, &pools, Precision::BF16);
        }
    }
}

fn check_compound(rows: Axes<'_>, depth: Axes<'_>, pools: &[Pool], precision: Precision) {
    let data = rounded(&random(2000 + 31, 5), precision);
    let (row_at, depth_at) = (offsets(rows), offsets(depth));
    let batch = [(2, 31)];
    let (m, k) = (row_at.len(), depth_at.len());
    for n in [1, 20, 70] {
        let other = rounded(&random(k * n, 6), precision);
        let mut expected = Vec::new();
        for index in 0..2 {
            for row in &row_at {
                expected.extend((0..n).map(|j| {
                    let term = |d: usize| {
                        f64::from(data[index * 31 + row + depth_at[d]])
                            * f64::from(other[d * n + j])
                    };
                    (0..k).map(term).sum::<f64>()
                }));
            }
        }
        let near = |(result, expected): (&f32, &f64)| {
            (f64::from(*result) - expected).abs() < 1e-5 * (k as f64).sqrt() + 1e-6
        };
        let plain = Operand::Memory(Matrix::new(&other, [n, 1]));
        let (left, right) = (
            Addresses::new(&batch, rows, depth),
            Addresses::new(&batch, depth, rows),
        );
        let (left, right) = (left.of(&data).unwrap(), right.of(&data).unwrap());
        let sizes = [2];
        let problem = Problem::new(&sizes, [m, n, k], left.operand(), plain).unwrap();
        let turned = Problem::new(&sizes, [n, m, k], plain.transposed(), right.operand()).unwrap();
        for kernels in kernel::available(precision) {
            for pool in pools {
                for (problem, strides) in [(&problem, [n, 1]), (&turned, [1, n])] {
                    let mut result = vec![f32::NAN; expected.len()];
                    let apart = [m * n];
                    let target = Target::new(&mut result, strides).batched(&apart);
                    gemm_with(kernels, pool, problem, Output::Store(target), None).unwrap();
                    assert!(result.iter().zip(&expected).all(near), "{rows:?} {depth:?}");
                    check_tiles(kernels, pool, problem, &result, strides);
                }
            }
        }
    }
}

/// The same by tiles, to the last bit.
fn check_tiles(
    kernels: &'static Kernels,
    pool: &Pool,
    problem: &Problem<'_>,
    expected: &[f32],
    [row, column]: [usize; 2],
) {
    let [m, n, _] = problem.size;
    let result = Mutex::new(vec![f32::NAN; expected.len()]);
    let collect = |mut tile: Tile<'_>| {
        let mut result = result.lock().unwrap();
        for i in 0..tile.rows.len() {
            let begin = tile.batch * m * n + (tile.rows.start + i) * row;
            for j in 0..tile.columns.len() {
                let at = begin + (tile.columns.start + j) * column;
                assert!(result[at].is_nan(), "came twice");
                result[at] = tile.row(i)[j];
            }
        }
    };
    gemm_with(kernels, pool, problem, Output::Tiles(&collect), None).unwrap();
    assert_same(&result.into_inner().unwrap(), expected, kernels.name);
}
