//! The optimized graph equals the graph as given: values, NaNs, gradients; and gradients of
//! normalizations and losses come out in closed form.

mod egraph {
    pub mod contraction;
    pub mod form;
    pub mod limits;
    pub mod random;
    pub mod support;
    pub mod table;
    pub mod training;
}
