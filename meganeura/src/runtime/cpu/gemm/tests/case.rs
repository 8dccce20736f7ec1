//! Products to check against: operands in memory of all layouts.

use super::*;
use std::sync::Mutex;

/// Numbers in [-1, 1) that are the same every time.
pub(super) fn random(length: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(length).collect()
}

pub(super) fn rounded(values: &[f32], precision: Precision) -> Vec<f32> {
    values.iter().map(|&value| precision.round(value)).collect()
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Layout {
    RowMajor,
    ColumnMajor,
    /// Rows with a gap between them.
    Padded,
    /// Columns with a gap between them.
    PaddedColumns,
    /// Neither rows nor columns are contiguous.
    Sparse,
}

pub(super) const LAYOUTS: [Layout; 5] = [
    Layout::RowMajor,
    Layout::ColumnMajor,
    Layout::Padded,
    Layout::PaddedColumns,
    Layout::Sparse,
];

impl Layout {
    pub(super) fn strides(self, rows: usize, columns: usize) -> [usize; 2] {
        match self {
            Self::RowMajor => [columns, 1],
            Self::ColumnMajor => [1, rows],
            Self::Padded => [columns + 5, 1],
            Self::PaddedColumns => [1, rows + 3],
            Self::Sparse => [2 * columns + 1, 2],
        }
    }

    /// The floats of one matrix, with nothing behind the last element.
    pub(super) fn length(self, rows: usize, columns: usize) -> usize {
        if rows == 0 || columns == 0 {
            return 0;
        }
        let [row, column] = self.strides(rows, columns);
        (rows - 1) * row + (columns - 1) * column + 1
    }
}

/// A problem with operands and the product in `f64`, row-major.
pub(super) struct Case {
    pub(super) batch: Vec<usize>,
    pub(super) size: [usize; 3],
    pub(super) a: (Layout, Vec<f32>),
    pub(super) b: (Layout, Vec<f32>),
    pub(super) product: Vec<f64>,
}

impl Case {
    pub(super) fn new(batch: &[usize], size: [usize; 3], a: Layout, b: Layout) -> Self {
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
    pub(super) fn rounded(&self, precision: Precision) -> Self {
        Self {
            batch: self.batch.clone(),
            a: (self.a.0, rounded(&self.a.1, precision)),
            b: (self.b.0, rounded(&self.b.1, precision)),
            product: Vec::new(),
            ..*self
        }
        .multiplied()
    }

    pub(super) fn batch_strides(&self, length: usize) -> Vec<usize> {
        let mut strides = vec![length; self.batch.len()];
        for axis in (1..self.batch.len()).rev() {
            strides[axis - 1] = strides[axis] * self.batch[axis];
        }
        strides
    }

    /// Calls a function with the problem.
    pub(super) fn with<R>(&self, f: impl FnOnce(&Problem<'_>) -> R) -> R {
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
    pub(super) fn stored(
        &self,
        kernels: &'static Kernels,
        pool: &Pool,
        c: Layout,
        add: bool,
    ) -> Vec<f32> {
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
    pub(super) fn tiled(&self, kernels: &'static Kernels, pool: &Pool) -> Vec<f32> {
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

    pub(super) fn assert_close(&self, result: &[f32], offset: f64, context: &str) {
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
