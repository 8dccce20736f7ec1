use super::Shape;
use super::random::Stream;

/// How a parameter gets its first values.
///
/// Drawn by a counter-based generator from the seed, the parameter's name and the element's
/// index, so that the same seed gives the same numbers on every device.
/// `fan_in` is the product of all axes but the last, `fan_out` the last (weights are stored
/// `[in, out]`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// All the same.
    Constant(f32),
    /// Uniform in `low..high`.
    Uniform {
        /// Smallest value.
        low: f32,
        /// Largest value, excluded.
        high: f32,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f32,
        /// Standard deviation.
        std: f32,
    },
    /// Normal, redrawn outside ±2 standard deviations.
    TruncatedNormal {
        /// Mean.
        mean: f32,
        /// Standard deviation before truncation.
        std: f32,
    },
    /// Uniform ±√(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).
    XavierUniform,
    /// Normal with deviation √(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010).
    XavierNormal,
    /// Uniform ±√(6 / fan_in) (He et al., 2015).
    KaimingUniform,
    /// Normal with deviation √(2 / fan_in) (He et al., 2015).
    KaimingNormal,
    /// Rows or columns orthonormal (Saxe et al., 2013).
    Orthogonal,
}

impl Init {
    /// The first values of a variable, row-major.
    pub fn values(self, shape: &Shape, seed: u64, name: &str) -> Vec<f32> {
        let count = shape.elements();
        let stream = Stream::named(seed, name);
        let fan_out = shape.last() as f64;
        let fan_in = count as f64 / fan_out.max(1.0);
        // Drawn where they stay, by whole blocks.
        let drawn = |fill: fn(Stream, &mut [f32]), offset: f64, scale: f64| {
            let mut values = vec![0.0; count];
            fill(stream, &mut values);
            for value in &mut values {
                *value = (offset + scale * f64::from(*value)) as f32;
            }
            values
        };
        let uniform = |low: f64, high: f64| drawn(Stream::fill_uniform, low, high - low);
        let normal = |mean: f64, std: f64| drawn(Stream::fill_normal, mean, std);
        match self {
            Init::Zeros => vec![0.0; count],
            Init::Ones => vec![1.0; count],
            Init::Constant(value) => vec![value; count],
            Init::Uniform { low, high } => uniform(f64::from(low), f64::from(high)),
            Init::Normal { mean, std } => normal(f64::from(mean), f64::from(std)),
            Init::TruncatedNormal { mean, std } => (0..count as u64)
                .map(|i| mean + std * stream.truncated_normal(i, 2.0))
                .collect(),
            Init::XavierUniform => {
                let bound = (6.0 / (fan_in + fan_out)).sqrt();
                uniform(-bound, bound)
            }
            Init::XavierNormal => normal(0.0, (2.0 / (fan_in + fan_out)).sqrt()),
            Init::KaimingUniform => {
                let bound = (6.0 / fan_in.max(1.0)).sqrt();
                uniform(-bound, bound)
            }
            Init::KaimingNormal => normal(0.0, (2.0 / fan_in.max(1.0)).sqrt()),
            Init::Orthogonal => orthogonal(shape, stream),
        }
    }
}

/// Gram-Schmidt, twice, on normal vectors: along the shorter side of the matrix whose columns
/// are the last axis.
fn orthogonal(shape: &Shape, stream: Stream) -> Vec<f32> {
    let columns = shape.last().max(1);
    let rows = shape.elements() / columns;
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut vectors: Vec<Vec<f64>> = Vec::with_capacity(count);
    for vector in 0..count {
        let start = (vector * length) as u64;
        let mut drawn: Vec<f64> = (start..start + length as u64)
            .map(|i| f64::from(stream.normal(i)))
            .collect();
        for _ in 0..2 {
            for other in &vectors {
                let dot: f64 = drawn.iter().zip(other).map(|(a, b)| a * b).sum();
                drawn.iter_mut().zip(other).for_each(|(a, b)| *a -= dot * b);
            }
        }
        let norm = drawn.iter().map(|a| a * a).sum::<f64>().sqrt();
        drawn.iter_mut().for_each(|a| *a /= norm);
        vectors.push(drawn);
    }
    let element = |row: usize, column: usize| {
        if rows <= columns {
            vectors[row][column]
        } else {
            vectors[column][row]
        }
    };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(r, c)| element(r, c) as f32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orthogonal_vectors_are_orthonormal() {
        for dims in [[3, 5], [5, 3], [4, 4]] {
            let shape = Shape::from(dims);
            let values = Init::Orthogonal.values(&shape, 1, "w");
            let at = |r: usize, c: usize| f64::from(values[r * dims[1] + c]);
            let short = dims[0].min(dims[1]);
            for a in 0..short {
                for b in 0..short {
                    let dot: f64 = if dims[0] <= dims[1] {
                        (0..dims[1]).map(|c| at(a, c) * at(b, c)).sum()
                    } else {
                        (0..dims[0]).map(|r| at(r, a) * at(r, b)).sum()
                    };
                    assert!((dot - f64::from(u8::from(a == b))).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn fans_are_those_of_the_stored_layout() {
        // [in, out] = [200, 50]: Kaiming's bound is √(6/200), Xavier's √(6/250).
        let shape = Shape::from([200, 50]);
        let largest = |init: Init| {
            init.values(&shape, 7, "w")
                .into_iter()
                .fold(0f32, |a, x| a.max(x.abs()))
        };
        assert!((f64::from(largest(Init::KaimingUniform)) - (6.0f64 / 200.0).sqrt()).abs() < 1e-3);
        assert!((f64::from(largest(Init::XavierUniform)) - (6.0f64 / 250.0).sqrt()).abs() < 1e-3);
    }

    #[test]
    fn names_and_seeds_tell_parameters_apart() {
        let shape = Shape::from([64]);
        let normal = Init::Normal {
            mean: 0.0,
            std: 1.0,
        };
        assert_eq!(normal.values(&shape, 1, "a"), normal.values(&shape, 1, "a"));
        assert_ne!(normal.values(&shape, 1, "a"), normal.values(&shape, 1, "b"));
        assert_ne!(normal.values(&shape, 1, "a"), normal.values(&shape, 2, "a"));
    }
}
