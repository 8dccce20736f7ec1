//! Layers that move, repeat or choose values, and that bring tensors together side by side.

use crate::ir::{DType, Graph, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Dim, Dims, Message, Shapes};

/// `dims`, with the dtype of `x`.
const fn like(x: &Dims, dims: Dims) -> Shapes {
    match x.dtype() {
        Some(dtype) => Shapes::one(dims.with_dtype(dtype)),
        None => Shapes::one(dims),
    }
}

/// The dims of `x` without the one along `axis`, if the rank is known.
const fn without(x: &Dims, axis: usize) -> Dims {
    let Some(rank) = x.rank() else {
        return Dims::UNKNOWN;
    };
    let mut dims = Dims::of(&[]);
    let mut index = 0;
    while index < rank {
        if index != axis {
            dims = dims.push(x.dim(index));
        }
        index += 1;
    }
    dims
}

/// Exchanges the last two axes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SwapLast;

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for SwapLast {
    const BASE: Self = SwapLast;

    const fn shape(&self, x: &Shapes) -> Shapes {
        let x = x.first();
        match x.rank() {
            Some(0 | 1) => {
                let message = Message::new("exchanges the last two axes, but is given ");
                Shapes::fail(message.dims(&x))
            }
            Some(rank) => {
                let (second, last) = (x.dim(rank - 2), x.last());
                Shapes::one(x.with(rank - 2, last).with_last(second))
            }
            None => Shapes::one(x),
        }
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        x.swap_last()
    }
}

/// What is at one place along an axis, which goes away: the first position of a sequence is
/// `axis = 1, index = 0`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Select {
    /// Along which axis.
    pub axis: usize,
    /// Which place.
    pub index: usize,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Select {
    const BASE: Self = Select { axis: 1, index: 0 };
    const REQUIRED: &'static [&'static str] = &["index"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        let x = x.first();
        let message = Message::new("takes place ").number(self.index);
        let message = message.text(" along axis ").number(self.axis);
        let message = message.text(", but is given ");
        if let Some(rank) = x.rank()
            && self.axis >= rank
        {
            return Shapes::fail(message.dims(&x));
        }
        if let Some(size) = x.dim(self.axis).value()
            && self.index >= size
        {
            return Shapes::fail(message.dims(&x));
        }
        like(&x, without(&x, self.axis))
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let mut dims = x.shape().dims().to_vec();
        dims.remove(self.axis);
        x.slice(self.axis, self.index, 1).reshape(dims)
    }
}

/// Every value repeated along all axes after the first two: `[batch, channels, h, w]` to
/// `[batch, channels, factor·h, factor·w]`, the nearest neighbour's value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Upsample {
    /// How often each value is repeated along an axis.
    pub factor: usize,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Upsample {
    const BASE: Self = Upsample { factor: 2 };

    const fn shape(&self, x: &Shapes) -> Shapes {
        let mut dims = x.first();
        let Some(rank) = dims.rank() else {
            return x.same();
        };
        if rank < 3 {
            let message = Message::new("takes [batch, channels, ..], but is given ");
            return Shapes::fail(message.dims(&dims));
        }
        let mut axis = 2;
        while axis < rank {
            dims = dims.with(axis, dims.dim(axis).times(Dim::of(self.factor)));
            axis += 1;
        }
        Shapes::one(dims)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let shape = x.shape();
        let (kept, spatial) = shape.dims().split_at(2);
        let apart = spatial.iter().flat_map(|&size| [size, 1]);
        let repeated = spatial.iter().flat_map(|&size| [size, self.factor]);
        let out = spatial.iter().map(|&size| size * self.factor);
        let with = |rest: Vec<usize>| [kept, &rest].concat();
        x.reshape(with(apart.collect()))
            .broadcast(with(repeated.collect()))
            .reshape(with(out.collect()))
    }
}

/// Tensors side by side along an axis, in the order of `from(a, b)`; the channels unless said
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Concat {
    /// Along which axis.
    pub axis: usize,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Concat {
    const BASE: Self = Concat { axis: 1 };

    const fn shape(&self, x: &Shapes) -> Shapes {
        let mut all = x.first();
        if let Some(rank) = all.rank()
            && self.axis >= rank
        {
            let message = Message::new("works along axis ").number(self.axis);
            return Shapes::fail(message.text(", but is given ").dims(&all));
        }
        if x.count() > Shapes::MAX_VALUES {
            // The others are not followed.
            return Shapes::one(all.with(self.axis, Dim::UNKNOWN));
        }
        let mut index = 1;
        while index < x.count() {
            let next = x.get(index);
            let size = all.dim(self.axis);
            if next.with(self.axis, size).differs(&all) {
                let message = Message::new("puts ")
                    .dims(&all)
                    .text(" beside ")
                    .dims(&next);
                let message = message.text(": they may differ along axis ");
                return Shapes::fail(message.number(self.axis).text(" only"));
            }
            all = all.merge(&next);
            all = all.with(self.axis, size.plus(next.dim(self.axis)));
            index += 1;
        }
        Shapes::one(all)
    }

    fn forward<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        match inputs {
            [] => vec![graph.fail("has nothing to put side by side")],
            inputs => vec![graph.concat(inputs, self.axis)],
        }
    }
}

/// The mean over all axes after the first two: `[batch, channels, h, w]` to `[batch, channels]`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GlobalAveragePool;

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for GlobalAveragePool {
    const BASE: Self = GlobalAveragePool;

    const fn shape(&self, x: &Shapes) -> Shapes {
        if let Some(wrong) = x.unless(DType::F32) {
            return wrong;
        }
        let x = x.first();
        if let Some(0 | 1) = x.rank() {
            let message = Message::new("takes [batch, channels, ..], but is given ");
            return Shapes::fail(message.dims(&x));
        }
        if x.rank().is_none() {
            return like(&x, Dims::of(&[Dim::UNKNOWN, Dim::UNKNOWN]));
        }
        like(&x, Dims::of(&[x.dim(0), x.dim(1)]))
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let shape = x.shape();
        let axes: Vec<usize> = (2..shape.rank()).collect();
        x.mean(&axes).reshape([shape.dims()[0], shape.dims()[1]])
    }
}
