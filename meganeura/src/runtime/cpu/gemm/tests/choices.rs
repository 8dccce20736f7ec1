//! Whatever is chosen, results are right and the same to the last bit.

use super::super::space::Matter;
use super::super::split::{Grid, WIDEST};
use super::case::random;
use super::*;
use crate::ir::Precision;
use std::sync::Mutex;

/// The result as was chosen, by tiles or in memory of a layout; row-major.
fn computed(
    case: &Case,
    kernels: &'static Kernels,
    pool: &Pool,
    c: Wanted,
    by: &Choice,
) -> Vec<f32> {
    let [m, n, _] = case.size;
    let batches: usize = case.batch.iter().product();
    let Wanted::Memory(layout) = c else {
        let result = Mutex::new(vec![None; case.product.len()]);
        let collect = |mut tile: Tile<'_>| {
            let mut result = result.lock().expect("no tile has failed");
            for (i, row) in tile.rows.clone().enumerate() {
                for (j, column) in tile.columns.clone().enumerate() {
                    let place = &mut result[(tile.batch * m + row) * n + column];
                    assert_eq!(place.replace(tile.row(i)[j]), None, "comes once");
                }
            }
        };
        case.with(|problem| {
            let problem = match c {
                Wanted::Blocks => problem.in_blocks_of_rows(32),
                _ => *problem,
            };
            gemm_with(kernels, pool, &problem, Output::Tiles(&collect), Some(by))
        })
        .expect("tiles have no layout");
        let result = result.into_inner().expect("no tile has failed");
        return result
            .into_iter()
            .map(|value| value.expect("comes once"))
            .collect();
    };
    let length = layout.length(m, n);
    let mut data = vec![f32::NAN; batches * length];
    let strides = case.batch_strides(length);
    let target = Target::new(&mut data, layout.strides(m, n)).batched(&strides);
    case.with(|problem| gemm_with(kernels, pool, problem, Output::Store(target), Some(by)))
        .expect("the output fits");
    let [row, column] = layout.strides(m, n);
    let all = (0..batches * m * n).map(|index| {
        let (batch, i, j) = (index / (m * n), index / n % m, index % n);
        data[batch * length + i * row + j * column]
    });
    all.collect()
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Tiles,
    /// Tiles within blocks of rows.
    Blocks,
    Memory(Layout),
}

const WANTED: [Wanted; 5] = [
    Wanted::Tiles,
    Wanted::Blocks,
    Wanted::Memory(Layout::RowMajor),
    Wanted::Memory(Layout::PaddedColumns),
    Wanted::Memory(Layout::Sparse),
];

impl Wanted {
    fn form(self) -> Form {
        match self {
            Wanted::Tiles | Wanted::Blocks => Form::Tiles,
            Wanted::Memory(layout) => Form::of_memory(layout.strides(3, 5)),
        }
    }
}

/// Choices that no rule would make.
fn odd() -> Vec<Choice> {
    let mut odd = Vec::new();
    let bits = random(4 * 12, 77);
    for bits in bits.chunks(4) {
        let number = |index: usize, most: usize| (bits[index].abs() * most as f32) as usize;
        odd.push(Choice {
            turned: bits[0] > 0.0,
            copied: [bits[1] > 0.0, bits[2] > 0.0],
            columns: [0, 1, 77, usize::MAX, number(3, WIDEST)][number(0, 5)],
            grid: Grid {
                rows: [0, 1, 1000, usize::MAX / 64, number(1, 9)][number(2, 5)],
                columns: [0, 1, 1000, usize::MAX / 64, number(2, 9)][number(1, 5)],
                row_by_row: bits[3] > 0.0,
            },
        });
    }
    odd
}

/// Every choice on the way from that of the rules, in each matter.
fn proposed(case: &Case, kernels: &'static Kernels, wanted: Wanted) -> Vec<Choice> {
    let (threads, form) = (2, wanted.form());
    case.with(|problem| {
        let rule = Choice::by_rules(kernels, threads, problem, form);
        let mut all = vec![rule];
        for matter in Matter::ALL {
            let last = all[all.len() - 1];
            all.extend(rule.others(matter, kernels, threads, problem, form));
            all.extend(last.others(matter, kernels, threads, problem, form));
        }
        all
    })
}

#[test]
fn every_choice_gives_the_same_bits() {
    let pools = [1, 3].map(Pool::new);
    // Cut in depth, skinny (by dot products), with many blocks of columns, and in batches.
    let sizes: [(&[usize], [usize; 3]); 5] = [
        (&[], [31, 47, 420]),
        (&[], [60, 10, 260]),
        (&[], [5, 60, 200]),
        (&[], [20, 1100, 18]),
        (&[3], [33, 65, 20]),
    ];
    let layouts = [
        [Layout::RowMajor, Layout::RowMajor],
        [Layout::ColumnMajor, Layout::ColumnMajor],
        [Layout::Sparse, Layout::Padded],
    ];
    let exact = kernel::available(Precision::F32);
    let rounded = kernel::available(Precision::BF16);
    for kernels in exact.into_iter().chain(rounded) {
        for (batch, size) in sizes {
            for [a, b] in layouts {
                let case = Case::new(batch, size, a, b);
                for wanted in WANTED {
                    let mut choices = proposed(&case, kernels, wanted);
                    choices.extend(odd());
                    let expected = computed(&case, kernels, &pools[0], wanted, &choices[0]);
                    if kernels.rounding.is_none() {
                        case.assert_close(&expected, 0.0, kernels.name);
                    }
                    for (index, choice) in choices.iter().enumerate() {
                        let pool = &pools[index % 2];
                        let result = computed(&case, kernels, pool, wanted, choice);
                        let context = format!("{size:?} {a:?} {b:?} {wanted:?} {choice}");
                        assert_same(&result, &expected, &context);
                    }
                }
            }
        }
    }
}

#[test]
fn choices_are_text() {
    for choice in odd() {
        assert_eq!(choice.to_string().parse(), Ok(choice));
    }
    let right = "turned copied:left width:64 parts:3x2:rows";
    assert_eq!(
        right.parse::<Choice>().map(|choice| choice.to_string()),
        Ok(right.to_owned())
    );
    for wrong in [
        "",
        "turned",
        "turned copied:left width:64 parts:3x2",
        "turned copied:left width:64 parts:3x2:rows ",
        "turned copied:left width:-1 parts:3x2:rows",
        "turned copied:left width:99999999999999999999999 parts:3x2:rows",
        "turned copied:up width:64 parts:3x2:rows",
        " copied:left width:64 parts:3x2:rows",
    ] {
        assert!(wrong.parse::<Choice>().is_err(), "{wrong:?}");
    }
}
