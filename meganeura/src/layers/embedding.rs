//! Tables of rows.

use crate::ir::{DType, Init, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Dim, Shapes};

/// A row of a table for every index: `[..]` of u32 to `[.., width]`.
///
/// Parameter: `weight` `[rows, width]`, standard normal at first.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Embedding {
    /// How many rows there are: indices are below.
    pub rows: usize,
    /// The size of a row.
    pub width: usize,
}

#[layer]
impl Layer for Embedding {
    const BASE: Self = Embedding { rows: 1, width: 1 };
    const REQUIRED: &'static [&'static str] = &["rows", "width"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        if let Some(wrong) = x.unless(DType::U32) {
            return wrong;
        }
        let rows = x.first().push(Dim::of(self.width));
        Shapes::one(rows.with_dtype(DType::F32))
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let init = Init::Normal {
            mean: 0.0,
            std: 1.0,
        };
        let table = x.graph().parameter("weight", [self.rows, self.width], init);
        table.gather(x)
    }
}
