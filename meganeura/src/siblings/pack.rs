//! A graph over shared buffers, ready to be rewritten.

use super::Group;
use super::rewrite::Sites;
use crate::ir::Graph;

/// The same graph over buffers that hold the variables of `groups`: each is a slice of its buffer,
/// and new values of all that a buffer holds are computed as one.
pub fn pack(graph: &Graph, groups: &[Group]) -> Graph {
    Sites::new(graph, groups).rewritten()
}
