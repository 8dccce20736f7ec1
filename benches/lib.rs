//! Benchmarks; see the files beside this one and `cargo bench -p meganeura-benches`.

use meganeura::runtime::cpu::Pool;
use std::error::Error;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

/// What a benchmark is told: the number after `--threads` (two without one) and all else.
///
/// # Errors
/// Where no positive number stands after `--threads`.
pub fn arguments() -> Result<(NonZeroUsize, Vec<String>), Box<dyn Error>> {
    let mut threads = NonZeroUsize::new(2).expect("two");
    let mut others = Vec::new();
    // What cargo itself says is left out.
    let mut given = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = given.next() {
        if word == "--threads" {
            let number = given.next().ok_or("--threads takes a number")?;
            threads = number.parse()?;
        } else {
            others.push(word);
        }
    }
    Ok((threads, others))
}

/// Independent sums, enough for the latency of the instruction.
const CHAINS: usize = 12;

/// GFLOP/s of fused multiply-adds on registers alone, all threads together.
pub fn peak(pool: &Pool) -> f64 {
    const STEPS: usize = 200_000;
    // A tenth of a second: a new thread may have to move to a core of its own first.
    let mut best = f64::INFINITY;
    for _ in 0..400 {
        let begin = Instant::now();
        pool.run(pool.threads(), |_, _| {
            black_box(multiply_add_chains(STEPS));
        });
        best = best.min(begin.elapsed().as_secs_f64());
    }
    (2 * CHAINS * 16 * STEPS * pool.threads()) as f64 / best / 1e9
}

/// Runs twelve chains of sixteen lanes.
fn multiply_add_chains(steps: usize) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: just detected.
            return unsafe { chains_avx512(steps) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: just detected.
            return unsafe { chains_avx2(steps) };
        }
    }
    let mut sums = [[1.0_f32; 16]; CHAINS];
    let (a, b) = (black_box(0.999_f32), black_box(0.001_f32));
    for _ in 0..steps {
        sums.iter_mut().flatten().for_each(|sum| *sum += a * b);
    }
    sums.iter().flatten().sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn chains_avx512(steps: usize) -> f32 {
    use std::arch::x86_64::{_mm512_add_ps, _mm512_fmadd_ps, _mm512_reduce_add_ps, _mm512_set1_ps};
    let (a, b) = (
        _mm512_set1_ps(black_box(0.999)),
        _mm512_set1_ps(black_box(0.001)),
    );
    let mut sums = [a; CHAINS];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, a, b);
        }
    }
    _mm512_reduce_add_ps(
        sums.into_iter()
            .fold(a, |total, sum| _mm512_add_ps(total, sum)),
    )
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn chains_avx2(steps: usize) -> f32 {
    use std::arch::x86_64::{_mm256_add_ps, _mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps};
    let (a, b) = (
        _mm256_set1_ps(black_box(0.999)),
        _mm256_set1_ps(black_box(0.001)),
    );
    let mut sums = [a; CHAINS];
    for _ in 0..2 * steps {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, a, b);
        }
    }
    _mm256_cvtss_f32(
        sums.into_iter()
            .fold(a, |total, sum| _mm256_add_ps(total, sum)),
    )
}
