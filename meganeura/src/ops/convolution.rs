//! Convolutions along one or two spatial axes, channels first.
//!
//! A window view of the padded input, seen as a matrix, meets the kernel in one matrix product
//! for each sample and group. The gradients are made of the same parts.

use super::region::{assemble, fold, take};
use super::rules::{BASE, floats};
use crate::ir::{
    Array, Attributes, Case, Convolution, DType, Lowering, OpDef, Shape, Steps, Tensor, TensorType,
    Vjp, Window,
};

pub const OPS: &[&OpDef] = &[&CONVOLUTION];

/// Cross-correlation of `[n, c, spatial..]` with `[out, c / groups, kernel..]`.
pub static CONVOLUTION: OpDef = OpDef {
    name: "convolution",
    shape: |attributes, operands| {
        floats(operands)?;
        let Attributes::Convolution(how) = attributes else {
            return Err("needs a stride".to_owned());
        };
        let sizes = result_sizes(how, &operands[0].shape, &operands[1].shape)?;
        let (batch, out) = (operands[0].shape.dims()[0], operands[1].shape.dims()[0]);
        Ok(TensorType::f32([&[batch, out], &sizes[..]].concat()))
    },
    evaluate: |attributes, x, ty| match attributes {
        Attributes::Convolution(how) => correlate(how, x[0], x[1], ty),
        _ => x[0].clone(),
    },
    lowering: Lowering::Expand(|attributes, x| match attributes {
        Attributes::Convolution(how) => product(x[0], x[1], how),
        _ => x[0],
    }),
    vjp: Vjp::Rule(|attributes, x, _, g| match attributes {
        Attributes::Convolution(how) => vec![
            Some(input_gradient(x[0], x[1], g, how)),
            Some(weight_gradient(x[0], x[1], g, how)),
        ],
        _ => vec![None, None],
    }),
    cases,
    ..BASE
};

/// The spatial sizes of the result, or what does not fit.
fn result_sizes(how: &Convolution, x: &Shape, weight: &Shape) -> Result<Vec<usize>, String> {
    let axes = how.stride.len();
    if !(1..=2).contains(&axes) || how.padding.len() != axes || how.dilation.len() != axes {
        return Err(format!(
            "needs stride, padding and dilation for one or two axes, got {how}"
        ));
    }
    if x.rank() != axes + 2 || weight.rank() != axes + 2 {
        return Err(format!(
            "takes [n, c, spatial..] and [out, c / groups, kernel..] with {axes} spatial axes, \
             got {x} and {weight}"
        ));
    }
    let (channels, out) = (x.dims()[1], weight.dims()[0]);
    let groups = how.groups;
    if groups == 0 || channels % groups != 0 || out % groups != 0 {
        return Err(format!(
            "cannot split {channels} channels and {out} outputs into {groups} groups"
        ));
    }
    if weight.dims()[1] != channels / groups {
        return Err(format!(
            "of {channels} channels in {groups} groups needs a weight [{out}, {}, ..], got {weight}",
            channels / groups
        ));
    }
    let sizes = (0..axes).map(|axis| {
        let (size, stride, dilation) = (
            weight.dims()[axis + 2],
            how.stride[axis],
            how.dilation[axis],
        );
        if size == 0 || stride == 0 || dilation == 0 {
            return Err("needs a kernel, a stride and a dilation of at least 1".to_owned());
        }
        let (low, high) = how.padding[axis];
        let length = low + x.dims()[axis + 2] + high;
        let window = window(how, weight, axis);
        match window.count(length) {
            0 => Err(format!(
                "has a window of {} along spatial axis {axis}, but the padded input {x} has only \
                 {length} places there",
                window.extent()
            )),
            count => Ok(count),
        }
    });
    sizes.collect()
}

/// The kernel's window along a spatial axis.
fn window(how: &Convolution, weight: &Shape, axis: usize) -> Window {
    Window {
        axis: axis + 2,
        size: weight.dims()[axis + 2],
        step: how.stride[axis],
        dilation: how.dilation[axis],
    }
}

fn correlate(how: &Convolution, x: &Array, weight: &Array, ty: &TensorType) -> Array {
    let (inner, per_group) = (weight.shape.dims()[1], ty.shape.dims()[1] / how.groups);
    let taps = Shape::from(&weight.shape.dims()[1..]);
    Array::from_fn(&ty.shape, |index| {
        let group = index[1] / per_group;
        let mut sum = 0.0;
        Array::from_fn(&taps, |tap| {
            let mut source = vec![index[0], group * inner + tap[0]];
            for axis in 0..how.stride.len() {
                let place = index[axis + 2] * how.stride[axis] + tap[axis + 1] * how.dilation[axis];
                let place = place.wrapping_sub(how.padding[axis].0);
                if place >= x.shape.dims()[axis + 2] {
                    return 0.0;
                }
                source.push(place);
            }
            sum += x.at(&source) * weight.at(&[&[index[1]], tap].concat());
            0.0
        });
        sum
    })
}

/// What every window of the padded input sees: `[n, c, out.., kernel..]`.
fn windows<'g>(x: Tensor<'g>, weight: &Shape, how: &Convolution) -> Tensor<'g> {
    let padding = [&[(0, 0), (0, 0)], &how.padding[..]].concat();
    (0..how.stride.len()).fold(x.pad(&padding, 0.0), |x, axis| {
        let Window {
            axis,
            size,
            step,
            dilation,
        } = window(how, weight, axis);
        x.window(axis, size, step, dilation)
    })
}

/// `dims` with the channels split into groups where there are any: `[n, groups, c / groups, ..]`.
fn grouped(dims: &[usize], axis: usize, groups: usize) -> Vec<usize> {
    let channels = [groups, dims[axis] / groups];
    [&dims[..axis], &channels, &dims[axis + 1..]].concat()
}

/// The convolution: `[n, groups]` products `[out / groups, k] × [k, places]`.
fn product<'g>(x: Tensor<'g>, weight: Tensor<'g>, how: &Convolution) -> Tensor<'g> {
    let (kernel, axes) = (weight.shape(), how.stride.len());
    let seen = windows(x, &kernel, how);
    let dims = seen.shape().dims().to_vec();
    let (batch, sizes, groups) = (dims[0], &dims[2..2 + axes], how.groups);
    // [n, groups, c / groups, kernel.., out..]
    let order = [&[0, 1, 2], &range(3 + axes, axes)[..], &range(3, axes)].concat();
    let inner: usize = kernel.dims()[1..].iter().product();
    let places: usize = sizes.iter().product();
    let seen = seen.reshape(grouped(&dims, 1, groups)).transpose(&order);
    let out = kernel.dims()[0];
    let result = if groups == 1 {
        let matrix = weight.reshape([1, out, inner]);
        matrix.matmul(seen.reshape([batch, inner, places]))
    } else {
        let matrices = weight.reshape([1, groups, out / groups, inner]);
        matrices.matmul(seen.reshape([batch, groups, inner, places]))
    };
    result.reshape([&[batch, out], sizes].concat())
}

fn range(start: usize, count: usize) -> Vec<usize> {
    (start..start + count).collect()
}

/// The gradient of the kernel: one contraction over samples and places for each group.
fn weight_gradient<'g>(
    x: Tensor<'g>,
    weight: Tensor<'g>,
    g: Tensor<'g>,
    how: &Convolution,
) -> Tensor<'g> {
    let (kernel, axes, groups) = (weight.shape(), how.stride.len(), how.groups);
    let seen = windows(x, &kernel, how);
    let dims = seen.shape().dims().to_vec();
    let inner: usize = kernel.dims()[1..].iter().product();
    let summed = dims[0] * dims[2..2 + axes].iter().product::<usize>();
    // [groups, n, out.., c / groups, kernel..]
    let order = [&[1, 0], &range(3, axes)[..], &[2], &range(3 + axes, axes)].concat();
    let seen = seen.reshape(grouped(&dims, 1, groups)).transpose(&order);
    // [groups, out / groups, n, out..]
    let order = [&[1, 2, 0], &range(3, axes)[..]].concat();
    let g = g.reshape(grouped(g.shape().dims(), 1, groups));
    let g = g.transpose(&order);
    let out = kernel.dims()[0];
    let result = if groups == 1 {
        let left = g.reshape([out, summed]);
        left.matmul(seen.reshape([summed, inner]))
    } else {
        let left = g.reshape([groups, out / groups, summed]);
        left.matmul(seen.reshape([groups, summed, inner]))
    };
    result.reshape(&kernel)
}

/// The gradient of the input, of exactly its size.
fn input_gradient<'g>(
    x: Tensor<'g>,
    weight: Tensor<'g>,
    g: Tensor<'g>,
    how: &Convolution,
) -> Tensor<'g> {
    let kernel = weight.shape();
    let apart = |axis| window(how, &kernel, axis).extent() <= how.stride[axis];
    if (0..how.stride.len()).all(apart) {
        return folded(x, weight, g, how);
    }
    let back = Convolution {
        dilation: how.dilation.clone(),
        groups: how.groups,
        ..Convolution::of(how.stride.len())
    };
    product(
        spread(&x.shape(), &kernel, g, how),
        flipped(weight, how.groups),
        &back,
    )
}

/// Where windows never meet, every element has the gradient of one tap.
fn folded<'g>(x: Tensor<'g>, weight: Tensor<'g>, g: Tensor<'g>, how: &Convolution) -> Tensor<'g> {
    let (kernel, axes, groups) = (weight.shape(), how.stride.len(), how.groups);
    let (out, inner) = (
        kernel.dims()[0],
        kernel.dims()[1..].iter().product::<usize>(),
    );
    let (batch, sizes) = (g.shape().dims()[0], g.shape().dims()[2..].to_vec());
    let places: usize = sizes.iter().product();
    let matrices = weight.reshape([1, groups, out / groups, inner]);
    let taps = matrices
        .swap_last()
        .matmul(g.reshape([batch, groups, out / groups, places]));
    // [n, c, kernel.., out..] → [n, c, out.., kernel..]
    let channels = x.shape().dims()[1];
    let taps = taps.reshape([&[batch, channels], &kernel.dims()[2..], &sizes].concat());
    let order = [&[0, 1], &range(2 + axes, axes)[..], &range(2, axes)].concat();
    let mut sum = taps.transpose(&order);
    for axis in (0..axes).rev() {
        let mut dims = sum.shape().dims().to_vec();
        dims.pop();
        let (low, high) = how.padding[axis];
        dims[axis + 2] = low + x.shape().dims()[axis + 2] + high;
        sum = fold(sum, window(how, &kernel, axis), &Shape::from(dims));
    }
    let shape = x.shape();
    let inside = shape.dims().iter().enumerate().map(|(axis, &count)| {
        let padding = axis.checked_sub(2).map(|axis| how.padding[axis]);
        Steps {
            start: padding.map_or(0, |(low, _)| low),
            count,
            step: 1,
        }
    });
    take(sum, inside.collect())
}

/// The result's gradient with the gaps that strides leave, so wide that the flipped kernel
/// has a place in it for each element of the input.
fn spread<'g>(x: &Shape, kernel: &Shape, g: Tensor<'g>, how: &Convolution) -> Tensor<'g> {
    let mut dims = g.shape().dims().to_vec();
    let mut kept: Vec<Steps> = dims.iter().map(|&dim| Steps::all(dim)).collect();
    let mut place = kept.clone();
    for (axis, &stride) in how.stride.iter().enumerate() {
        let reach = window(how, kernel, axis).extent() - 1;
        let (low, total) = (how.padding[axis].0, x.dims()[axis + 2] + reach);
        // Places that only padding saw have nowhere to go.
        let skipped = low.saturating_sub(reach).div_ceil(stride);
        let start = reach + skipped * stride - low;
        let fitting = total.saturating_sub(start).div_ceil(stride);
        let count = dims[axis + 2].saturating_sub(skipped).min(fitting);
        kept[axis + 2] = Steps {
            start: if count == 0 { 0 } else { skipped },
            count,
            step: 1,
        };
        place[axis + 2] = Steps {
            start: if count == 0 { 0 } else { start },
            count,
            step: stride,
        };
        dims[axis + 2] = total;
    }
    assemble(&[(take(g, kept), place)], &Shape::from(dims), 0.0)
}

/// The kernel with its taps in reverse order, and inputs and outputs exchanged.
fn flipped(weight: Tensor<'_>, groups: usize) -> Tensor<'_> {
    let dims = weight.shape().dims().to_vec();
    let (out, inner) = (dims[0], dims[1]);
    let taps: usize = dims[2..].iter().product();
    let mut flat = weight.reshape([out * inner, taps]);
    if taps > 1 {
        let graph = weight.graph();
        let index = |axis| graph.index([taps, taps], axis).cast(DType::F32);
        let last = graph.constant((taps - 1) as f64);
        let (zero, one) = (graph.constant(0.0), graph.constant(1.0));
        let reversed = (index(0) + index(1)).equal(last).select(one, zero);
        flat = flat.matmul(reversed);
    }
    let back = [&[inner * groups, out / groups], &dims[2..]].concat();
    flat.reshape([groups, out / groups, inner, taps])
        .transpose(&[0, 2, 1, 3])
        .reshape(back)
}

fn cases() -> Vec<Case> {
    let case = |x: &[usize], weight: &[usize], how: Convolution| {
        Case::with(
            Attributes::Convolution(how),
            &[x, weight],
            crate::ir::Domain::Uniform(-1.0, 1.0),
        )
    };
    let line = || Convolution::of(1);
    let plane = || Convolution::of(2);
    vec![
        case(&[2, 3, 7], &[4, 3, 3], line()),
        case(
            &[2, 2, 8],
            &[3, 2, 3],
            Convolution {
                stride: vec![2],
                padding: vec![(1, 2)],
                ..line()
            },
        ),
        case(&[2, 3, 5, 4], &[2, 3, 3, 2], plane()),
        case(&[2, 3, 3, 4], &[5, 3, 1, 1], plane()),
        case(
            &[2, 1, 6, 5],
            &[3, 1, 3, 3],
            Convolution {
                padding: vec![(1, 1), (1, 1)],
                ..plane()
            },
        ),
        case(
            &[1, 4, 7, 6],
            &[6, 2, 3, 2],
            Convolution {
                stride: vec![2, 3],
                padding: vec![(1, 0), (0, 2)],
                dilation: vec![2, 1],
                groups: 2,
            },
        ),
        // Depthwise.
        case(
            &[2, 3, 5, 5],
            &[3, 1, 3, 3],
            Convolution {
                padding: vec![(1, 1), (1, 1)],
                groups: 3,
                ..plane()
            },
        ),
        // Side by side, with a rest; more padding than the kernel reaches.
        case(
            &[2, 2, 5, 7],
            &[3, 2, 2, 3],
            Convolution {
                stride: vec![2, 3],
                ..plane()
            },
        ),
        case(
            &[1, 2, 4],
            &[2, 2, 2],
            Convolution {
                padding: vec![(3, 2)],
                ..line()
            },
        ),
        case(&[0, 2, 4], &[3, 2, 2], line()),
    ]
}

impl<'g> Tensor<'g> {
    /// The cross-correlation of this `[n, c, spatial..]` with `weight`
    /// `[out, c / groups, kernel..]`, along one or two spatial axes: `[n, out, spatial..]`.
    pub fn convolution(self, weight: Tensor<'g>, how: &Convolution) -> Tensor<'g> {
        let attributes = Attributes::Convolution(how.clone());
        self.graph()
            .apply(&CONVOLUTION, attributes, &[self, weight])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::autodiff::gradients;
    use crate::ir::{Array, Convolution, DType, Graph, NodeId, Shape};
    use crate::ops::{evaluate_nodes, expand};

    type Values = HashMap<String, Array>;

    fn numbers(shape: &[usize], seed: f64) -> Array {
        let mut count = seed;
        Array::from_fn(&Shape::from(shape), |_| {
            count += 1.0;
            (count * 12.9898).sin()
        })
    }

    /// The sum of the squares of the kernel's gradient, and its own gradient by the kernel and
    /// by the input.
    #[test]
    fn gradients_have_gradients() {
        let graph = Graph::new();
        let x = graph.input("x", [2, 2, 5, 4], DType::F32);
        let weight = graph.input("weight", [3, 2, 3, 2], DType::F32);
        let how = Convolution {
            stride: vec![2, 1],
            padding: vec![(1, 0), (0, 1)],
            ..Convolution::of(2)
        };
        graph.output("y", x.convolution(weight, &how).tanh());
        let (graph, _) = expand(&graph);
        let leaf = |name: &str| {
            let inputs = graph.inputs();
            let found = inputs.iter().find(|(known, _)| known == name);
            graph.tensor(found.expect("an input").1)
        };
        let (x, weight) = (leaf("x"), leaf("weight"));
        let y = graph.tensor(graph.outputs()[0].1);
        let first = gradients(&[(y, y)], &[weight])[0];
        let square = (first * first).sum_all();
        let second = gradients(&[(square, graph.constant(1.0))], &[weight, x]);
        assert!(graph.errors().is_empty(), "{:?}", graph.errors());

        let values = Values::from([
            ("x".to_owned(), numbers(&[2, 2, 5, 4], 0.0)),
            ("weight".to_owned(), numbers(&[3, 2, 3, 2], 90.0)),
        ]);
        let value = |values: &Values, id: NodeId| evaluate_nodes(&graph, values, &[id])[0].clone();
        for (name, gradient) in ["weight", "x"].iter().zip(second) {
            let found = value(&values, gradient.id());
            for element in [0, 7, 20] {
                let moved = |by: f64| {
                    let mut values = values.clone();
                    values.get_mut(*name).expect("an input").data[element] += by;
                    value(&values, square.id()).data[0]
                };
                let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let error = (numeric - found.data[element]).abs() / numeric.abs().max(1.0);
                assert!(
                    error < 1e-5,
                    "{name}[{element}]: {numeric} and {}",
                    found.data[element]
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let told = |x: [usize; 4], weight: [usize; 4], groups: usize| {
            let graph = Graph::new();
            let x = graph.input("x", x, DType::F32);
            let how = Convolution {
                groups,
                ..Convolution::of(2)
            };
            x.convolution(graph.input("weight", weight, DType::F32), &how);
            graph.errors()[0].to_string()
        };
        assert_eq!(
            told([1, 4, 6, 2], [4, 4, 3, 3], 1),
            "`convolution` has a window of 3 along spatial axis 1, but the padded input \
             [1, 4, 6, 2] has only 2 places there"
        );
        assert_eq!(
            told([1, 4, 6, 6], [4, 4, 3, 3], 2),
            "`convolution` of 4 channels in 2 groups needs a weight [4, 2, ..], got [4, 4, 3, 3]"
        );
        assert_eq!(
            told([1, 4, 6, 6], [4, 4, 3, 3], 3),
            "`convolution` cannot split 4 channels and 4 outputs into 3 groups"
        );
    }
}
