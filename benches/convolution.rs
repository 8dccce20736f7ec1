//! Convolutions as products that read windows where they lie, in all directions, beside the
//! measured peak of the hardware.
//!
//! `cargo bench -p meganeura-benches --bench convolution -- [THREADS]`: the fastest of many
//! rounds each (other programs only ever add time).

use meganeura::runtime::cpu::{
    Pool,
    gemm::{self, Addresses, Matrix, Operand, Output, Problem, Target},
};
use meganeura_benches::peak;
use std::time::{Duration, Instant};

/// `[images, channels, size, size]`, padded by one, with windows of 3 × 3.
#[derive(Clone, Copy)]
struct Case {
    images: usize,
    channels: usize,
    outputs: usize,
    size: usize,
}

impl Case {
    fn plane(self) -> usize {
        (self.size + 2) * (self.size + 2)
    }

    fn places(self) -> usize {
        self.size * self.size
    }

    fn depth(self) -> usize {
        9 * self.channels
    }

    fn image(self) -> (usize, usize) {
        (self.images, self.channels * self.plane())
    }

    /// Channels and the window's rows and columns.
    fn window(self) -> [(usize, usize); 3] {
        [(self.channels, self.plane()), (3, self.size + 2), (3, 1)]
    }

    /// Where windows stand.
    fn places_at(self) -> [(usize, usize); 2] {
        [(self.size, self.size + 2), (self.size, 1)]
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.find_map(|argument| argument.parse().ok());
    for threads in threads.map_or(vec![1, 2], |threads| vec![threads]) {
        let pool = Pool::new(threads);
        let peak = peak(&pool);
        println!("{threads} threads, peak {peak:.0} GFLOP/s");
        for (channels, outputs, size) in [(1, 32, 28), (32, 64, 14), (64, 32, 14)] {
            let case = Case {
                images: 64,
                channels,
                outputs,
                size,
            };
            let name = format!("{channels}->{outputs} at {size}x{size}");
            report(&format!("{name} forward"), case, peak, forward(case, &pool));
            report(&format!("{name} weight"), case, peak, weight(case, &pool));
        }
    }
}

fn report(name: &str, case: Case, peak: f64, seconds: f64) {
    let products = case.images * case.outputs * case.places() * case.depth();
    let rate = 2.0 * products as f64 / seconds / 1e9;
    println!(
        "{name:28} {rate:8.1} GFLOP/s {:5.1} % {:8.1} us",
        100.0 * rate / peak,
        1e6 * seconds
    );
}

fn numbers(length: usize) -> Vec<f32> {
    (0..length).map(|i| (i % 17) as f32 - 8.0).collect()
}

/// Seconds for the convolution: the weight on the left, a product for each image.
fn forward(case: Case, pool: &Pool) -> f64 {
    let (k, places) = (case.depth(), case.places());
    let x = numbers(case.images * case.channels * case.plane());
    let weight = numbers(case.outputs * k);
    let mut result = vec![0.0; case.images * case.outputs * places];
    let windows = Addresses::new(&[case.image()], &case.window(), &case.places_at());
    let windows = windows.of(&x).expect("the input holds its windows");
    let batch = [case.images];
    let left = Operand::Memory(Matrix::new(&weight, [k, 1]));
    let problem = Problem::new(&batch, [case.outputs, places, k], left, windows.operand());
    let problem = problem.expect("the operands fit");
    let apart = [case.outputs * places];
    fastest(|| {
        let target = Target::new(&mut result, [places, 1]).batched(&apart);
        gemm::gemm(pool, &problem, Output::Store(target)).expect("the output fits");
    })
}

/// Seconds for the weight's gradient, contracted over images and places.
fn weight(case: Case, pool: &Pool) -> f64 {
    let (k, places) = (case.depth(), case.places());
    let x = numbers(case.images * case.channels * case.plane());
    let gradient = numbers(case.images * case.outputs * places);
    let mut result = vec![0.0; case.outputs * k];
    let summed = [&[case.image()][..], &case.places_at()].concat();
    let windows = Addresses::new(&[], &summed, &case.window());
    let windows = windows.of(&x).expect("the input holds its windows");
    let image = (case.images, case.outputs * places);
    let left = Addresses::new(&[], &[(case.outputs, places)], &[image, (places, 1)]);
    let left = left.of(&gradient).expect("the gradient fits");
    let size = [case.outputs, k, case.images * places];
    let problem = Problem::new(&[], size, left.operand(), windows.operand());
    let problem = problem.expect("the operands fit");
    fastest(|| {
        let target = Target::new(&mut result, [k, 1]);
        gemm::gemm(pool, &problem, Output::Store(target)).expect("the output fits");
    })
}

/// The least seconds a call takes.
fn fastest(mut f: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    let all = Instant::now();
    while all.elapsed() < Duration::from_millis(1500) {
        let begin = Instant::now();
        f();
        least = least.min(begin.elapsed().as_secs_f64());
    }
    least
}
