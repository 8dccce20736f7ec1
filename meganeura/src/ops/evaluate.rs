//! The oracle: a graph's values in double precision.

use std::collections::HashMap;

use crate::ir::{Array, Attributes, Graph, Lowering, NodeId};

/// Every value of a graph, from those of its inputs and variables by name; a leaf without a
/// value is NaN everywhere.
pub fn evaluate(graph: &Graph, leaves: &HashMap<String, Array>) -> Vec<Array> {
    let mut values: Vec<Array> = Vec::new();
    for node in graph.nodes().iter() {
        let given = match (&node.op.attributes, node.op.def.lowering) {
            (Attributes::Named(name, ..), Lowering::Leaf) => leaves.get(name).cloned(),
            _ => None,
        };
        let value = given.unwrap_or_else(|| {
            let operands: Vec<&Array> = node
                .inputs
                .iter()
                .map(|input| &values[input.index()])
                .collect();
            (node.op.def.evaluate)(&node.op.attributes, &operands, &node.ty)
        });
        values.push(value);
    }
    values
}

/// The values of some nodes.
pub fn evaluate_nodes(
    graph: &Graph,
    leaves: &HashMap<String, Array>,
    ids: &[NodeId],
) -> Vec<Array> {
    let values = evaluate(graph, leaves);
    ids.iter().map(|id| values[id.index()].clone()).collect()
}
