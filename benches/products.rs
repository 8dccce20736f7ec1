//! Products by the crate `gemm`, and what it takes to time them.

use std::time::Instant;

/// Floats that begin at a cache line, as an executor's buffers do.
pub struct Aligned {
    memory: Vec<f32>,
    begin: usize,
}

impl Aligned {
    pub fn new(length: usize) -> Self {
        let memory: Vec<f32> = (0..length + 16).map(|i| (i % 17) as f32 - 8.0).collect();
        let begin = memory.as_ptr().align_offset(64).min(16);
        Self { memory, begin }
    }

    pub fn floats(&self) -> &[f32] {
        &self.memory[self.begin..]
    }

    pub fn floats_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.begin..]
    }
}

/// The least seconds a call takes, of a few in a row.
pub fn fastest(mut f: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..4 {
        let begin = Instant::now();
        f();
        least = least.min(begin.elapsed().as_secs_f64());
    }
    least
}

/// The same product by the peer.
pub fn theirs(
    [m, n, k]: [usize; 3],
    a: &[f32],
    [a_row, a_column]: [usize; 2],
    b: &[f32],
    [b_row, b_column]: [usize; 2],
    c: &mut [f32],
    threads: usize,
) {
    let parallelism = if threads == 1 {
        ::gemm::Parallelism::None
    } else {
        ::gemm::Parallelism::Rayon(threads)
    };
    let stride = |stride: usize| isize::try_from(stride).expect("a stride in memory");
    // SAFETY: the slices hold matrices of these sizes and strides.
    unsafe {
        ::gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            stride(n),
            false,
            a.as_ptr(),
            stride(a_column),
            stride(a_row),
            b.as_ptr(),
            stride(b_column),
            stride(b_row),
            0.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}
