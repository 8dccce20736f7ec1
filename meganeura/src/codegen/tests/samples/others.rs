//! Rows by index, and attention.

use super::*;

pub(super) fn gather(width: usize) -> Sample {
    let kernel = GatherKernel {
        rounds: false,
        table: BufferId(0),
        indices: BufferId(1),
        output: BufferId(2),
        rows: 5,
        width,
        count: 6,
    };
    let buffers = vec![
        floats(5 * width),
        words(&[4, 0, 0, 5, 2, u32::MAX]),
        floats(6 * width),
    ];
    sample("gather", Action::Gather(kernel), buffers)
}

pub(super) fn scatter_add(width: usize) -> Sample {
    let kernel = ScatterAddKernel {
        updates: BufferId(0),
        indices: BufferId(1),
        output: BufferId(2),
        rows: 5,
        width,
        count: 6,
    };
    let buffers = vec![
        floats(6 * width),
        words(&[4, 0, 0, 5, 2, 0]),
        floats(5 * width),
    ];
    sample("scatter add", Action::ScatterAdd(kernel), buffers)
}

/// Attention of grouped heads in a packed projection, forward or backward.
pub(super) fn attention(width: usize, backward: bool) -> Sample {
    // Many heads are worked on one by one, few are cut along time.
    let batch = if width == 8 { 4 } else { 2 };
    let (queries, keys, heads) = (70, 150, 4);
    let (key_heads, value_width) = (heads / 2, width);
    // Keys and values lie beside each other.
    let row = key_heads * (width + value_width);
    let of_queries = |buffer, columns: usize| {
        access(
            buffer,
            &[queries * heads * columns, heads * columns, columns],
            usize::from(columns > 1),
        )
    };
    let of_keys = |offset, columns: usize| Access {
        offset,
        ..access(1, &[keys * row, row, columns], 1)
    };
    let pass = match backward {
        false => AttentionPass::Forward {
            output: Some(BufferId(3)),
            normalizer: Some(BufferId(4)),
        },
        true => AttentionPass::Backward {
            upstream: of_queries(3, value_width),
            normalizer: of_queries(4, 1),
            sums: of_queries(5, 1),
            query: Some(BufferId(6)),
            key: Some(BufferId(7)),
            value: Some(BufferId(8)),
        },
    };
    let kernel = AttentionKernel {
        rounds: false,
        batch: vec![batch],
        queries,
        keys,
        heads,
        group: 2,
        width,
        value_width,
        scale: 0.6,
        causal: true,
        window: Some(41),
        query: of_queries(0, width),
        key: of_keys(0, width),
        value: Some(of_keys(key_heads * width, value_width)),
        mask: Some(access(2, &[0, 0, keys], 1)),
        pass,
    };
    let (of_queries, of_keys) = (batch * queries * heads, batch * keys * key_heads);
    let mut sizes = vec![
        of_queries * width,
        batch * keys * row,
        queries * keys,
        of_queries * value_width,
        of_queries,
    ];
    if backward {
        sizes.extend([
            of_queries,
            of_queries * width,
            of_keys * width,
            of_keys * value_width,
        ]);
    }
    let name = if backward {
        "attention backward"
    } else {
        "attention"
    };
    let buffers = sizes.into_iter().map(floats).collect();
    sample(name, Action::Attention(Box::new(kernel)), buffers)
}
