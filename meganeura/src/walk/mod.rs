//! Shapes at compile time.
//!
//! `#[derive(Model)]` lets `cargo check` walk a model: every layer says, in a `const fn`, what it
//! puts out for what flows in, and the compiler evaluates these rules field by field. The types here
//! are what those rules speak about. They are plain `Copy` data with `const fn` methods, since
//! nothing else runs at compile time:
//!
//! - [`Dim`]: one size, perhaps with a free name in it (`2*time - 1`), or not known;
//! - [`Dims`]: the sizes and the dtype of one tensor, with the name the reader knows it by;
//! - [`Shapes`]: all tensors that flow along an edge, or a [`Message`] saying why there are none;
//! - [`Message`]: a sentence put together at compile time.
//!
//! A rule never panics. **Errors are data**: a rule returns [`Shapes::fail`] with a sentence, and the
//! derive reports it at the field, as `` layer `name` `` followed by the sentence. What comes after
//! a failed layer is unknown, so one mistake gives one error.
//!
//! The same rules run once more when a graph is built, then with numbers for all free names.

mod bind;
pub(crate) mod carry;
mod dim;
mod dims;
mod message;
mod shapes;

pub use bind::{Bindings, Entry, TensorSpec};
pub use carry::{Carry, Value};
pub use dim::Dim;
pub use dims::Dims;
pub use message::Message;
pub use shapes::Shapes;

/// Whether two strings are equal, at compile time.
pub(crate) const fn same_text(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}
