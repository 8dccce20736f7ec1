//! The vocabulary every pass speaks: types, shapes, ops, graphs, scalars.
//!
//! Nothing here knows a pass. An op is described by an [`OpDef`] (the blocks live in
//! [`crate::ops`]); a [`Graph`] is an arena of nodes that name one; a [`Tensor`] is a
//! cheap handle into a graph.

mod array;
mod attention;
pub mod bf16;
mod convolution;
mod dtype;
mod graph;
pub mod html;
mod init;
mod loss;
mod op;
mod precision;
pub mod random;
mod region;
mod rotation;
mod scalar;
mod shape;
mod text;
mod treatment;

pub use array::Array;
pub use attention::{Attention, AttentionPart, Sight};
pub use convolution::{Convolution, Pool};
pub use dtype::DType;
pub use graph::{
    Graph, GraphError, IndexBound, LayerRecord, Node, NodeId, Tensor, Variable, VariableKind,
};
pub use init::Init;
pub use loss::{CrossEntropy, Labels};
pub use op::{
    Algebra, Attributes, Case, Domain, Evaluate, Lowering, Number, Op, OpDef, ShapeRule,
    TensorType, Vjp,
};
pub use precision::Precision;
pub use region::{Assembly, Steps, Window};
pub use rotation::{Pairs, Rotation};
pub use scalar::{Combine, ScalarOp};
pub use shape::{Layout, Shape};
pub use treatment::Treatment;
