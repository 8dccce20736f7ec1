//! From a graph to kernels.

pub mod kernel;
