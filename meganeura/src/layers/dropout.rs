//! Values dropped at random.

use crate::ir::{DType, Init, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Message, Shapes};

/// In training, zero instead of each value with probability `rate`, and the others scaled by
/// 1 / (1 − rate); otherwise everything as it is (Srivastava et al., 2014).
///
/// What is dropped follows from the session's seed, the layer's path, the step and the place alone:
/// it is the same on every device. Two numbers are kept for that from step to step, `seed` and
/// `step`; they belong to the training, not to the model.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Dropout {
    /// The share of values that are dropped, less than 1.
    pub rate: f64,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Dropout {
    const BASE: Self = Dropout { rate: 0.1 };

    const fn shape(&self, x: &Shapes) -> Shapes {
        if let Some(wrong) = x.unless(DType::F32) {
            return wrong;
        }
        if !(self.rate >= 0.0 && self.rate < 1.0) {
            return Shapes::fail(Message::new("needs a rate from 0 to below 1"));
        }
        x.same()
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let graph = x.graph();
        if !graph.is_training() || self.rate == 0.0 {
            return x;
        }
        let unit = Init::Uniform {
            low: 0.0,
            high: 1.0,
        };
        let seed = graph.state("seed", [], unit);
        let step = graph.state("step", [], Init::Zeros);
        graph.update(step, step + 1.0);
        let keep = 1.0 - self.rate;
        let kept = drawn(x, seed.random(step)).less(graph.constant(keep));
        kept.select(x * (1.0 / keep), graph.constant(0.0))
    }
}

/// Floats count exactly up to here.
const EXACT: usize = 1 << 24;

/// A number in [0, 1) for each place of `x`.
fn drawn<'g>(x: Tensor<'g>, key: Tensor<'g>) -> Tensor<'g> {
    let shape = x.shape();
    if shape.elements() <= EXACT {
        return numbered(x, 0).random(key);
    }
    // Too many to count: each row has a key of its own.
    let rows = x.slice(shape.rank() - 1, 0, 1);
    numbered(x, shape.rank() - 1).random(numbered(rows, 0).random(key))
}

/// The number of each place among those that differ along the axes from `first` on.
fn numbered(x: Tensor<'_>, first: usize) -> Tensor<'_> {
    let (graph, shape) = (x.graph(), x.shape());
    let mut number = graph.constant(0.0).broadcast(shape.clone());
    for axis in first..shape.rank() {
        let stride: usize = shape.dims()[axis + 1..].iter().product();
        let index = graph.index(shape.clone(), axis).cast(DType::F32);
        number = number + index * stride as f64;
    }
    number
}
