//! Attention as a kernel, in double precision and the plainest way. Who uses it says where
//! kernels come from.

use super::kernel::{Access, AttentionKernel, AttentionPass, DType};

/// The contents of buffers, whatever their type.
type Buffers = Vec<Vec<f64>>;

/// One query of a head of a batch.
#[derive(Clone, Copy)]
struct Query<'a> {
    kernel: &'a AttentionKernel,
    buffers: &'a Buffers,
    batch: usize,
    head: usize,
    query: usize,
}

/// A row of an access.
fn row(
    buffers: &Buffers,
    access: &Access,
    sizes: &[usize],
    [batch, first, second]: [usize; 3],
    columns: usize,
) -> Vec<f64> {
    let (mut rest, mut at) = (batch, access.offset);
    for (&size, &stride) in sizes.iter().zip(&access.strides).rev() {
        at += rest % size * stride;
        rest /= size;
    }
    at += first * access.strides[sizes.len()] + second * access.strides[sizes.len() + 1];
    let buffer = &buffers[access.buffer.index()];
    (0..columns)
        .map(|column| buffer[at + column * access.column_stride])
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Query<'_> {
    fn own(&self, access: &Access, columns: usize) -> Vec<f64> {
        let at = [self.batch, self.query, self.head];
        row(self.buffers, access, &self.kernel.batch, at, columns)
    }

    fn of_key(&self, access: &Access, key: usize, columns: usize) -> Vec<f64> {
        let at = [self.batch, key, self.head / self.kernel.group];
        row(self.buffers, access, &self.kernel.batch, at, columns)
    }

    fn score(&self, key: usize) -> f64 {
        let kernel = self.kernel;
        let distance = (self.query + kernel.keys) as i64 - (key + kernel.queries) as i64;
        let near = |window: usize| distance.unsigned_abs() < window as u64;
        if (kernel.causal && distance < 0) || !kernel.window.is_none_or(near) {
            return f64::NEG_INFINITY;
        }
        let query = self.own(&kernel.query, kernel.width);
        let key_row = self.of_key(&kernel.key, key, kernel.width);
        let score = dot(&query, &key_row) * f64::from(kernel.scale);
        let Some(mask) = &kernel.mask else {
            return score;
        };
        let at = [self.batch, self.head, self.query];
        let value = row(self.buffers, mask, &kernel.batch, at, kernel.keys)[key];
        match mask.dtype == DType::F32 {
            true => score + value,
            false if value == 0.0 => f64::NEG_INFINITY,
            false => score,
        }
    }

    fn probabilities(&self, normalizer: f64) -> Vec<f64> {
        (0..self.kernel.keys)
            .map(|key| match self.score(key) {
                f64::NEG_INFINITY => 0.0,
                score => (score - normalizer).exp(),
            })
            .collect()
    }

    fn normalizer(&self) -> f64 {
        let sum: f64 = (0..self.kernel.keys).map(|key| self.score(key).exp()).sum();
        if sum == 0.0 { f64::INFINITY } else { sum.ln() }
    }

    /// Which row of a result `[batch, time, heads, width]` belongs to it, or to a key it meets.
    fn place(&self, key: Option<usize>) -> usize {
        let (kernel, batch) = (self.kernel, self.batch);
        match key {
            None => (batch * kernel.queries + self.query) * kernel.heads + self.head,
            Some(key) => {
                (batch * kernel.keys + key) * kernel.key_heads() + self.head / kernel.group
            }
        }
    }
}

fn add(to: &mut [f64], row: usize, factor: f64, values: &[f64]) {
    for (index, value) in values.iter().enumerate() {
        to[row * values.len() + index] += factor * value;
    }
}

/// Run the kernel: everything is read before anything is written.
pub fn run(kernel: &AttentionKernel, buffers: &mut Buffers) {
    let old = buffers.clone();
    for buffer in kernel.results() {
        buffers[buffer.index()].fill(0.0);
    }
    for batch in 0..kernel.batch.iter().product() {
        for head in 0..kernel.heads {
            for query in 0..kernel.queries {
                let at = Query {
                    kernel,
                    buffers: &old,
                    batch,
                    head,
                    query,
                };
                one(&at, buffers);
            }
        }
    }
}

fn one(at: &Query<'_>, buffers: &mut Buffers) {
    let kernel = at.kernel;
    let value = |key| {
        let value = kernel.value.as_ref().expect("values");
        at.of_key(value, key, kernel.value_width)
    };
    match &kernel.pass {
        AttentionPass::Forward { output, normalizer } => {
            let sum = at.normalizer();
            if let Some(buffer) = normalizer {
                buffers[buffer.index()][at.place(None)] = sum;
            }
            if let Some(buffer) = output {
                for (key, weight) in at.probabilities(sum).into_iter().enumerate() {
                    let to = &mut buffers[buffer.index()];
                    add(to, at.place(None), weight, &value(key));
                }
            }
        }
        AttentionPass::Backward {
            upstream,
            normalizer,
            sums,
            query,
            key: key_gradient,
            value: value_gradient,
        } => {
            let upstream = at.own(upstream, kernel.value_width);
            let mean = at.own(sums, 1)[0];
            let weights = at.probabilities(at.own(normalizer, 1)[0]);
            for (key, weight) in weights.into_iter().enumerate() {
                let scale = f64::from(kernel.scale);
                let score = weight * (dot(&upstream, &value(key)) - mean) * scale;
                let products = [
                    (
                        query,
                        None,
                        score,
                        at.of_key(&kernel.key, key, kernel.width),
                    ),
                    (
                        key_gradient,
                        Some(key),
                        score,
                        at.own(&kernel.query, kernel.width),
                    ),
                    (value_gradient, Some(key), weight, upstream.clone()),
                ];
                for (buffer, place, factor, values) in products {
                    if let Some(buffer) = buffer {
                        add(
                            &mut buffers[buffer.index()],
                            at.place(place),
                            factor,
                            &values,
                        );
                    }
                }
            }
        }
    }
}
