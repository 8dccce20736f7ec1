//! Data sets in memory, and the files they come from.
//!
//! A [`Dataset`] is a table: every row is an example, every named field holds one `f32` or `u32`
//! array per row. Fields are named after the inputs of the model that is trained on them.
//!
//! ```
//! use meganeura::data::{Dataset, Field};
//!
//! let data = Dataset::new([
//!     Field::new("pixels", [2], vec![0.0, 0.1, 1.0, 1.1, 2.0, 2.1]),
//!     Field::new("label", [], vec![0_u32, 1, 2]),
//! ])?;
//! let (train, test) = data.split(0.34, 42)?;
//! assert_eq!((train.rows(), test.rows()), (2, 1));
//! for batch in train.batches(64)?.shuffled(42, 0) {
//!     assert_eq!(batch.get("pixels").unwrap().shape().dims(), [2, 2]);
//! }
//! # Ok::<(), meganeura::data::DataError>(())
//! ```

mod array;
mod batches;
mod dataset;
mod error;
pub mod idx;
mod mnist;

pub use array::{HostArray, Values};
pub use batches::{Batch, Batches};
pub use dataset::{Dataset, Field};
pub use error::DataError;
pub use mnist::Mnist;
