//! Every instruction set against a product in `f64`, over ragged sizes and all layouts.

mod case;
mod choices;
mod operands;

use super::kernel::{self, Kernels};
use super::*;
use case::{Case, LAYOUTS, Layout};

/// All kernels that this CPU can run.
fn all_kernels() -> Vec<&'static Kernels> {
    let of = kernel::available;
    [of(Precision::F32), of(Precision::BF16)].concat()
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
