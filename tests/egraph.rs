//! The optimized graph equals the graph as given: values, NaNs, gradients; and gradients of
//! normalizations and losses come out in closed form.

// Every example brings what the examples share.
#![allow(clippy::duplicate_mod)]

mod egraph {
    pub mod contraction;
    pub mod examples;
    pub mod form;
    pub mod limits;
    pub mod offsets;
    pub mod random;
    pub mod support;
    pub mod table;
    pub mod training;
    #[path = "../../examples/common/workloads.rs"]
    pub mod workload_models;
    pub mod workloads;
}

#[allow(dead_code)]
#[path = "../examples/digits.rs"]
mod digits;
#[allow(dead_code)]
#[path = "../examples/mnist.rs"]
mod mnist;
#[allow(dead_code)]
#[path = "../examples/mnist_cnn.rs"]
mod mnist_cnn;
