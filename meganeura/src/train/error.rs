use crate::data::DataError;
use crate::interop::safetensors::SafetensorsError;
use crate::runtime::SessionError;

/// Why training stopped or could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The graph or the device.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file of parameters.
    #[error(transparent)]
    File(#[from] SafetensorsError),
    /// The data set and the model do not fit.
    #[error("{0}")]
    Mismatch(String),
    /// A training step needs more memory than it may have, whatever is computed again.
    #[error(
        "a step needs at least {least} bytes, the budget is {budget}: raise it, or make the batch or the \
         model smaller ({fixed} bytes are parameters, moments and inputs)"
    )]
    Memory {
        /// What it may have.
        budget: u64,
        /// The least that was found.
        least: u64,
        /// How much of that is there between steps, too.
        fixed: u64,
    },
    /// The loss became NaN or infinite. The parameters are those after that step.
    #[error(
        "the loss is {loss} at step {step}: lower the learning rate ({learning_rate} now), or look for \
         extreme values in the data"
    )]
    NotFinite {
        /// The loss.
        loss: f32,
        /// The step, counted from 1.
        step: u64,
        /// The learning rate in use.
        learning_rate: f64,
    },
}
