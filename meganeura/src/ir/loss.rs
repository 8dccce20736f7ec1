use super::Number;

/// How labels count, for [`Tensor::cross_entropy_with`](crate::ir::Tensor::cross_entropy_with).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CrossEntropy {
    /// Rows with this label count for nothing.
    pub ignore_index: Option<u32>,
    /// The share of a label that is spread over all classes alike, 0 to 1.
    pub label_smoothing: f64,
}

impl CrossEntropy {
    /// The same as an attribute.
    pub(crate) fn labels(&self) -> Labels {
        Labels {
            ignore: self.ignore_index,
            smoothing: Number::new(self.label_smoothing),
        }
    }
}

/// [`CrossEntropy`] as an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels {
    /// Rows with this label count for nothing.
    pub ignore: Option<u32>,
    /// The share of a label that is spread over all classes alike.
    pub smoothing: Number,
}
