//! Pools over the last axes: one number for each window.

use super::region::{overlay, take};
use super::rules::{BASE, floats};
use crate::ir::{
    Array, Attributes, Case, Domain, Lowering, OpDef, Pool, Shape, Steps, Tensor, TensorType, Vjp,
    Window,
};

pub const OPS: &[&OpDef] = &[&MAX_POOL, &AVERAGE_POOL];

/// Windows of more elements are pooled one axis after the other.
const MANY: usize = 32;

fn pool_of(attributes: &Attributes) -> Option<(&Pool, bool)> {
    match attributes {
        Attributes::Pool(pool, counts) => Some((pool, *counts)),
        _ => None,
    }
}

/// One axis of a pool over an operand.
struct Axis {
    window: Window,
    low: usize,
    high: usize,
    /// Elements of padding at the end that no one asked for: a last window hangs over.
    over: usize,
    count: usize,
}

/// The axes of a pool, or what does not fit.
fn axes(pool: &Pool, x: &Shape) -> Result<Vec<Axis>, String> {
    let count = pool.size.len();
    if count == 0
        || [pool.stride.len(), pool.padding.len(), pool.dilation.len()] != [count; 3]
        || x.rank() < count
    {
        return Err(format!("of {pool} does not fit {x}"));
    }
    let first = x.rank() - count;
    let axis = |index: usize| {
        let window = Window {
            axis: first + index,
            size: pool.size[index],
            step: pool.stride[index],
            dilation: pool.dilation[index],
        };
        let ((low, high), length) = (pool.padding[index], x.dims()[first + index]);
        if window.size == 0 || window.step == 0 || window.dilation == 0 {
            return Err("needs a size, a stride and a dilation of at least 1".to_owned());
        }
        if low.max(high) > window.extent() / 2 {
            return Err(format!(
                "pads ({low}, {high}), more than half of its window of {}",
                window.extent()
            ));
        }
        let padded = low + length + high;
        let mut count = window.count(padded);
        if length == 0 || count == 0 {
            return Err(format!(
                "has a window of {} along axis {}, but the padded input {x} has only {padded} \
                 places there",
                window.extent(),
                window.axis
            ));
        }
        let rest = (padded - window.extent()) % window.step;
        if pool.ceil && rest > 0 && count * window.step < low + length {
            count += 1;
        }
        let seen = (count - 1) * window.step + window.extent();
        Ok(Axis {
            window,
            low,
            high,
            over: seen.saturating_sub(padded),
            count,
        })
    };
    (0..count).map(axis).collect()
}

fn pooled(attributes: &Attributes, operands: &[TensorType]) -> Result<TensorType, String> {
    floats(operands)?;
    let (pool, _) = pool_of(attributes).ok_or("needs a size")?;
    let mut dims = operands[0].shape.dims().to_vec();
    for axis in axes(pool, &operands[0].shape)? {
        dims[axis.window.axis] = axis.count;
    }
    Ok(TensorType::f32(dims))
}

/// Where each tap of the window falls in the padded operand, in row order.
fn taps(axes: &[Axis], padded: &Shape) -> Vec<Vec<Steps>> {
    let whole: Vec<Steps> = padded.dims().iter().map(|&dim| Steps::all(dim)).collect();
    axes.iter().fold(vec![whole], |places, axis| {
        let window = axis.window;
        let along = |place: &Vec<Steps>| {
            let place = place.clone();
            (0..window.size).map(move |tap| {
                let mut place = place.clone();
                place[window.axis] = Steps {
                    start: tap * window.dilation,
                    count: axis.count,
                    step: window.step,
                };
                place
            })
        };
        places.iter().flat_map(along).collect()
    })
}

/// The operand with what the pool sees around it.
fn padded<'g>(x: Tensor<'g>, axes: &[Axis], value: f64) -> Tensor<'g> {
    let mut padding = vec![(0, 0); x.shape().rank()];
    for axis in axes {
        padding[axis.window.axis] = (axis.low, axis.high + axis.over);
    }
    x.pad(&padding, value)
}

/// What lies inside of the padding.
fn inside<'g>(x: Tensor<'g>, axes: &[Axis], shape: &Shape) -> Tensor<'g> {
    let mut ranges: Vec<Steps> = shape.dims().iter().map(|&dim| Steps::all(dim)).collect();
    for axis in axes {
        ranges[axis.window.axis].start = axis.low;
    }
    take(x, ranges)
}

/// All elements each window of the operand sees, those outside of it left out.
fn seen(x: &Array, axes: &[Axis], index: &[usize], mut each: impl FnMut(f64)) {
    let dims: Vec<usize> = axes.iter().map(|axis| axis.window.size).collect();
    Array::from_fn(&Shape::from(dims), |tap| {
        let mut source = index.to_vec();
        for (axis, tap) in axes.iter().zip(tap) {
            let Window {
                axis: at,
                step,
                dilation,
                ..
            } = axis.window;
            let place = (index[at] * step + tap * dilation).wrapping_sub(axis.low);
            if place >= x.shape.dims()[at] {
                return 0.0;
            }
            source[at] = place;
        }
        each(x.at(&source));
        0.0
    });
}

/// The largest element of each window, NaN if any is; the gradient goes to the first of the
/// largest, in row order.
pub static MAX_POOL: OpDef = OpDef {
    name: "max_pool",
    shape: pooled,
    evaluate: |attributes, x, ty| {
        let axes = pool_of(attributes).and_then(|(pool, _)| axes(pool, &x[0].shape).ok());
        let axes = axes.unwrap_or_default();
        Array::from_fn(&ty.shape, |index| {
            let mut largest = f64::NEG_INFINITY;
            seen(x[0], &axes, index, |value| {
                if value.is_nan() || value > largest {
                    largest = value;
                }
            });
            largest
        })
    },
    lowering: Lowering::Expand(|attributes, x| {
        let Some(axes) = pool_of(attributes).and_then(|(pool, _)| axes(pool, &x[0].shape()).ok())
        else {
            return x[0];
        };
        let padded = padded(x[0], &axes, f64::NEG_INFINITY);
        let places = taps(&axes, &padded.shape()).into_iter();
        let largest = places.map(|place| take(padded, place));
        largest.reduce(Tensor::maximum).unwrap_or(padded)
    }),
    vjp: Vjp::Rule(|attributes, x, _, g| {
        let Some(axes) = pool_of(attributes).and_then(|(pool, _)| axes(pool, &x[0].shape()).ok())
        else {
            return vec![None];
        };
        let padded = padded(x[0], &axes, f64::NEG_INFINITY);
        let zero = g.graph().constant(0.0);
        // Who was the largest is found again rather than kept: that reads no more than
        // the operand.
        let seen = |place: &Vec<Steps>| take(padded, place.clone()).after(g);
        // What no earlier tap took goes to the first that is the largest, at last to the last.
        let mut rest = g;
        let mut pieces = Vec::new();
        let places = taps(&axes, &padded.shape());
        let seen: Vec<Tensor<'_>> = places.iter().map(seen).collect();
        let largest = seen.iter().copied().reduce(Tensor::maximum);
        let largest = largest.unwrap_or(padded);
        let last = places.len() - 1;
        for (index, place) in places.into_iter().enumerate() {
            if index == last {
                pieces.push((rest, place));
                break;
            }
            let hit = seen[index].equal(largest);
            pieces.push((hit.select(rest, zero), place));
            rest = hit.select(zero, rest);
        }
        let sum = overlay(&pieces, &padded.shape());
        vec![Some(inside(sum, &axes, &x[0].shape()))]
    }),
    cases: || {
        let mut cases = cases(false);
        for case in &mut cases.clone() {
            case.operands[0].1 = Domain::Integers(-2, 2);
            cases.push(case.clone());
        }
        cases
    },
    ..BASE
};

/// The mean of each window, over the elements of the operand in it or over those of the
/// padding too.
pub static AVERAGE_POOL: OpDef = OpDef {
    name: "average_pool",
    shape: pooled,
    evaluate: |attributes, x, ty| {
        let Some((pool, counts)) = pool_of(attributes) else {
            return x[0].clone();
        };
        let axes = axes(pool, &x[0].shape).unwrap_or_default();
        Array::from_fn(&ty.shape, |index| {
            let (mut sum, mut count) = (0.0, 0.0);
            seen(x[0], &axes, index, |value| {
                sum += value;
                count += 1.0;
            });
            if counts {
                let along = |axis: &Axis| {
                    let length = axis.low + x[0].shape.dims()[axis.window.axis] + axis.high;
                    let first = index[axis.window.axis] * axis.window.step;
                    let places =
                        (0..axis.window.size).map(|tap| first + tap * axis.window.dilation);
                    places.filter(|&place| place < length).count() as f64
                };
                count = axes.iter().map(along).product();
            }
            sum / count
        })
    },
    lowering: Lowering::Expand(|attributes, x| {
        let Some((pool, counts)) = pool_of(attributes) else {
            return x[0];
        };
        let Ok(axes) = axes(pool, &x[0].shape()) else {
            return x[0];
        };
        let padded = padded(x[0], &axes, 0.0);
        let places = taps(&axes, &padded.shape()).into_iter();
        let sum = places
            .map(|place| take(padded, place))
            .reduce(|sum, tap| sum + tap)
            .unwrap_or(padded);
        averaged(sum, &axes, &x[0].shape(), counts)
    }),
    vjp: Vjp::Rule(|attributes, x, _, g| {
        let Some((pool, counts)) = pool_of(attributes) else {
            return vec![None];
        };
        let Ok(axes) = axes(pool, &x[0].shape()) else {
            return vec![None];
        };
        let mut dims = x[0].shape().dims().to_vec();
        for axis in &axes {
            dims[axis.window.axis] += axis.low + axis.high + axis.over;
        }
        let shape = Shape::from(dims);
        let share = averaged(g, &axes, &x[0].shape(), counts);
        let places = taps(&axes, &shape).into_iter();
        let pieces: Vec<_> = places.map(|place| (share, place)).collect();
        vec![Some(inside(overlay(&pieces, &shape), &axes, &x[0].shape()))]
    }),
    cases: || [cases(false), cases(true)].concat(),
    ..BASE
};

/// Sums of windows divided by how many elements each sees.
fn averaged<'g>(sum: Tensor<'g>, axes: &[Axis], shape: &Shape, counts: bool) -> Tensor<'g> {
    let mut scale = 1.0;
    let mut result = sum;
    for axis in axes {
        let whole = axis.over == 0 && (counts || axis.low + axis.high == 0);
        if whole {
            scale /= axis.window.size as f64;
        } else {
            result = result / count(sum, axis, shape, counts);
        }
    }
    if scale == 1.0 { result } else { result * scale }
}

/// How many elements each window along one axis sees, shaped to divide the sums.
fn count<'g>(sum: Tensor<'g>, axis: &Axis, shape: &Shape, counts: bool) -> Tensor<'g> {
    let Window {
        axis: at,
        size,
        step,
        dilation,
    } = axis.window;
    let one = sum.graph().constant(1.0).broadcast([shape.dims()[at]]);
    let beside = if counts { 1.0 } else { 0.0 };
    let ones = one
        .pad(&[(axis.low, axis.high)], beside)
        .pad(&[(0, axis.over)], 0.0);
    let counted = ones.window(0, size, step, dilation).slice(0, 0, axis.count);
    let mut dims = vec![1; shape.rank()];
    dims[at] = axis.count;
    counted.sum(&[1]).reshape(dims)
}

fn cases(counts: bool) -> Vec<Case> {
    let case = |dims: &[usize], pool: Pool| {
        let attributes = Attributes::Pool(pool, counts);
        Case::with(attributes, &[dims], Domain::Uniform(-2.0, 2.0))
    };
    vec![
        case(&[2, 3, 6], Pool::of(&[2])),
        case(&[2, 2, 4, 6], Pool::of(&[2, 2])),
        case(&[1, 2, 5, 7], Pool::of(&[2, 3])),
        case(
            &[2, 7],
            Pool {
                stride: vec![2],
                padding: vec![(1, 1)],
                ..Pool::of(&[3])
            },
        ),
        case(
            &[1, 2, 6, 7],
            Pool {
                stride: vec![2, 1],
                padding: vec![(1, 1), (1, 0)],
                ceil: true,
                ..Pool::of(&[3, 2])
            },
        ),
        case(
            &[2, 8],
            Pool {
                stride: vec![3],
                dilation: vec![2],
                ceil: true,
                ..Pool::of(&[2])
            },
        ),
        case(&[2, 3, 3], Pool::of(&[3, 3])),
    ]
}

/// The same pool along one of its axes only.
fn along(pool: &Pool, index: usize) -> Pool {
    let mut one = Pool {
        ceil: pool.ceil,
        ..Pool::of(&vec![1; pool.size.len()])
    };
    // What is missing is an error, which a stride of 0 is too.
    one.size[index] = pool.size[index];
    one.stride[index] = pool.stride.get(index).copied().unwrap_or(0);
    one.dilation[index] = pool.dilation.get(index).copied().unwrap_or(0);
    one.padding[index] = pool.padding.get(index).copied().unwrap_or((0, 0));
    one
}

impl<'g> Tensor<'g> {
    /// The largest element of each window over the last axes; the gradient goes to the first
    /// of the largest, in row order.
    pub fn max_pool(self, pool: &Pool) -> Tensor<'g> {
        if pool.size.iter().product::<usize>() <= MANY {
            return self.pool(&MAX_POOL, pool, false);
        }
        // The largest of the rows' largest; the first row's wins where there are several.
        let each = (0..pool.size.len()).rev();
        each.fold(self, |x, index| {
            x.pool(&MAX_POOL, &along(pool, index), false)
        })
    }

    /// The mean of each window over the last axes: over the elements of this tensor in it, or,
    /// when `count_padding`, over those of the padding too.
    pub fn average_pool(self, pool: &Pool, count_padding: bool) -> Tensor<'g> {
        let (shape, pooled) = (self.shape(), pool.size.len());
        let axes: Vec<usize> = (0..shape.rank()).rev().take(pooled).collect();
        let whole = shape.dims().ends_with(&pool.size) && pool.dilation.iter().all(|&d| d == 1);
        if whole && pooled > 0 && pool.padding.iter().all(|&padding| padding == (0, 0)) {
            return self.mean(&axes);
        }
        if pool.size.iter().product::<usize>() <= MANY {
            return self.pool(&AVERAGE_POOL, pool, count_padding);
        }
        (0..pooled).rev().fold(self, |x, index| {
            x.pool(&AVERAGE_POOL, &along(pool, index), count_padding)
        })
    }

    fn pool(self, def: &'static OpDef, pool: &Pool, counts: bool) -> Tensor<'g> {
        self.graph()
            .apply(def, Attributes::Pool(pool.clone(), counts), &[self])
    }
}
