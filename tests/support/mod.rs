//! What several test files share.

pub mod interpreter;
pub mod samples;
