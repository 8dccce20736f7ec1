//! Normalizations of channels: axis 1 of `[batch, channels, ..]`.

use crate::ir::{DType, Init, Shape, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Message, Shapes};

/// The rule of a layer that works on `[batch, channels, ..]` and keeps it.
const fn of_channels(x: &Shapes) -> Shapes {
    if let Some(wrong) = x.unless(DType::F32) {
        return wrong;
    }
    let input = x.first();
    if let Some(0 | 1) = input.rank() {
        let message = Message::new("takes [batch, channels, ..], but is given ");
        return Shapes::fail(message.dims(&input));
    }
    x.same()
}

/// A value per channel as it meets `[batch, channels, ..]`.
fn along_channels<'g>(value: Tensor<'g>, shape: &Shape) -> Tensor<'g> {
    let mut dims = vec![1; shape.rank()];
    dims[1] = shape.dims()[1];
    value.reshape(dims)
}

/// (x − μ) / √(σ² + ε) · w + b for each channel of `[batch, channels, ..]` (Ioffe and Szegedy, 2015).
///
/// In training μ and σ² are those of the batch, and the running ones move towards them; otherwise the
/// running ones are used. As in PyTorch the batch is normalized by the biased variance, and the
/// running variance is the unbiased one.
///
/// Parameters: `weight`, ones at first, and `bias`, zeros; not trained: `running_mean`, zeros, and
/// `running_var`, ones. All have a number for each channel.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BatchNorm {
    /// What is added to the variance.
    pub epsilon: f64,
    /// How far the running statistics move in a step.
    pub momentum: f64,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for BatchNorm {
    const BASE: Self = BatchNorm {
        epsilon: 1e-5,
        momentum: 0.1,
    };

    const fn shape(&self, x: &Shapes) -> Shapes {
        of_channels(x)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let (graph, shape) = (x.graph(), x.shape());
        let channels = shape.dims()[1];
        let weight = graph.parameter("weight", [channels], Init::Ones);
        let bias = graph.parameter("bias", [channels], Init::Zeros);
        let running_mean = graph.buffer("running_mean", [channels], Init::Zeros);
        let running_variance = graph.buffer("running_var", [channels], Init::Ones);
        let scaled = |x: Tensor<'g>, variance: Tensor<'g>| {
            let scale = (variance + self.epsilon).rsqrt();
            x * scale * along_channels(weight, &shape) + along_channels(bias, &shape)
        };
        if !graph.is_training() {
            let mean = along_channels(running_mean, &shape);
            return scaled(x - mean, along_channels(running_variance, &shape));
        }
        let count = shape.elements() / channels.max(1);
        if count < 2 {
            let message =
                format!("needs more than one value per channel in training, but is given {shape}");
            return graph.fail(message);
        }
        let others: Vec<usize> = (0..shape.rank()).filter(|&axis| axis != 1).collect();
        let mean = x.mean(&others);
        let centered = x - mean;
        let variance = centered.square().mean(&others);
        let unbiased = variance * (count as f64 / (count - 1) as f64);
        for (running, found) in [(running_mean, mean), (running_variance, unbiased)] {
            let found = found.reshape([channels]);
            let moved = running * (1.0 - self.momentum) + found * self.momentum;
            graph.update(running, moved);
        }
        scaled(centered, variance)
    }
}

/// (x − μ) / √(σ² + ε) · w + b, where μ and σ² are those of a group of channels of one sample (Wu and
/// He, 2018): `[batch, channels, ..]` to the same.
///
/// Parameters: `weight`, ones at first, and `bias`, zeros, with a number for each channel.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GroupNorm {
    /// How many groups the channels are split into.
    pub groups: usize,
    /// What is added to the variance.
    pub epsilon: f64,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for GroupNorm {
    const BASE: Self = GroupNorm {
        groups: 1,
        epsilon: 1e-5,
    };
    const REQUIRED: &'static [&'static str] = &["groups"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        let out = of_channels(x);
        if let Some(channels) = x.first().dim(1).value()
            && !out.failed()
            && (self.groups == 0 || !channels.is_multiple_of(self.groups))
        {
            let message = Message::new("cannot split ").count(channels, "channel");
            return Shapes::fail(message.text(" into ").count(self.groups, "group"));
        }
        out
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let (graph, shape) = (x.graph(), x.shape());
        let (batch, channels) = (shape.dims()[0], shape.dims()[1]);
        let weight = graph.parameter("weight", [channels], Init::Ones);
        let bias = graph.parameter("bias", [channels], Init::Zeros);
        let group = shape.elements() / (batch * self.groups).max(1);
        let groups = x.reshape([batch, self.groups, group]);
        let centered = groups - groups.mean(&[2]);
        let variance = centered.square().mean(&[2]);
        let normal = centered * (variance + self.epsilon).rsqrt();
        let normal = normal.reshape(shape.clone());
        normal * along_channels(weight, &shape) + along_channels(bias, &shape)
    }
}
