//! What generated code refers to. Nothing here is for use by hand, and all of it may change.

pub use crate::ir::{DType, Graph, Init, Tensor, Treatment};
pub use crate::model::{Flow, Layer, Model, Part, Repetition, Run, Settings, Tie};
pub use crate::walk::carry::{
    At, Base, Carry, Field, Input, Joined, Named, Output, Pick, Pieces, Rule, Set, Setting,
    Standalone, Sum, Unknown, Value, Walk, after, before, first_missing, leaving, opaque, plus,
    report, report_model, report_output, stopped, whole,
};
pub use crate::walk::{Dim, Dims, Entry, Shapes, TensorSpec};
pub use std::option::Option;
pub use std::string::String;
pub use std::vec::Vec;

/// The configuration of a part.
pub type ConfigOf<L> = <L as Part>::Config;

/// A generic model, checked once its parameters are known.
pub trait Checked {
    /// Reports all problems.
    const CHECK: ();
}

/// What stands in for a required setting until somebody sets it.
#[diagnostic::on_unimplemented(
    message = "a setting of type `{Self}` needs a default",
    label = "write `= ...` after this type",
    note = "only numbers and `bool` can be required settings without a default"
)]
pub trait Placeholder {
    /// Any value.
    const PLACEHOLDER: Self;
}

macro_rules! placeholders {
    ($($ty:ty = $value:expr),*) => {
        $(#[diagnostic::do_not_recommend] impl Placeholder for $ty { const PLACEHOLDER: $ty = $value; })*
    };
}

placeholders!(
    usize = 1,
    u64 = 1,
    u32 = 1,
    u16 = 1,
    u8 = 1,
    isize = 1,
    i64 = 1,
    i32 = 1,
    i16 = 1
);
placeholders!(i8 = 1, f32 = 1.0, f64 = 1.0, bool = false);

/// What flows into a model checked against what it declares: the rule of a model when it is built.
/// What it puts out is found by building it.
#[must_use]
pub fn entered(inputs: &Shapes, declared: &[TensorSpec]) -> Shapes {
    let entry = Entry::new("", false, inputs, declared);
    if entry.inputs.failed() {
        entry.inputs
    } else {
        Shapes::UNKNOWN
    }
}

/// The size that a name of `config` stands for: the one that the description keeps, else one that was
/// given, else itself.
#[must_use]
pub fn size(name: &'static str, kept: Option<usize>, given: &[(&str, usize)]) -> Dim {
    let given = given.iter().find(|(known, _)| *known == name);
    match kept.or(given.map(|(_, size)| *size)) {
        Some(size) => Dim::of(size),
        None => Dim::free(name),
    }
}

/// A size in a declared shape. As a field it gives the plainest error when it is none.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The size.
    pub is: usize,
}

impl Size {
    /// As a dim.
    #[must_use]
    pub const fn dim(self) -> Dim {
        Dim::of(self.is)
    }
}

/// The argument of `init(...)`, likewise.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// How parameters start.
    pub is: Init,
}

/// What the `forward` of a leaf layer may return.
#[diagnostic::on_unimplemented(
    message = "`forward` returns one tensor, a tuple or an array of them, or a `Vec`, not `{Self}`",
    label = "not a tensor"
)]
pub trait Tensors<'g> {
    /// As a list.
    fn into_vec(self) -> Vec<Tensor<'g>>;
}

#[diagnostic::do_not_recommend]
impl<'g> Tensors<'g> for Tensor<'g> {
    fn into_vec(self) -> Vec<Tensor<'g>> {
        vec![self]
    }
}

#[diagnostic::do_not_recommend]
impl<'g> Tensors<'g> for (Tensor<'g>, Tensor<'g>) {
    fn into_vec(self) -> Vec<Tensor<'g>> {
        vec![self.0, self.1]
    }
}

#[diagnostic::do_not_recommend]
impl<'g> Tensors<'g> for (Tensor<'g>, Tensor<'g>, Tensor<'g>) {
    fn into_vec(self) -> Vec<Tensor<'g>> {
        vec![self.0, self.1, self.2]
    }
}

#[diagnostic::do_not_recommend]
impl<'g, const N: usize> Tensors<'g> for [Tensor<'g>; N] {
    fn into_vec(self) -> Vec<Tensor<'g>> {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<'g> Tensors<'g> for Vec<Tensor<'g>> {
    fn into_vec(self) -> Vec<Tensor<'g>> {
        self
    }
}

/// What a leaf layer says to another number of values than it takes.
#[must_use]
pub fn wrong_count(graph: &Graph, wanted: usize, given: usize) -> Vec<Tensor<'_>> {
    let plural = if wanted == 1 { "" } else { "s" };
    vec![graph.fail(format!("takes {wanted} value{plural} but is given {given}"))]
}
