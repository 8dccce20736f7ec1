//! Positions as rotations of pairs of numbers (Su et al., 2021).

use super::region::{assemble, take};
use super::rules::{BASE, floats};
use crate::ir::{
    Array, Attributes, Case, DType, Domain, Lowering, Number, OpDef, Pairs, Rotation, Shape, Steps,
    Tensor, Vjp,
};

pub const OPS: &[&OpDef] = &[&ROTARY];

/// Each pair of a row rotated by its position · base^(−2 · pair / width); position 0 stays.
pub static ROTARY: OpDef = OpDef {
    name: "rotary",
    shape: |attributes, x| {
        floats(x)?;
        let Attributes::Rotation(rotation) = attributes else {
            return Err("needs to know how to rotate".to_owned());
        };
        let shape = &x[0].shape;
        if rotation.axis + 1 >= shape.rank() || !shape.last().is_multiple_of(2) {
            return Err(format!(
                "rotates pairs of rows [.., time, .., even width], got {shape} with time along \
                 axis {}",
                rotation.axis
            ));
        }
        Ok(x[0].clone())
    },
    evaluate: |attributes, x, ty| {
        let Attributes::Rotation(rotation) = attributes else {
            return x[0].clone();
        };
        let (width, last) = (ty.shape.last(), ty.shape.rank() - 1);
        let half = width / 2;
        Array::from_fn(&ty.shape, |index| {
            let column = index[last];
            let (pair, is_first) = match rotation.pairs {
                Pairs::Interleaved => (column / 2, column % 2 == 0),
                Pairs::Halves => (column % half, column < half),
            };
            let mut other = index.to_vec();
            other[last] = match (rotation.pairs, is_first) {
                (Pairs::Interleaved, true) => column + 1,
                (Pairs::Interleaved, false) => column - 1,
                (Pairs::Halves, true) => column + half,
                (Pairs::Halves, false) => column - half,
            };
            let frequency = rotation
                .base
                .value()
                .powf(-2.0 * pair as f64 / width as f64);
            let (sine, cosine) = (index[rotation.axis] as f64 * frequency).sin_cos();
            let sine = if is_first { -sine } else { sine };
            x[0].at(index) * cosine + x[0].at(&other) * sine
        })
    },
    lowering: Lowering::Expand(|attributes, x| rotated(attributes, x[0], 1.0)),
    // A rotation's transpose turns back.
    vjp: Vjp::Rule(|attributes, _, _, g| vec![Some(rotated(attributes, g, -1.0))]),
    cases: || {
        let case = |dims: &[usize], axis, pairs| {
            let rotation = Rotation {
                axis,
                pairs,
                base: Number::new(50.0),
            };
            let domain = Domain::Uniform(-2.0, 2.0);
            Case::with(Attributes::Rotation(rotation), &[dims], domain)
        };
        vec![
            case(&[2, 5, 3, 8], 1, Pairs::Interleaved),
            case(&[2, 5, 3, 8], 1, Pairs::Halves),
            case(&[7, 6], 0, Pairs::Interleaved),
            case(&[2, 3, 4, 2], 2, Pairs::Halves),
            case(&[1, 1, 4], 1, Pairs::Interleaved),
        ]
    },
    ..BASE
};

/// The rotation by primitives; a sine of −1 turns back.
fn rotated<'g>(attributes: &Attributes, x: Tensor<'g>, sign: f64) -> Tensor<'g> {
    let Attributes::Rotation(rotation) = attributes else {
        return x;
    };
    let (graph, shape) = (x.graph(), x.shape());
    let (last, half) = (shape.rank() - 1, shape.last() / 2);
    let place = |which: usize| {
        let mut place: Vec<Steps> = shape.dims().iter().map(|&dim| Steps::all(dim)).collect();
        place[last] = match rotation.pairs {
            Pairs::Interleaved => Steps {
                start: which,
                count: half,
                step: 2,
            },
            Pairs::Halves => Steps {
                start: which * half,
                count: half,
                step: 1,
            },
        };
        place
    };
    let time = shape.dims()[rotation.axis];
    let along = |axis| graph.index([time, half], axis).cast(DType::F32);
    let exponent = along(1) * (-rotation.base.value().ln() / half.max(1) as f64);
    let angle = along(0) * exponent.exp();
    let mut table = vec![1; shape.rank()];
    (table[rotation.axis], table[last]) = (time, half);
    let table = Shape::from(table);
    let cosine = angle.cos().reshape(&table);
    let sine = (angle.sin() * sign).reshape(&table);
    let [a, b] = [0, 1].map(|which| take(x, place(which)));
    let pieces = [
        (a * cosine - b * sine, place(0)),
        (a * sine + b * cosine, place(1)),
    ];
    assemble(&pieces, &shape, 0.0)
}

impl<'g> Tensor<'g> {
    /// Rows rotated pair by pair: pair `i` of a row of `width` numbers turns by its index
    /// along `axis` times base^(−2i / width). Index 0 stays as it is.
    pub fn rope(self, axis: usize, pairs: Pairs, base: f64) -> Tensor<'g> {
        let rotation = Rotation {
            axis,
            pairs,
            base: Number::new(base),
        };
        self.graph()
            .apply(&ROTARY, Attributes::Rotation(rotation), &[self])
    }
}
