//! Attention and its gradient (Vaswani et al., 2017; Dao et al., 2022): the scores of all
//! queries with all keys are never in memory at once.
//!
//! Operands lie with the heads inside time, as projections leave them: queries
//! `[.., queries, heads, width]`, keys `[.., keys, key heads, width]`, values alike. Each key
//! head serves as many neighbouring query heads. A mask is `[.., heads, queries, keys]`, truth
//! values that say what is seen or floats that are added to the scores.
//!
//! The backward pass computes probabilities again from the *normalizer* of each query, the
//! logarithm of its sum of exponentials. A query that sees nothing has an output of 0 and the
//! normalizer ∞, so that all its probabilities are e^−∞ = 0.

mod cases;
mod oracle;
mod second;

use self::oracle::Oracle;
use super::rules::{BASE, floats};
use crate::ir::{
    Attention, AttentionPart, Attributes, DType, Lowering, OpDef, Shape, Sight, Tensor, TensorType,
    Vjp,
};

pub const OPS: &[&OpDef] = &[
    &ATTENTION,
    &NORMALIZER,
    &QUERY_GRADIENT,
    &KEY_GRADIENT,
    &VALUE_GRADIENT,
];

/// softmax(scale · Q·Kᵀ, masked)·V for each head.
pub static ATTENTION: OpDef = OpDef {
    name: "attention",
    shape: |attributes, x| sizes(attributes, AttentionPart::Output, x),
    evaluate: |attributes, x, ty| Oracle::new(attributes, x, 3).output(ty),
    lowering: Lowering::Attention(AttentionPart::Output),
    vjp: Vjp::Rule(vjp),
    cases: || cases::of(AttentionPart::Output),
    ..BASE
};

/// ln Σ e^score over the keys that a query sees: `[.., queries, heads, 1]`.
static NORMALIZER: OpDef = OpDef {
    name: "attention_normalizer",
    shape: |attributes, x| sizes(attributes, AttentionPart::Normalizer, x),
    evaluate: |attributes, x, ty| Oracle::new(attributes, x, 2).normalizer(ty),
    lowering: Lowering::Attention(AttentionPart::Normalizer),
    vjp: Vjp::Rule(second::normalizer),
    cases: || cases::of(AttentionPart::Normalizer),
    ..BASE
};

/// The gradient of [`ATTENTION`] with respect to the queries.
static QUERY_GRADIENT: OpDef = OpDef {
    name: "attention_query_gradient",
    shape: |attributes, x| sizes(attributes, AttentionPart::QueryGradient, x),
    evaluate: |attributes, x, ty| Oracle::new(attributes, x, 6).query_gradient(ty),
    lowering: Lowering::Attention(AttentionPart::QueryGradient),
    vjp: Vjp::Rule(second::query_gradient),
    cases: || cases::of(AttentionPart::QueryGradient),
    ..BASE
};

/// The gradient of [`ATTENTION`] with respect to the keys.
static KEY_GRADIENT: OpDef = OpDef {
    name: "attention_key_gradient",
    shape: |attributes, x| sizes(attributes, AttentionPart::KeyGradient, x),
    evaluate: |attributes, x, ty| Oracle::new(attributes, x, 6).key_gradient(ty),
    lowering: Lowering::Attention(AttentionPart::KeyGradient),
    vjp: Vjp::Rule(second::key_gradient),
    cases: || cases::of(AttentionPart::KeyGradient),
    ..BASE
};

/// The gradient of [`ATTENTION`] with respect to the values.
static VALUE_GRADIENT: OpDef = OpDef {
    name: "attention_value_gradient",
    shape: |attributes, x| sizes(attributes, AttentionPart::ValueGradient, x),
    evaluate: |attributes, x, ty| Oracle::new(attributes, x, 6).value_gradient(ty),
    lowering: Lowering::Attention(AttentionPart::ValueGradient),
    vjp: Vjp::Rule(second::value_gradient),
    cases: || cases::of(AttentionPart::ValueGradient),
    ..BASE
};

/// How queries see keys; everything when the attribute is another, which no shape rule lets
/// through.
fn sight(attributes: &Attributes) -> Sight {
    match attributes {
        Attributes::Sight(sight) => *sight,
        _ => Attention::default().sight(1, None),
    }
}

/// The shape rule of all parts.
fn sizes(
    attributes: &Attributes,
    part: AttentionPart,
    x: &[TensorType],
) -> Result<TensorType, String> {
    let Attributes::Sight(sight) = attributes else {
        return Err("needs to know how queries see keys".to_owned());
    };
    floats(&x[..part.operands()])?;
    let (query, key) = (&x[0].shape, &x[1].shape);
    let rank = query.rank();
    let [outer @ .., queries, heads, width] = query.dims() else {
        return Err(format!(
            "takes queries [.., time, heads, width], got {query}"
        ));
    };
    let fits = key.rank() == rank
        && key.dims()[..rank - 3] == *outer
        && key.dims()[rank - 1] == *width
        && heads.is_multiple_of(key.dims()[rank - 2]);
    if !fits {
        return Err(format!(
            "takes keys of as many batches and of the queries' width, and a number of heads that \
             divides theirs, got queries {query} and keys {key}"
        ));
    }
    let (keys, key_heads) = (key.dims()[rank - 3], key.dims()[rank - 2]);
    let like = |time: usize, heads: usize, width: usize| {
        Shape::from([outer, &[time, heads, width]].concat())
    };
    let value_width = match part {
        AttentionPart::Normalizer => 1,
        _ => x[2].shape.last(),
    };
    let expected = |index: usize, shape: Shape, what: &str| match x[index].shape == shape {
        true => Ok(()),
        false => Err(format!("needs {what} {shape}, got {}", x[index].shape)),
    };
    if part != AttentionPart::Normalizer {
        expected(2, like(keys, key_heads, value_width), "values")?;
    }
    if part.is_gradient() {
        expected(3, like(*queries, *heads, value_width), "a gradient")?;
        expected(4, like(*queries, *heads, 1), "a normalizer")?;
        expected(5, like(*queries, *heads, 1), "sums")?;
    }
    if let Some(dtype) = sight.mask {
        let mask = x.get(part.operands()).ok_or("needs its mask")?;
        let shape = Shape::from([outer, &[*heads, *queries, keys]].concat());
        if mask.dtype != dtype || dtype == DType::U32 || mask.shape != shape {
            return Err(format!("takes a mask bool or f32 {shape}, got {mask}"));
        }
    }
    Ok(TensorType::f32(match part {
        AttentionPart::Output => like(*queries, *heads, value_width),
        AttentionPart::Normalizer => like(*queries, *heads, 1),
        AttentionPart::QueryGradient => query.clone(),
        AttentionPart::KeyGradient => key.clone(),
        AttentionPart::ValueGradient => x[2].shape.clone(),
    }))
}

/// The gradients of attention, from the normalizer and the sums of output · gradient.
fn vjp<'g>(
    attributes: &Attributes,
    x: &[Tensor<'g>],
    y: Tensor<'g>,
    g: Tensor<'g>,
) -> Vec<Option<Tensor<'g>>> {
    let graph = g.graph();
    let masks = &x[3..];
    let apply = |def, operands: &[Tensor<'g>]| {
        graph.apply(def, attributes.clone(), &[operands, masks].concat())
    };
    let normalizer = apply(&NORMALIZER, &x[..2]);
    let sums = (g * y).sum(&[y.shape().rank() - 1]);
    let operands = [x[0], x[1], x[2], g, normalizer, sums];
    let mut gradients = vec![
        Some(apply(&QUERY_GRADIENT, &operands)),
        Some(apply(&KEY_GRADIENT, &operands)),
        Some(apply(&VALUE_GRADIENT, &operands)),
    ];
    gradients.extend(masks.iter().map(|mask| {
        (mask.dtype() == DType::F32).then(|| second::score_gradient(attributes, &operands, masks))
    }));
    gradients
}

impl<'g> Tensor<'g> {
    /// softmax(scale · self·keyᵀ)·value over `[.., heads, time, width]` (or `[time, width]`),
    /// in memory that grows with time and not with its square. Keys and values may have fewer
    /// heads, each for as many neighbouring ones of these queries. A mask that broadcasts to
    /// `[.., heads, queries, keys]` tells what is seen (`Bool`) or is added to the scores
    /// (`F32`). A query that sees nothing gives 0.
    pub fn attention(
        self,
        key: Tensor<'g>,
        value: Tensor<'g>,
        how: &Attention,
        mask: Option<Tensor<'g>>,
    ) -> Tensor<'g> {
        if [self, key, value].iter().any(|x| x.is_poisoned()) {
            return self + key + value;
        }
        let (rank, shape) = (self.shape().rank(), self.shape());
        if rank == 2 {
            let [query, key, value] = [self, key, value].map(|x| x.unsqueeze(0));
            let width = value.shape().last();
            let result = query.attention(key, value, how, mask);
            return result.reshape([shape.dims()[0], width]);
        }
        if rank < 2 || [key, value].iter().any(|x| x.shape().rank() != rank) {
            return self.graph().fail(format!(
                "`attention` takes queries, keys and values [.., heads, time, width], got {shape}, \
                 {} and {}",
                key.shape(),
                value.shape()
            ));
        }
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 3, rank - 2);
        let [query, key, value] = [self, key, value].map(|x| x.transpose(&order));
        query
            .attention_in_time(key, value, how, mask)
            .transpose(&order)
    }

    /// The same over `[.., time, heads, width]`, as projections leave them; the mask is still
    /// one for `[.., heads, queries, keys]`.
    pub fn attention_in_time(
        self,
        key: Tensor<'g>,
        value: Tensor<'g>,
        how: &Attention,
        mask: Option<Tensor<'g>>,
    ) -> Tensor<'g> {
        let mut operands = vec![self, key, value];
        let (query, keys) = (self.shape(), key.shape());
        if let (Some(mask), [outer @ .., queries, heads, _]) = (mask, query.dims()) {
            let keys = keys.dims().iter().rev().nth(2).copied().unwrap_or(1);
            operands.push(mask.broadcast([outer, &[*heads, *queries, keys]].concat()));
        }
        let sight = how.sight(query.last(), mask.map(Tensor::dtype));
        self.graph()
            .apply(&ATTENTION, Attributes::Sight(sight), &operands)
    }
}
