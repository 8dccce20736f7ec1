//! WGSL kernel templates.
