//! Parts of tensors: taken out, put together, seen through a moving window.

use super::rules::BASE;
use crate::ir::{
    Array, Assembly, Attributes, Case, Domain, Graph, Lowering, Number, OpDef, Shape, Steps,
    Tensor, TensorType, Vjp, Window,
};

pub const OPS: &[&OpDef] = &[&SLICE, &ASSEMBLE, &WINDOW];

const ANY: Domain = Domain::Uniform(-2.0, 2.0);

fn ranges(attributes: &Attributes) -> &[Steps] {
    match attributes {
        Attributes::Slice(ranges) => ranges,
        _ => &[],
    }
}

/// The elements at evenly spaced places along every axis.
pub static SLICE: OpDef = OpDef {
    name: "slice",
    shape: |attributes, operands| {
        let (ranges, shape) = (ranges(attributes), &operands[0].shape);
        let fits = |(steps, &dim): (&Steps, &usize)| steps.step > 0 && steps.end() <= dim;
        if ranges.len() != shape.rank() || !ranges.iter().zip(shape.dims()).all(fits) {
            return Err(format!("cannot take {} of {shape}", listed(ranges)));
        }
        let dims: Vec<usize> = ranges.iter().map(|steps| steps.count).collect();
        Ok(TensorType::new(dims, operands[0].dtype))
    },
    evaluate: |attributes, x, ty| {
        Array::from_fn(&ty.shape, |index| {
            let places = ranges(attributes).iter().zip(index);
            let source: Vec<usize> = places
                .map(|(steps, i)| steps.start + i * steps.step)
                .collect();
            x[0].at(&source)
        })
    },
    lowering: Lowering::View(|attributes, layout, _| Some(layout.sliced(ranges(attributes)))),
    vjp: Vjp::Rule(|attributes, x, _, g| {
        let place = ranges(attributes).to_vec();
        vec![Some(assemble(&[(g, place)], &x[0].shape(), 0.0))]
    }),
    cases: || {
        let of = |dims: &[usize], ranges: &[(usize, usize, usize)]| {
            let ranges = ranges
                .iter()
                .map(|&(start, count, step)| Steps { start, count, step });
            Case::with(Attributes::Slice(ranges.collect()), &[dims], ANY)
        };
        vec![
            of(&[7], &[(2, 3, 1)]),
            of(&[7], &[(0, 3, 1)]),
            of(&[7], &[(6, 1, 1)]),
            of(&[9], &[(1, 3, 3)]),
            of(&[4, 6], &[(1, 2, 2), (0, 6, 1)]),
            of(&[4, 6], &[(0, 4, 1), (1, 4, 1)]),
            of(&[3, 8], &[(0, 2, 1), (3, 2, 4)]),
            of(&[2, 3, 4], &[(1, 1, 1), (0, 2, 2), (0, 4, 1)]),
            of(&[3, 4], &[(1, 0, 1), (0, 4, 1)]),
            of(&[3, 4], &[(3, 0, 1), (0, 4, 1)]),
        ]
    },
    ..BASE
};

fn listed(ranges: &[Steps]) -> String {
    let axes: Vec<String> = ranges.iter().map(Steps::to_string).collect();
    format!("[{}]", axes.join(", "))
}

/// Operands as pieces of the result, with one number everywhere else.
pub static ASSEMBLE: OpDef = OpDef {
    name: "assemble",
    shape: |attributes, operands| {
        let Some(assembly) = attributes.as_assembly() else {
            return Err("needs to know where pieces go".to_owned());
        };
        if let Some(problem) = assembly.problem() {
            return Err(problem);
        }
        let shape_of = |piece: &Vec<Steps>| {
            Shape::from(piece.iter().map(|steps| steps.count).collect::<Vec<_>>())
        };
        let fits = |(piece, ty): (&Vec<Steps>, &TensorType)| {
            shape_of(piece) == ty.shape && ty.dtype == operands[0].dtype
        };
        let pieces = &assembly.pieces;
        if pieces.len() != operands.len() || !pieces.iter().zip(operands).all(fits) {
            let types: Vec<String> = operands.iter().map(TensorType::to_string).collect();
            return Err(format!("cannot put {} there", types.join(" and ")));
        }
        match operands.first() {
            Some(ty) => Ok(TensorType::new(&assembly.shape, ty.dtype)),
            None => Err("needs at least one piece".to_owned()),
        }
    },
    evaluate: |attributes, x, ty| {
        let Some(Assembly { pieces, fill, .. }) = attributes.as_assembly() else {
            return x[0].clone();
        };
        Array::from_fn(&ty.shape, |index| {
            let here = pieces.iter().zip(x).find_map(|(piece, operand)| {
                let positions = piece.iter().zip(index);
                let source = positions.map(|(steps, &i)| steps.position(i));
                Some(operand.at(&source.collect::<Option<Vec<usize>>>()?))
            });
            here.unwrap_or(fill.value())
        })
    },
    lowering: Lowering::Assemble,
    vjp: Vjp::Rule(|attributes, x, _, g| {
        let pieces = attributes.as_assembly().map(|all| &all.pieces[..]);
        let place = |(_, piece): (_, &Vec<Steps>)| Some(take(g, piece.clone()));
        x.iter().zip(pieces.unwrap_or(&[])).map(place).collect()
    }),
    cases: assembly_cases,
    ..BASE
};

fn assembly_cases() -> Vec<Case> {
    let case = |shape: &[usize], fill: f64, pieces: &[&[(usize, usize, usize)]]| {
        let steps = |&(start, count, step): &(usize, usize, usize)| Steps { start, count, step };
        let pieces: Vec<Vec<Steps>> = pieces
            .iter()
            .map(|piece| piece.iter().map(steps).collect())
            .collect();
        let operands = pieces.iter().map(|piece| {
            let dims: Vec<usize> = piece.iter().map(|steps| steps.count).collect();
            (Shape::from(dims), ANY)
        });
        Case {
            operands: operands.collect(),
            attributes: Attributes::Assembly(Assembly {
                shape: Shape::from(shape),
                pieces,
                fill: Number::new(fill),
            }),
        }
    };
    vec![
        // Padding: before, after, both, between.
        case(&[6], 0.5, &[&[(2, 4, 1)]]),
        case(&[5, 7], 0.0, &[&[(1, 3, 1), (2, 4, 1)]]),
        case(&[5, 7], -1.0, &[&[(0, 3, 2), (1, 3, 2)]]),
        case(&[2, 4, 8], 0.0, &[&[(0, 2, 1), (1, 2, 1), (4, 4, 1)]]),
        // Concatenation, also of nothing.
        case(&[7], 0.0, &[&[(0, 3, 1)], &[(3, 4, 1)]]),
        case(
            &[4, 8],
            0.0,
            &[&[(0, 4, 1), (0, 3, 1)], &[(0, 4, 1), (3, 5, 1)]],
        ),
        case(
            &[5, 3],
            0.0,
            &[
                &[(0, 2, 1), (0, 3, 1)],
                &[(2, 0, 1), (0, 3, 1)],
                &[(2, 3, 1), (0, 3, 1)],
            ],
        ),
        // Interleaved, with a gap.
        case(&[9], 0.0, &[&[(0, 3, 3)], &[(1, 3, 3)]]),
        // Nothing in something, and nothing at all.
        case(&[3, 2], 2.0, &[&[(1, 0, 1), (0, 2, 1)]]),
        case(&[0, 2], 0.0, &[&[(0, 0, 1), (0, 2, 1)]]),
    ]
}

fn window_of(attributes: &Attributes) -> Option<Window> {
    match attributes {
        Attributes::Window(window) => Some(*window),
        _ => None,
    }
}

/// All windows along an axis, side by side; what each sees is a new last axis.
pub static WINDOW: OpDef = OpDef {
    name: "window",
    shape: |attributes, operands| {
        let shape = &operands[0].shape;
        let Some(window) = window_of(attributes) else {
            return Err("needs a size".to_owned());
        };
        let Some(&length) = shape.dims().get(window.axis) else {
            return Err(format!("has no axis {} in {shape}", window.axis));
        };
        if window.size == 0 || window.step == 0 || window.dilation == 0 {
            return Err("needs a size, a step and a dilation of at least 1".to_owned());
        }
        if window.extent() > length {
            return Err(format!(
                "of {} places along axis {} does not fit into {shape}",
                window.extent(),
                window.axis
            ));
        }
        let mut dims = shape.dims().to_vec();
        dims[window.axis] = window.count(length);
        dims.push(window.size);
        Ok(TensorType::new(dims, operands[0].dtype))
    },
    evaluate: |attributes, x, ty| {
        Array::from_fn(&ty.shape, |index| {
            let (Some((tap, rest)), Some(window)) = (index.split_last(), window_of(attributes))
            else {
                return f64::NAN;
            };
            let mut source = rest.to_vec();
            source[window.axis] = rest[window.axis] * window.step + tap * window.dilation;
            x[0].at(&source)
        })
    },
    lowering: Lowering::View(|attributes, layout, _| {
        window_of(attributes).map(|window| layout.windowed(window))
    }),
    vjp: Vjp::Rule(|attributes, x, _, g| {
        vec![window_of(attributes).map(|window| fold(g, window, &x[0].shape()))]
    }),
    cases: || {
        let of = |dims: &[usize], axis: usize, size: usize, step: usize, dilation: usize| {
            let window = Window {
                axis,
                size,
                step,
                dilation,
            };
            Case::with(Attributes::Window(window), &[dims], ANY)
        };
        vec![
            of(&[7], 0, 3, 1, 1),
            of(&[7], 0, 3, 2, 1),
            of(&[9], 0, 3, 2, 1),
            of(&[2, 8], 1, 2, 2, 1),
            of(&[2, 9], 1, 2, 3, 2),
            of(&[6, 3], 0, 3, 1, 2),
            of(&[2, 5, 3], 1, 1, 2, 1),
            of(&[3, 4], 1, 4, 1, 1),
        ]
    },
    ..BASE
};

/// The sum of what windows hold, back where they saw it.
pub(super) fn fold<'g>(g: Tensor<'g>, window: Window, shape: &Shape) -> Tensor<'g> {
    let dims = g.shape().dims().to_vec();
    let tap = dims.len() - 1;
    let pieces = (0..window.size).map(|index| {
        let mut place: Vec<Steps> = shape.dims().iter().map(|&dim| Steps::all(dim)).collect();
        place[window.axis] = Steps {
            start: index * window.dilation,
            count: dims[window.axis],
            step: window.step,
        };
        (g.slice(tap, index, 1).reshape(&dims[..tap]), place)
    });
    overlay(&pieces.collect::<Vec<_>>(), shape)
}

/// The sum of pieces that may meet, each at its place in zeros. Those that do not meet share
/// one assembly.
pub(super) fn overlay<'g>(pieces: &[(Tensor<'g>, Vec<Steps>)], shape: &Shape) -> Tensor<'g> {
    let mut layers: Vec<(Assembly, Vec<Tensor<'g>>)> = Vec::new();
    for (piece, place) in pieces.iter().cloned() {
        let room = layers.iter_mut().find(|(assembly, _)| {
            let mut others = assembly.pieces.iter();
            !others.any(|other| Steps::meet(other, &place))
        });
        match room {
            Some((assembly, pieces)) => {
                assembly.pieces.push(place);
                pieces.push(piece);
            }
            None => {
                let assembly = Assembly {
                    shape: shape.clone(),
                    pieces: vec![place],
                    fill: Number::new(0.0),
                };
                layers.push((assembly, vec![piece]));
            }
        }
    }
    let graph = pieces[0].0.graph();
    let layers = layers
        .into_iter()
        .map(|(assembly, pieces)| graph.apply(&ASSEMBLE, Attributes::Assembly(assembly), &pieces));
    layers
        .reduce(|sum, layer| sum + layer)
        .unwrap_or_else(|| graph.constant(0.0).broadcast(shape))
}

/// Pieces, each with its place, in a tensor of `shape` that is `fill` everywhere else.
pub(super) fn assemble<'g>(
    pieces: &[(Tensor<'g>, Vec<Steps>)],
    shape: &Shape,
    fill: f64,
) -> Tensor<'g> {
    let assembly = Assembly {
        shape: shape.clone(),
        pieces: pieces.iter().map(|(_, place)| place.clone()).collect(),
        fill: Number::new(fill),
    };
    let operands: Vec<Tensor<'g>> = pieces.iter().map(|(piece, _)| *piece).collect();
    if let [(piece, _)] = pieces
        && piece.shape() == *shape
    {
        return *piece;
    }
    operands[0]
        .graph()
        .apply(&ASSEMBLE, Attributes::Assembly(assembly), &operands)
}

/// The elements at these places along every axis.
pub(super) fn take<'g>(x: Tensor<'g>, ranges: Vec<Steps>) -> Tensor<'g> {
    let whole = |(steps, &dim): (&Steps, &usize)| *steps == Steps::all(dim);
    let shape = x.shape();
    if ranges.len() == shape.rank() && ranges.iter().zip(shape.dims()).all(whole) {
        return x;
    }
    x.graph().apply(&SLICE, Attributes::Slice(ranges), &[x])
}

impl<'g> Tensor<'g> {
    /// `size` elements along an axis, from `start` on.
    pub fn slice(self, axis: usize, start: usize, size: usize) -> Tensor<'g> {
        self.slice_step(axis, start, size, 1)
    }

    /// `size` elements along an axis, from `start` on, each `step` after the one before.
    pub fn slice_step(self, axis: usize, start: usize, size: usize, step: usize) -> Tensor<'g> {
        if self.is_poisoned() {
            return self;
        }
        let shape = self.shape();
        let mut ranges: Vec<Steps> = shape.dims().iter().map(|&dim| Steps::all(dim)).collect();
        let Some(range) = ranges.get_mut(axis) else {
            return self
                .graph()
                .fail(format!("`slice` has no axis {axis} in {shape}"));
        };
        *range = Steps {
            start,
            count: size,
            step,
        };
        take(self, ranges)
    }

    /// With `(low, high)` elements of `value` before and after those along every axis.
    pub fn pad(self, padding: &[(usize, usize)], value: f64) -> Tensor<'g> {
        if self.is_poisoned() {
            return self;
        }
        let shape = self.shape();
        if padding.len() != shape.rank() {
            return self.graph().fail(format!(
                "`pad` needs (low, high) for each axis of {shape}, got {padding:?}"
            ));
        }
        let axes = shape.dims().iter().zip(padding);
        let padded: Vec<usize> = axes.map(|(dim, (low, high))| low + dim + high).collect();
        let place = shape.dims().iter().zip(padding);
        let place = place.map(|(&dim, &(low, _))| Steps {
            start: low,
            count: dim,
            step: 1,
        });
        assemble(&[(self, place.collect())], &Shape::from(padded), value)
    }

    /// Tensors after each other along an axis: [`Graph::concat`] in their graph.
    ///
    /// # Panics
    /// When there is no tensor, and so no graph to note the error in; the graph's method notes it.
    pub fn concat(tensors: &[Tensor<'g>], axis: usize) -> Tensor<'g> {
        tensors[0].graph().concat(tensors, axis)
    }

    /// All windows of `size` places along an axis: the axis becomes the number of windows, and
    /// what each sees is a new last axis. A window starts `step` after the one before and sees
    /// every `dilation`th place.
    pub fn window(self, axis: usize, size: usize, step: usize, dilation: usize) -> Tensor<'g> {
        let window = Window {
            axis,
            size,
            step,
            dilation,
        };
        let shape = self.shape();
        let length = shape.dims().get(axis).copied().unwrap_or(0);
        // Side by side without gaps: nothing has to be summed on the way back.
        if dilation == 1 && step == size && size > 0 && length > 0 && length % size == 0 {
            let mut split = shape.dims().to_vec();
            split[axis] = length / size;
            split.insert(axis + 1, size);
            let mut order: Vec<usize> = (0..=shape.rank()).collect();
            order.remove(axis + 1);
            order.push(axis + 1);
            return self.reshape(split).transpose(&order);
        }
        self.graph()
            .apply(&WINDOW, Attributes::Window(window), &[self])
    }
}

impl Graph {
    /// Tensors after each other along an axis; they agree in all other sizes.
    pub fn concat<'g>(&'g self, tensors: &[Tensor<'g>], axis: usize) -> Tensor<'g> {
        let fail = |problem: String| self.fail(format!("`concat` {problem}"));
        let Some(&first) = tensors.first() else {
            return fail("needs at least one tensor".to_owned());
        };
        if let Some(poisoned) = tensors.iter().find(|tensor| tensor.is_poisoned()) {
            return *poisoned;
        }
        let shape = first.shape();
        if axis >= shape.rank() {
            return fail(format!("has no axis {axis} in {shape}"));
        }
        let but_axis = |shape: &Shape| {
            let axes = shape.dims().iter().enumerate();
            let others = axes.filter(|(other, _)| *other != axis);
            others.map(|(_, &dim)| dim).collect::<Vec<_>>()
        };
        let mut pieces = Vec::with_capacity(tensors.len());
        let mut dims = shape.dims().to_vec();
        dims[axis] = 0;
        for &tensor in tensors {
            let (ty, own) = (tensor.ty(), tensor.shape());
            if own.rank() != shape.rank()
                || but_axis(&own) != but_axis(&shape)
                || ty.dtype != first.dtype()
            {
                return fail(format!(
                    "along axis {axis} cannot put {ty} after {}",
                    first.ty()
                ));
            }
            let mut place: Vec<Steps> = own.dims().iter().map(|&dim| Steps::all(dim)).collect();
            place[axis].start = dims[axis];
            dims[axis] += own.dims()[axis];
            pieces.push((tensor, place));
        }
        assemble(&pieces, &Shape::from(dims), 0.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::{DType, Graph, Tensor};

    fn told(build: impl for<'g> Fn(Tensor<'g>) -> Tensor<'g>) -> String {
        let graph = Graph::new();
        assert!(build(graph.input("x", [3, 4], DType::F32)).is_poisoned());
        graph.errors()[0].to_string()
    }

    #[test]
    fn what_does_not_fit_is_told() {
        assert_eq!(
            told(|x| x.slice_step(1, 1, 3, 2)),
            "`slice` cannot take [0..3, 1..6 by 2] of [3, 4]"
        );
        assert_eq!(
            told(|x| x.slice(2, 0, 1)),
            "`slice` has no axis 2 in [3, 4]"
        );
        assert_eq!(
            told(|x| x.pad(&[(1, 1)], 0.0)),
            "`pad` needs (low, high) for each axis of [3, 4], got [(1, 1)]"
        );
        assert_eq!(
            told(|x| x.graph().concat(&[x, x.slice(0, 0, 2)], 1)),
            "`concat` along axis 1 cannot put f32 [2, 4] after f32 [3, 4]"
        );
        assert_eq!(
            told(|x| x.graph().concat(&[], 1)),
            "`concat` needs at least one tensor"
        );
        assert_eq!(
            told(|x| x.window(1, 3, 1, 2)),
            "`window` of 5 places along axis 1 does not fit into [3, 4]"
        );
    }

    #[test]
    fn what_changes_nothing_is_nothing() {
        let graph = Graph::new();
        let x = graph.input("x", [3, 4], DType::F32);
        let same = [
            x.slice(0, 0, 3),
            x.pad(&[(0, 0), (0, 0)], 1.0),
            graph.concat(&[x], 0),
        ];
        assert!(same.iter().all(|y| y.id() == x.id()));
    }
}
