use crate::ir::{Attention, AttentionPart, Attributes, Case, DType, Domain, Shape};

/// Sizes: batches, queries, keys, heads, key heads, width, width of values.
type Sizes = [usize; 7];

/// Where a part is tried.
pub(super) fn of(part: AttentionPart) -> Vec<Case> {
    let all = Attention::default();
    let causal = Attention::causal();
    let within = |window, causal| Attention {
        scale: Some(0.7),
        causal,
        window: Some(window),
    };
    let mut cases = vec![
        case(part, [2, 3, 5, 2, 2, 4, 4], all, None),
        case(part, [1, 6, 6, 4, 2, 8, 4], causal, None),
        case(part, [1, 3, 7, 3, 1, 3, 5], causal, None),
        case(part, [1, 9, 9, 1, 1, 4, 4], within(3, true), None),
        case(part, [1, 7, 9, 1, 1, 4, 4], within(2, false), None),
        case(part, [2, 4, 5, 2, 1, 4, 4], all, Some(DType::F32)),
    ];
    if part == AttentionPart::Output {
        // Past the ends of tiles.
        cases.push(case(part, [1, 60, 140, 2, 1, 4, 4], causal, None));
    }
    if part != AttentionPart::Normalizer {
        // Some rows see nothing: those before the first key, and where the mask leaves none.
        cases.push(case(part, [1, 5, 3, 1, 1, 4, 4], causal, None));
        cases.push(case(part, [2, 6, 2, 2, 2, 4, 4], all, Some(DType::Bool)));
    }
    cases
}

fn case(part: AttentionPart, sizes: Sizes, how: Attention, mask: Option<DType>) -> Case {
    let [batches, queries, keys, heads, key_heads, width, value_width] = sizes;
    let floats = |time, heads, width| {
        let shape = Shape::from([batches, time, heads, width]);
        (shape, Domain::Uniform(-1.5, 1.5))
    };
    let mut operands = vec![
        floats(queries, heads, width),
        floats(keys, key_heads, width),
        floats(keys, key_heads, value_width),
        floats(queries, heads, value_width),
        (
            Shape::from([batches, queries, heads, 1]),
            Domain::Uniform(0.5, 2.5),
        ),
        floats(queries, heads, 1),
    ];
    operands.truncate(part.operands());
    let domain = match mask {
        Some(DType::Bool) => Domain::Truth,
        _ => Domain::Uniform(-1.0, 1.0),
    };
    if mask.is_some() {
        operands.push((Shape::from([batches, heads, queries, keys]), domain));
    }
    Case {
        attributes: Attributes::Sight(how.sight(width, mask)),
        operands,
    }
}
