use super::Number;

/// Which numbers of a row are a pair, in rotary positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pairs {
    /// Neighbours: 0 and 1, 2 and 3, …
    Interleaved,
    /// Those half a row apart.
    Halves,
}

/// How rows are rotated by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rotation {
    /// The axis of positions, which count from 0.
    pub axis: usize,
    /// Which numbers are a pair.
    pub pairs: Pairs,
    /// The base of the wavelengths.
    pub base: Number,
}
