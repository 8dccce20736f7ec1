//! Everything a model file needs: `use meganeura::prelude::*;`

pub use crate::ir::{DType, Graph, Init, Precision, Shape, Tensor};
pub use crate::layers::*;
pub use crate::model::{Layer, Model, Settings, Tie};
pub use crate::runtime::Device;
pub use crate::train::{AdamW, Fit, Loss, Sgd, Trainer};
pub use crate::walk::{Dim, Dims, Message, Shapes};
pub use crate::{Model, check, layer};
