//! Convolutions and pools, channels first.

use crate::ir::{Convolution, DType, Init, Pool, Tensor};
use crate::layer;
use crate::model::Layer;
use crate::walk::{Dim, Dims, Message, Shapes};

/// A window that moves along the spatial axes, the same along each.
#[derive(Clone, Copy)]
struct Moving {
    size: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil: bool,
}

impl Moving {
    /// `[n, c, spatial..]` with the sizes that a window leaves of the spatial axes.
    const fn over(self, x: Dims, axes: usize) -> Shapes {
        if self.size == 0 || self.stride == 0 || self.dilation == 0 {
            let message = "needs a window, a stride and a dilation of at least 1";
            return Shapes::fail(Message::new(message));
        }
        if x.rank_differs(axes + 2) {
            let message = match axes {
                1 => Message::new("takes [n, c, length] but is given "),
                _ => Message::new("takes [n, c, height, width] but is given "),
            };
            return Shapes::fail(message.dims(&x));
        }
        let extent = (self.size - 1) * self.dilation + 1;
        let (mut result, mut axis) = (x, 2);
        while axis < axes + 2 {
            let padded = x.dim(axis).plus(Dim::of(2 * self.padding));
            let rest = padded.minus(extent);
            if rest.is_negative() {
                let message = Message::new("has a window of ").number(extent);
                let message = message
                    .text(", larger than axis ")
                    .number(axis)
                    .text(" of ");
                let message = message.dims(&x).text(" padded to ");
                return Shapes::fail(message.dim(padded));
            }
            result = result.with(axis, self.count(rest));
            axis += 1;
        }
        Shapes::one(result)
    }

    /// How many windows there are when the last may start at `rest`.
    const fn count(self, rest: Dim) -> Dim {
        match rest.value() {
            Some(rest) if self.ceil => {
                let mut count = rest.div_ceil(self.stride) + 1;
                // A window that starts in the padding after the end does not count.
                let end = rest + (self.size - 1) * self.dilation + 1 - self.padding;
                if count > 1 && (count - 1) * self.stride >= end {
                    count -= 1;
                }
                Dim::of(count)
            }
            None if self.ceil => Dim::UNKNOWN,
            _ => rest.over(self.stride).plus(Dim::of(1)),
        }
    }
}

/// Cross-correlation with learned kernels along one axis: `[n, in, length]` to `[n, out, length]`.
///
/// The number of channels that comes in is whatever flows in. Parameters: `weight`
/// `[out, in / groups, kernel]` and `bias` `[out]`, both uniform in ±1/√(in / groups · kernel) at
/// first.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Conv1d {
    /// The channels that go out.
    pub out: usize,
    /// How many places the kernel sees.
    pub kernel: usize,
    /// From one place of the kernel to the next.
    pub stride: usize,
    /// Zeros before and after the input.
    pub padding: usize,
    /// From one place the kernel sees to the next.
    pub dilation: usize,
    /// Channels are split into so many groups that do not see each other.
    pub groups: usize,
    /// Whether a bias is added.
    pub bias: bool,
}

/// Cross-correlation with learned square kernels: `[n, in, height, width]` to
/// `[n, out, height, width]`.
///
/// The number of channels that comes in is whatever flows in. Parameters: `weight`
/// `[out, in / groups, kernel, kernel]` and `bias` `[out]`, both uniform in
/// ±1/√(in / groups · kernel²) at first.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Conv2d {
    /// The channels that go out.
    pub out: usize,
    /// How many places the kernel sees along each axis.
    pub kernel: usize,
    /// From one place of the kernel to the next.
    pub stride: usize,
    /// Zeros on every side of the input.
    pub padding: usize,
    /// From one place the kernel sees to the next.
    pub dilation: usize,
    /// Channels are split into so many groups that do not see each other.
    pub groups: usize,
    /// Whether a bias is added.
    pub bias: bool,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Conv1d {
    const BASE: Self = Conv1d {
        out: 1,
        kernel: 1,
        stride: 1,
        padding: 0,
        dilation: 1,
        groups: 1,
        bias: true,
    };
    const REQUIRED: &'static [&'static str] = &["out", "kernel"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        self.general().shape(x, 1)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        self.general().apply(x, 1)
    }
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for Conv2d {
    const BASE: Self = Conv2d {
        out: 1,
        kernel: 1,
        stride: 1,
        padding: 0,
        dilation: 1,
        groups: 1,
        bias: true,
    };
    const REQUIRED: &'static [&'static str] = &["out", "kernel"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        self.general().shape(x, 2)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        self.general().apply(x, 2)
    }
}

impl Conv1d {
    const fn general(self) -> General {
        General {
            out: self.out,
            groups: self.groups,
            bias: self.bias,
            moving: Moving {
                size: self.kernel,
                stride: self.stride,
                padding: self.padding,
                dilation: self.dilation,
                ceil: false,
            },
        }
    }
}

impl Conv2d {
    const fn general(self) -> General {
        General {
            out: self.out,
            groups: self.groups,
            bias: self.bias,
            moving: Moving {
                size: self.kernel,
                stride: self.stride,
                padding: self.padding,
                dilation: self.dilation,
                ceil: false,
            },
        }
    }
}

/// A convolution along any number of axes.
#[derive(Clone, Copy)]
struct General {
    out: usize,
    groups: usize,
    bias: bool,
    moving: Moving,
}

impl General {
    const fn shape(self, x: &Shapes, axes: usize) -> Shapes {
        if let Some(wrong) = x.unless(DType::F32) {
            return wrong;
        }
        let x = x.first();
        let sizes = self.moving.over(x, axes);
        if sizes.failed() {
            return sizes;
        }
        let fits = match x.dim(1).value() {
            _ if self.groups == 0 => false,
            Some(channels) => {
                channels.is_multiple_of(self.groups) && self.out.is_multiple_of(self.groups)
            }
            None => self.out.is_multiple_of(self.groups),
        };
        if !fits {
            let message = Message::new("cannot split ")
                .dim(x.dim(1))
                .text(" channels and ");
            let message = message.number(self.out).text(" outputs into ");
            return Shapes::fail(message.count(self.groups, "group"));
        }
        Shapes::one(sizes.first().with(1, Dim::of(self.out)))
    }

    fn apply(self, x: Tensor<'_>, axes: usize) -> Tensor<'_> {
        let (graph, shape, moving) = (x.graph(), x.shape(), self.moving);
        let (Some(&channels), false) = (shape.dims().get(1), self.groups == 0) else {
            return match x.is_poisoned() {
                true => x,
                false => graph.fail(format!(
                    "takes [n, c, spatial..] and at least one group, but is given {shape}"
                )),
            };
        };
        let mut dims = vec![self.out, channels / self.groups];
        dims.resize(axes + 2, moving.size);
        let seen: usize = dims[1..].iter().product();
        let bound = if seen == 0 {
            0.0
        } else {
            1.0 / (seen as f32).sqrt()
        };
        let init = Init::Uniform {
            low: -bound,
            high: bound,
        };
        let weight = graph.parameter("weight", dims, init);
        let how = Convolution {
            stride: vec![moving.stride; axes],
            padding: vec![(moving.padding, moving.padding); axes],
            dilation: vec![moving.dilation; axes],
            groups: self.groups,
        };
        let result = x.convolution(weight, &how);
        if !self.bias {
            return result;
        }
        let mut row = vec![1; axes + 1];
        row[0] = self.out;
        result + graph.parameter("bias", [self.out], init).reshape(row)
    }
}

/// The largest of each square window: `[n, c, height, width]` with fewer rows and columns.
///
/// The gradient goes to the first of the largest, in row order.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MaxPool2d {
    /// How many places the window sees along each axis.
    pub size: usize,
    /// From one window to the next; 0 for the window's size.
    pub stride: usize,
    /// Places on every side of the input that count as nothing.
    pub padding: usize,
    /// From one place the window sees to the next.
    pub dilation: usize,
    /// Whether a last window that hangs over the end counts.
    pub ceil: bool,
}

/// The mean of each square window: `[n, c, height, width]` with fewer rows and columns.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AvgPool2d {
    /// How many places the window sees along each axis.
    pub size: usize,
    /// From one window to the next; 0 for the window's size.
    pub stride: usize,
    /// Zeros on every side of the input.
    pub padding: usize,
    /// Whether a last window that hangs over the end counts.
    pub ceil: bool,
    /// Whether the mean is over padding too.
    pub count_padding: bool,
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for MaxPool2d {
    const BASE: Self = MaxPool2d {
        size: 2,
        stride: 0,
        padding: 0,
        dilation: 1,
        ceil: false,
    };

    const fn shape(&self, x: &Shapes) -> Shapes {
        self.moving().pooled(x)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        x.max_pool(&self.moving().pool())
    }
}

#[layer]
#[diagnostic::do_not_recommend]
impl Layer for AvgPool2d {
    const BASE: Self = AvgPool2d {
        size: 2,
        stride: 0,
        padding: 0,
        ceil: false,
        count_padding: true,
    };

    const fn shape(&self, x: &Shapes) -> Shapes {
        self.moving().pooled(x)
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        x.average_pool(&self.moving().pool(), self.count_padding)
    }
}

impl MaxPool2d {
    const fn moving(self) -> Moving {
        Moving {
            size: self.size,
            stride: if self.stride == 0 {
                self.size
            } else {
                self.stride
            },
            padding: self.padding,
            dilation: self.dilation,
            ceil: self.ceil,
        }
    }
}

impl AvgPool2d {
    const fn moving(self) -> Moving {
        Moving {
            size: self.size,
            stride: if self.stride == 0 {
                self.size
            } else {
                self.stride
            },
            padding: self.padding,
            dilation: 1,
            ceil: self.ceil,
        }
    }
}

impl Moving {
    const fn pooled(self, x: &Shapes) -> Shapes {
        if let Some(wrong) = x.unless(DType::F32) {
            return wrong;
        }
        if 2 * self.padding > self.size.saturating_sub(1) * self.dilation + 1 {
            let message = Message::new("pads more than half of its window of ");
            return Shapes::fail(message.number(self.size));
        }
        self.over(x.first(), 2)
    }

    fn pool(self) -> Pool {
        Pool {
            size: vec![self.size; 2],
            stride: vec![self.stride; 2],
            padding: vec![(self.padding, self.padding); 2],
            dilation: vec![self.dilation; 2],
            ceil: self.ceil,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Settings;

    /// The compiler's rule and the graph agree.
    fn agrees<L: Layer + Copy>(layer: L, x: &[usize], rule: &Shapes) {
        let graph = crate::ir::Graph::new();
        let y = layer.forward(&graph, &[graph.input("x", x, DType::F32)]);
        assert_eq!(graph.errors(), []);
        assert_eq!(rule.first().to_string(), y[0].shape().to_string());
    }

    fn shapes(x: &[usize]) -> Shapes {
        Shapes::one(Dims::of(
            &x.iter().map(|&dim| Dim::of(dim)).collect::<Vec<_>>(),
        ))
    }

    #[test]
    fn rules_give_the_shapes_of_graphs() {
        for (kernel, stride, padding, dilation) in [(3, 1, 1, 1), (3, 2, 0, 2), (2, 3, 2, 1)] {
            let layer = Conv2d {
                out: 6,
                kernel,
                stride,
                padding,
                dilation,
                groups: 3,
                ..Conv2d::BASE
            };
            let x = [2, 3, 9, 12];
            agrees(layer, &x, &layer.shape(&shapes(&x)));
        }
        for (size, stride, padding, ceil) in [
            (2, 0, 0, false),
            (3, 2, 1, true),
            (3, 2, 1, false),
            (2, 3, 1, true),
        ] {
            let layer = MaxPool2d {
                size,
                stride,
                padding,
                ceil,
                ..MaxPool2d::BASE
            };
            for side in 4..12 {
                let x = [1, 2, side, side + 3];
                agrees(layer, &x, &layer.shape(&shapes(&x)));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let layer = Conv2d {
            out: 4,
            kernel: 5,
            ..Conv2d::BASE
        };
        let told = |x: &[usize]| layer.shape(&shapes(x)).problem().to_string();
        assert_eq!(
            told(&[1, 3, 4, 8]),
            "has a window of 5, larger than axis 2 of [1, 3, 4, 8] padded to 4"
        );
        assert_eq!(
            told(&[3, 8, 8]),
            "takes [n, c, height, width] but is given [3, 8, 8]"
        );
        let layer = Conv2d { groups: 2, ..layer };
        assert_eq!(
            layer.shape(&shapes(&[1, 3, 8, 8])).problem().as_str(),
            "cannot split 3 channels and 4 outputs into 2 groups"
        );
        let graph = crate::ir::Graph::new();
        let x = graph.input("x", [1, 4, 4, 4], DType::F32);
        assert!(layer.forward(&graph, &[x])[0].is_poisoned());
        let told = graph.errors()[0].to_string();
        assert!(
            told.contains("window of 5") && told.contains("[1, 4, 4, 4]"),
            "{told}"
        );
    }
}
