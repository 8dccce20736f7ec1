//! What convolutions and pools need to know besides their operands.

use std::fmt;

/// How a convolution's kernel moves: one entry for each spatial axis.
///
/// ```
/// use meganeura::ir::Convolution;
///
/// let strided = Convolution {
///     stride: vec![2, 2],
///     ..Convolution::of(2)
/// };
/// assert_eq!(strided.padding, [(0, 0), (0, 0)]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Convolution {
    /// From one place of the kernel to the next.
    pub stride: Vec<usize>,
    /// Zeros before and after the input.
    pub padding: Vec<(usize, usize)>,
    /// From one element the kernel sees to the next.
    pub dilation: Vec<usize>,
    /// Channels are split into so many groups that do not see each other.
    pub groups: usize,
}

impl Convolution {
    /// Stride 1, no padding, no dilation, one group, along so many axes.
    pub fn of(axes: usize) -> Convolution {
        Convolution {
            stride: vec![1; axes],
            padding: vec![(0, 0); axes],
            dilation: vec![1; axes],
            groups: 1,
        }
    }
}

impl fmt::Display for Convolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Convolution {
            stride,
            padding,
            dilation,
            groups,
        } = self;
        write!(
            f,
            "stride {stride:?}, padding {padding:?}, dilation {dilation:?}, groups {groups}"
        )
    }
}

/// How a pool's window moves along the last axes: one entry for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pool {
    /// How many elements the window sees.
    pub size: Vec<usize>,
    /// From one window to the next.
    pub stride: Vec<usize>,
    /// Elements before and after the input that count as nothing.
    pub padding: Vec<(usize, usize)>,
    /// From one element the window sees to the next.
    pub dilation: Vec<usize>,
    /// Whether a last window that hangs over the end counts, as long as it starts within.
    pub ceil: bool,
}

impl Pool {
    /// Windows of this size side by side.
    pub fn of(size: &[usize]) -> Pool {
        Pool {
            size: size.to_vec(),
            stride: size.to_vec(),
            padding: vec![(0, 0); size.len()],
            dilation: vec![1; size.len()],
            ceil: false,
        }
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pool {
            size,
            stride,
            padding,
            dilation,
            ceil,
        } = self;
        write!(
            f,
            "size {size:?}, stride {stride:?}, padding {padding:?}, dilation {dilation:?}{}",
            if *ceil { ", ceil" } else { "" }
        )
    }
}
