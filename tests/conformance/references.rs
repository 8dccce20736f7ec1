//! What PyTorch computed, written with our own ops.

use meganeura::ir::{Attention, Convolution, CrossEntropy, DType, Pairs, Pool, Tensor};

/// One operation that PyTorch computed: which it is, and the names of its operands.
pub type Reference = (
    &'static str,
    &'static [&'static str],
    for<'g> fn(&[Tensor<'g>]) -> Tensor<'g>,
);

const EPSILON: f64 = 1e-5;

pub const REFERENCES: &[Reference] = &[
    ("softmax", &["x"], |x| x[0].softmax()),
    ("softmax_rank_3", &["x"], |x| x[0].softmax()),
    ("log_softmax", &["x"], |x| x[0].log_softmax()),
    ("layer_norm", &["x", "weight", "bias"], |x| {
        x[0].layer_norm(x[1], x[2], EPSILON)
    }),
    ("layer_norm_flat", &["x", "weight", "bias"], |x| {
        x[0].layer_norm(x[1], x[2], EPSILON)
    }),
    ("layer_norm_rank_3", &["x", "weight", "bias"], |x| {
        x[0].layer_norm(x[1], x[2], EPSILON)
    }),
    ("rms_norm", &["x", "weight"], |x| {
        x[0].rms_norm(x[1], EPSILON)
    }),
    ("rms_norm_flat", &["x", "weight"], |x| {
        x[0].rms_norm(x[1], EPSILON)
    }),
    ("gelu_tanh", &["x"], |x| x[0].gelu()),
    ("gelu_exact", &["x"], |x| x[0].gelu_exact()),
    ("silu", &["x"], |x| x[0].silu()),
    ("cross_entropy", &["logits", "labels"], |x| {
        x[0].cross_entropy(x[1])
    }),
    ("cross_entropy_large", &["logits", "labels"], |x| {
        x[0].cross_entropy(x[1])
    }),
    ("cross_entropy_rank_3", &["logits", "labels"], |x| {
        x[0].cross_entropy(x[1])
    }),
    ("embedding", &["table", "indices"], |x| x[0].gather(x[1])),
    ("mean_squared_error", &["prediction", "target"], |x| {
        x[0].mean_squared_error(x[1])
    }),
];

/// A convolution along as many axes as the operands have, changed as said.
fn convolution<'g>(x: &[Tensor<'g>], change: impl Fn(&mut Convolution)) -> Tensor<'g> {
    let mut how = Convolution::of(x[0].shape().rank() - 2);
    change(&mut how);
    x[0].convolution(x[1], &how)
}

/// A pool of this size, changed as said.
fn pool(size: &[usize], change: impl Fn(&mut Pool)) -> Pool {
    let mut pool = Pool::of(size);
    change(&mut pool);
    pool
}

pub const WINDOWS: &[Reference] = &[
    ("conv1d", &["x", "weight"], |x| convolution(x, |_| ())),
    ("conv1d_strided", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.stride = vec![2];
            how.padding = vec![(2, 2)];
            how.dilation = vec![2];
        })
    }),
    ("conv2d", &["x", "weight", "bias"], |x| {
        convolution(x, |how| how.padding = vec![(1, 1), (1, 1)]) + x[2].reshape([4, 1, 1])
    }),
    ("conv2d_strided", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.stride = vec![2, 3];
            how.padding = vec![(0, 0), (2, 2)];
        })
    }),
    ("conv2d_groups", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.padding = vec![(2, 2), (1, 1)];
            how.dilation = vec![2, 1];
            how.groups = 2;
        })
    }),
    ("conv2d_depthwise", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.stride = vec![2, 2];
            how.padding = vec![(1, 1), (1, 1)];
            how.groups = 3;
        })
    }),
    ("conv2d_patches", &["x", "weight"], |x| {
        convolution(x, |how| how.stride = vec![2, 3])
    }),
    ("conv2d_uneven", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.stride = vec![2, 2];
            how.padding = vec![(0, 1), (0, 3)];
        })
    }),
    ("max_pool", &["x"], |x| x[0].max_pool(&Pool::of(&[2, 2]))),
    ("max_pool_ties", &["x"], |x| {
        x[0].max_pool(&Pool::of(&[2, 2]))
    }),
    ("max_pool_overlap", &["x"], |x| {
        x[0].max_pool(&pool(&[3, 3], |pool| {
            pool.stride = vec![2, 2];
            pool.padding = vec![(1, 1), (1, 1)];
            pool.ceil = true;
        }))
    }),
    ("max_pool_dilated", &["x"], |x| {
        x[0].max_pool(&pool(&[3], |pool| {
            pool.stride = vec![2];
            pool.padding = vec![(1, 1)];
            pool.dilation = vec![2];
        }))
    }),
    ("max_pool_large", &["x"], |x| {
        x[0].max_pool(&pool(&[7, 7], |pool| pool.stride = vec![3, 3]))
    }),
    ("average_pool", &["x"], |x| {
        let pool = pool(&[3, 3], |pool| {
            pool.stride = vec![2, 2];
            pool.padding = vec![(1, 1), (1, 1)];
            pool.ceil = true;
        });
        x[0].average_pool(&pool, true)
    }),
    ("average_pool_true", &["x"], |x| {
        let pool = pool(&[3, 2], |pool| {
            pool.stride = vec![2, 2];
            pool.padding = vec![(1, 1), (1, 1)];
            pool.ceil = true;
        });
        x[0].average_pool(&pool, false)
    }),
    ("average_pool_global", &["x"], |x| {
        x[0].average_pool(&Pool::of(&[5, 4]), true)
    }),
    ("pad", &["x"], |x| x[0].pad(&[(0, 3), (1, 2)], 0.5)),
    ("concat", &["a", "b"], |x| {
        x[0].graph().concat(&[x[0], x[1], x[0]], 1)
    }),
];

/// Attention of the operands in the fixture's order.
fn attend<'g>(x: &[Tensor<'g>], how: Attention) -> Tensor<'g> {
    x[0].attention(x[1], x[2], &how, x.get(3).copied())
}

const QKV: &[&str] = &["query", "key", "value"];
const MASKED: &[&str] = &["query", "key", "value", "mask"];
const LABELLED: &[&str] = &["logits", "labels"];

const fn labels(ignore_index: Option<u32>, label_smoothing: f64) -> CrossEntropy {
    CrossEntropy {
        ignore_index,
        label_smoothing,
    }
}

pub const ATTENTION: &[Reference] = &[
    ("attention", QKV, |x| attend(x, Attention::default())),
    ("attention_causal", QKV, |x| attend(x, Attention::causal())),
    ("attention_offset", QKV, |x| attend(x, Attention::causal())),
    ("attention_window", QKV, |x| {
        let window = Some(3);
        attend(
            x,
            Attention {
                window,
                ..Attention::causal()
            },
        )
    }),
    ("attention_near", QKV, |x| {
        let window = Some(3);
        attend(
            x,
            Attention {
                window,
                ..Attention::default()
            },
        )
    }),
    ("attention_grouped", QKV, |x| {
        let scale = Some(0.3);
        attend(
            x,
            Attention {
                scale,
                ..Attention::causal()
            },
        )
    }),
    ("attention_bias", MASKED, |x| {
        attend(x, Attention::default())
    }),
    ("attention_mask", MASKED, |x| {
        let mask = x[3].cast(DType::Bool);
        attend(&[x[0], x[1], x[2], mask], Attention::default())
    }),
    ("rope_interleaved", &["x"], |x| {
        x[0].rope(2, Pairs::Interleaved, 100.0)
    }),
    ("rope_halves", &["x"], |x| {
        x[0].rope(2, Pairs::Halves, 100.0)
    }),
    ("masked_softmax", &["x", "seen"], |x| {
        x[0].masked_softmax(x[1].cast(DType::Bool))
    }),
    ("cross_entropy_ignoring", LABELLED, |x| {
        x[0].cross_entropy_with(x[1], &labels(Some(1), 0.0))
    }),
    ("cross_entropy_all_ignored", LABELLED, |x| {
        x[0].cross_entropy_with(x[1], &labels(Some(2), 0.0))
    }),
    ("cross_entropy_smoothed", LABELLED, |x| {
        x[0].cross_entropy_with(x[1], &labels(None, 0.1))
    }),
    ("cross_entropy_smoothed_ignoring", LABELLED, |x| {
        x[0].cross_entropy_with(x[1], &labels(Some(1), 0.2))
    }),
    ("cross_entropy_rows", LABELLED, |x| {
        x[0].cross_entropy_rows_with(x[1], &labels(Some(1), 0.2))
    }),
    ("binary_cross_entropy", &["logits", "target"], |x| {
        x[0].binary_cross_entropy(x[1])
    }),
];
