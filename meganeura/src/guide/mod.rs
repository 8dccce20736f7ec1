//! How things are done. All examples here run as tests.
//!
//! - [`dsl`]: models as structs
//! - [`training`]: from a model to trained parameters

pub mod dsl;
pub mod training;
