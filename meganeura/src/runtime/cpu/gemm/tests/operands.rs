//! Operands that are more than a matrix in memory: computed, rounded, or of several axes.

use super::case::{random, rounded};
use super::*;
use std::sync::Mutex;

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
