//! Tables of rows.

use super::linear::along_last;
use crate::ir::{DType, Init, Tensor};
use crate::layer;
use crate::model::{Layer, Tie};
use crate::walk::{Dim, Message, Shapes, Value};
use core::marker::PhantomData;

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
#[diagnostic::do_not_recommend]
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

/// The products of the last axis with every row of a table: `[.., width]` to `[.., rows]`.
///
/// Usually tied to the [`Embedding`] that made vectors of the same indices: `#[layer(tie(embed))]`.
/// Parameter: `weight` `[rows, width]`, normal with deviation 1/√width at first.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Unembedding {
    /// How many rows there are.
    pub rows: usize,
    /// The size of a row.
    pub width: usize,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Unembedding {
    const BASE: Self = Unembedding { rows: 1, width: 1 };
    const REQUIRED: &'static [&'static str] = &["rows", "width"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        if let Some(wrong) = x.unless(DType::F32) {
            return wrong;
        }
        let x = x.first();
        if x.last().differs(Dim::of(self.width)) {
            let message = Message::new("has rows of width ").number(self.width);
            return Shapes::fail(message.text(" but is given ").dims(&x));
        }
        Shapes::one(x.with_last(Dim::of(self.rows)))
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let init = Init::Normal {
            mean: 0.0,
            std: 1.0 / (self.width.max(1) as f32).sqrt(),
        };
        let table = x.graph().parameter("weight", [self.rows, self.width], init);
        along_last(x, table.swap_last())
    }
}

/// The configuration of an [`Unembedding`] that follows from that of an [`Embedding`].
pub struct Back<C>(PhantomData<C>);

impl<C: Value<Of = Embedding>> Value for Back<C> {
    type Of = Unembedding;
    const VALUE: Unembedding = back(C::VALUE);
    const MISSING: &'static str = C::MISSING;
}

const fn back(Embedding { rows, width }: Embedding) -> Unembedding {
    Unembedding { rows, width }
}

impl Tie<Embedding> for Unembedding {
    type Tied<C: Value<Of = Embedding>> = Back<C>;

    fn tie(source: Embedding) -> Unembedding {
        back(source)
    }
}
