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
