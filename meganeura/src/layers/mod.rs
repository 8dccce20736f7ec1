//! Layers.
//!
//! Each is an ordinary [`Layer`](crate::model::Layer): a plain description, its shape rule and its
//! graph code in one place. None of them is known to the derive macro, so layers of other crates are
//! their equals.

mod activation;
mod arrange;
mod attention;
mod batch_norm;
mod combine;
mod convolution;
mod cross_attention;
mod dropout;
mod embedding;
mod feed_forward;
mod linear;
mod norm;
mod positions;
mod reshape;

pub use activation::{Gelu, LogSoftmax, Relu, Sigmoid, Silu, Softmax, Tanh};
pub use arrange::{Concat, GlobalAveragePool, Select, SwapLast, Upsample};
pub use attention::{Rope, SelfAttention};
pub use batch_norm::{BatchNorm, GroupNorm};
pub use combine::{Add, Multiply, PreNorm};
pub use convolution::{AvgPool2d, Conv1d, Conv2d, MaxPool2d};
pub use cross_attention::{Biases, CrossAttention};
pub use dropout::Dropout;
pub use embedding::{Embedding, Unembedding};
pub use feed_forward::SwiGlu;
pub use linear::Linear;
pub use norm::{LayerNorm, RmsNorm};
pub use positions::Positions;
pub use reshape::Flatten;
