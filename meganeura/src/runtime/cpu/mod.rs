//! The executor for machines without a GPU.
