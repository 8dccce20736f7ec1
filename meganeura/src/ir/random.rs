//! Counter-based random numbers: Philox4x32-10.
//!
//! Every number is a pure function of `(seed, stream, index)`. There is no state to carry, so
//! that the order in which numbers are drawn does not matter: threads and devices that share a
//! seed see the same numbers, and a run that resumes at step `n` continues the very sequence.
//!
//! The generator is Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
//! (SC 2011). It needs 32-bit integer arithmetic only, which a WGSL kernel has as well (the high
//! half of a product takes four 16-bit products there).
//!
//! A [`Stream`] hands out several kinds of numbers, all taken from the same words. Whoever needs
//! two independent sequences takes two streams instead of two ranges of one.

/// Multipliers of the two halves of the counter.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What each round adds to the key: the golden ratio and √3 − 1, as 32-bit fractions.
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Philox4x32-10: four random words for a 128-bit counter under a 64-bit key.
pub const fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    let mut round = 0;
    while round < ROUNDS {
        let (high0, low0) = widening_product(MULTIPLIERS[0], c0);
        let (high1, low1) = widening_product(MULTIPLIERS[1], c2);
        (c0, c1, c2, c3) = (high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0);
        k0 = k0.wrapping_add(KEY_STEPS[0]);
        k1 = k1.wrapping_add(KEY_STEPS[1]);
        round += 1;
    }
    [c0, c1, c2, c3]
}

/// A uniform number in [0, 1) of two floats that are no NaN: the first word of Philox4x32-10 for a
/// counter of their bits. Both zeros are one.
pub fn of_floats(a: f32, b: f32) -> f32 {
    let bits = |x: f32| if x == 0.0 { 0 } else { x.to_bits() };
    let [word, ..] = philox4x32([bits(a), bits(b), 0, 0], [0, 0]);
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// The high and the low half of `a · b`.
const fn widening_product(a: u32, b: u32) -> (u32, u32) {
    let product = a as u64 * b as u64;
    ((product >> 32) as u32, product as u32)
}

/// One of 2⁶⁴ independent sequences under a seed.
///
/// ```
/// use meganeura::ir::random::Stream;
///
/// let stream = Stream::named(42, "hidden.0.weight");
/// assert_eq!(stream.uniform(7), Stream::named(42, "hidden.0.weight").uniform(7));
/// assert_ne!(stream.uniform(7), Stream::named(43, "hidden.0.weight").uniform(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    seed: u64,
    stream: u64,
}

impl Stream {
    /// The sequence numbered `stream` under `seed`.
    pub const fn new(seed: u64, stream: u64) -> Self {
        Self { seed, stream }
    }

    /// The sequence that belongs to `name`, such as a parameter's path. The name's number is its
    /// 64-bit FNV-1a hash, so that adding a parameter leaves the numbers of the others alone.
    pub const fn named(seed: u64, name: &str) -> Self {
        let bytes = name.as_bytes();
        let mut hash = 0xCBF2_9CE4_8422_2325_u64;
        let mut position = 0;
        while position < bytes.len() {
            hash = (hash ^ bytes[position] as u64).wrapping_mul(0x0000_0100_0000_01B3);
            position += 1;
        }
        Self::new(seed, hash)
    }

    /// The four words at `index`: the seed is the key, `index` the counter's low half and the
    /// stream its high half.
    pub const fn block(self, index: u64) -> [u32; 4] {
        let counter = [
            index as u32,
            (index >> 32) as u32,
            self.stream as u32,
            (self.stream >> 32) as u32,
        ];
        philox4x32(counter, [self.seed as u32, (self.seed >> 32) as u32])
    }

    /// The word at `index`: each block holds four.
    pub const fn bits(self, index: u64) -> u32 {
        self.block(index / 4)[(index % 4) as usize]
    }

    /// The double word at `index`: each block holds two.
    pub const fn bits_u64(self, index: u64) -> u64 {
        let [a, b, c, d] = self.block(index / 2);
        if index.is_multiple_of(2) {
            join(a, b)
        } else {
            join(c, d)
        }
    }

    /// Uniform in `[0, 1)`, a multiple of 2⁻²⁴: the upper 24 bits of [`bits`](Self::bits).
    pub const fn uniform(self, index: u64) -> f32 {
        unit_f32(self.bits(index))
    }

    /// Uniform in `[0, 1)`, a multiple of 2⁻⁵³: the upper 53 bits of
    /// [`bits_u64`](Self::bits_u64).
    pub const fn uniform_f64(self, index: u64) -> f64 {
        unit_f64(self.bits_u64(index))
    }

    /// Normal with mean 0 and deviation 1. Each block gives two (Box–Muller, computed in `f64`).
    pub fn normal(self, index: u64) -> f32 {
        self.normal_pair(index / 2)[(index % 2) as usize]
    }

    /// [`normal`](Self::normal), redrawn until it lies within ±`bound`, or 0 when ten thousand
    /// draws do not (no bound worth asking for). Redrawing goes 2⁴⁰ indices on.
    pub fn truncated_normal(self, index: u64, bound: f32) -> f32 {
        const ATTEMPTS: u64 = 10_000;
        (0..ATTEMPTS)
            .map(|attempt| self.normal(index.wrapping_add(attempt << 40)))
            .find(|value| value.abs() <= bound)
            .unwrap_or(0.0)
    }

    /// Uniform among `0..bound`, or 0 when `bound` is 0. The bias is below `bound` / 2⁶⁴.
    pub const fn below(self, index: u64, bound: u64) -> u64 {
        ((self.bits_u64(index) as u128 * bound as u128) >> 64) as u64
    }

    /// Fills `out` with [`uniform`](Self::uniform) of 0, 1, 2 …, four to a block.
    pub fn fill_uniform(self, out: &mut [f32]) {
        for (chunk, index) in out.chunks_mut(4).zip(0..) {
            for (value, bits) in chunk.iter_mut().zip(self.block(index)) {
                *value = unit_f32(bits);
            }
        }
    }

    /// Fills `out` with [`normal`](Self::normal) of 0, 1, 2 …, two to a block.
    pub fn fill_normal(self, out: &mut [f32]) {
        for (chunk, index) in out.chunks_mut(2).zip(0..) {
            chunk.copy_from_slice(&self.normal_pair(index)[..chunk.len()]);
        }
    }

    /// A uniformly drawn order of `0..length` (Fisher–Yates).
    pub fn permutation(self, length: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..length).collect();
        for last in (1..length).rev() {
            let other = self.below(last as u64, last as u64 + 1) as usize;
            order.swap(last, other);
        }
        order
    }

    fn normal_pair(self, index: u64) -> [f32; 2] {
        let [a, b, c, d] = self.block(index);
        // 1 − u lies in (0, 1], so that the logarithm is finite.
        let radius = (-2.0 * (1.0 - unit_f64(join(a, b))).ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * unit_f64(join(c, d))).sin_cos();
        [(radius * cosine) as f32, (radius * sine) as f32]
    }
}

const fn join(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn unit_f32(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

const fn unit_f64(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that Random123, the authors' own library, ships for philox4x32 with ten
    /// rounds.
    #[test]
    fn published_vectors() {
        let vectors: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
            (
                [0; 4],
                [0; 2],
                [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD],
            ),
            (
                [0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344],
                [0xA409_3822, 0x299F_31D0],
                [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1],
            ),
        ];
        for (counter, key, expected) in vectors {
            assert_eq!(philox4x32(counter, key), expected);
        }
    }

    /// The last published vector again, through the seed, stream and index that make it up.
    #[test]
    fn a_stream_is_a_key_and_the_upper_counter() {
        let stream = Stream::new(0x299F_31D0_A409_3822, 0x0370_7344_1319_8A2E);
        let index = 0x85A3_08D3_243F_6A88;
        assert_eq!(
            stream.block(index),
            [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]
        );
    }

    #[test]
    fn words_tile_the_blocks() {
        let stream = Stream::new(0, 0);
        let words: Vec<u32> = (0..4).map(|index| stream.bits(index)).collect();
        assert_eq!(words, [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
        assert_eq!(stream.bits_u64(0), 0xE169_C58D_6627_E8D5);
        assert_eq!(stream.bits_u64(1), 0x9B00_DBD8_BC57_AC4C);
        assert_eq!(stream.bits(4), stream.block(1)[0]);
    }

    #[test]
    fn unit_intervals_are_half_open() {
        assert_eq!(unit_f32(0), 0.0);
        assert_eq!(unit_f32(u32::MAX), 1.0 - 1.0 / 16_777_216.0);
        assert_eq!(unit_f64(0), 0.0);
        assert_eq!(unit_f64(u64::MAX), 1.0 - f64::EPSILON / 2.0);
    }

    /// FNV-1a's own test values for the empty string and for "foobar".
    #[test]
    fn names_hash_as_published() {
        assert_eq!(Stream::named(1, ""), Stream::new(1, 0xCBF2_9CE4_8422_2325));
        assert_eq!(
            Stream::named(1, "foobar"),
            Stream::new(1, 0x8594_4171_F739_67E8)
        );
    }

    #[test]
    fn filling_equals_indexing() {
        let stream = Stream::new(3, 5);
        let (mut uniform, mut normal) = ([0.0; 7], [0.0; 7]);
        stream.fill_uniform(&mut uniform);
        stream.fill_normal(&mut normal);
        for index in 0..7 {
            assert_eq!(uniform[index], stream.uniform(index as u64));
            assert_eq!(normal[index], stream.normal(index as u64));
        }
    }

    /// Mean, variance and fourth moment within five standard errors of the distribution's own.
    #[test]
    fn moments_are_those_of_the_distribution() {
        let count = 200_000_u64;
        let stream = Stream::new(11, 0);
        let moment = |draw: &dyn Fn(u64) -> f64, power: i32| {
            (0..count).map(|index| draw(index).powi(power)).sum::<f64>() / count as f64
        };
        let close = |value: f64, expected: f64, deviation: f64| {
            let error = 5.0 * deviation / (count as f64).sqrt();
            assert!((value - expected).abs() < error, "{value} for {expected}");
        };
        let normal = |index| f64::from(stream.normal(index));
        close(moment(&normal, 1), 0.0, 1.0);
        close(moment(&normal, 2), 1.0, 2.0_f64.sqrt());
        close(moment(&normal, 4), 3.0, 96.0_f64.sqrt());
        let uniform = |index| stream.uniform_f64(index);
        close(moment(&uniform, 1), 0.5, (1.0_f64 / 12.0).sqrt());
        close(moment(&uniform, 2), 1.0 / 3.0, (4.0_f64 / 45.0).sqrt());
    }

    /// Within ±2 a normal has the variance 0.7737 (1 − 4·φ(2) / (2·Φ(2) − 1)).
    #[test]
    fn truncated_normals_are_redrawn_normals() {
        let (count, stream) = (50_000_u64, Stream::new(4, 0));
        let mut squares = 0.0;
        for index in 0..count {
            let (value, normal) = (stream.truncated_normal(index, 2.0), stream.normal(index));
            assert!(value.abs() <= 2.0);
            assert!(value == normal || normal.abs() > 2.0);
            squares += f64::from(value).powi(2);
        }
        assert!((squares / count as f64 - 0.7737).abs() < 0.02);
        assert_eq!(stream.truncated_normal(0, -1.0), 0.0);
    }

    #[test]
    fn permutations_hold_everything_once_and_depend_on_the_stream() {
        for length in [0, 1, 2, 5, 1000] {
            let mut order = Stream::new(9, 1).permutation(length);
            order.sort_unstable();
            assert_eq!(order, (0..length).collect::<Vec<_>>());
        }
        assert_ne!(
            Stream::new(9, 1).permutation(20),
            Stream::new(9, 2).permutation(20)
        );
    }

    /// All six orders of three elements come equally often (within five standard errors).
    #[test]
    fn permutations_are_uniform() {
        let mut counts = std::collections::BTreeMap::new();
        for stream in 0..6000 {
            *counts
                .entry(Stream::new(1, stream).permutation(3))
                .or_insert(0_i32) += 1;
        }
        assert_eq!(counts.len(), 6);
        for count in counts.values() {
            assert!((count - 1000).abs() < 145, "{counts:?}");
        }
    }

    #[test]
    fn below_stays_below() {
        let stream = Stream::new(2, 2);
        let mut seen = [false; 3];
        for index in 0..100 {
            seen[stream.below(index, 3) as usize] = true;
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(stream.below(0, 0), 0);
    }
}
