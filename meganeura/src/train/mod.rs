//! Training: losses, optimizers, and the loop around a [`Session`](crate::runtime::Session).
//!
//! A [`Trainer`] builds one graph of a model, its loss, the gradients and the optimizer's
//! update, and runs it once for each batch. The last, smaller batch of an epoch gets a graph
//! of its own; all graphs share the parameters.

mod bind;
mod budget;
mod error;
mod fit;
mod interrupt;
mod loss;
mod optimizer;
mod progress;
mod trainer;

pub use error::TrainError;
pub use fit::{Epoch, Fit, History};
pub use loss::Loss;
pub use optimizer::{AdamW, Optimizer, Sgd};
pub use trainer::{Evaluation, Trainer, add_updates};
