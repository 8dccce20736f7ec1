//! How things are done. All examples here run as tests.

pub mod dsl;
