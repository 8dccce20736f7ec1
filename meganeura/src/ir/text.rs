use std::fmt::{self, Write};

use super::{Attributes, Graph, Node, NodeId, Rotation};

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attributes::None => Ok(()),
            Attributes::Number(number) => write!(f, "{}", number.value()),
            Attributes::Axes(axes) => write!(f, "axes {axes:?}"),
            Attributes::Permutation(permutation) => write!(f, "axes {permutation:?}"),
            Attributes::Shape(shape) => write!(f, "{shape}"),
            Attributes::Rows(rows) => write!(f, "rows {rows}"),
            Attributes::ShapeAxis(_, axis) => write!(f, "axis {axis}"),
            Attributes::DType(dtype) => write!(f, "{dtype}"),
            Attributes::Rotation(Rotation { axis, pairs, base }) => {
                write!(f, "axis {axis}, {pairs:?}, base {}", base.value())
            }
            Attributes::Labels(labels) => {
                write!(f, "smoothing {}", labels.smoothing.value())?;
                match labels.ignore {
                    Some(ignore) => write!(f, ", ignore {ignore}"),
                    None => Ok(()),
                }
            }
            Attributes::Sight(sight) => {
                write!(f, "scale {}", sight.scale.value())?;
                if sight.causal {
                    f.write_str(", causal")?;
                }
                match sight.window {
                    Some(window) => write!(f, ", window {window}"),
                    None => Ok(()),
                }
            }
            Attributes::Slice(ranges) => {
                let axes: Vec<String> = ranges.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", axes.join(", "))
            }
            Attributes::Assembly(assembly) => write!(f, "{assembly}"),
            Attributes::Window(window) => write!(f, "{window}"),
            Attributes::Convolution(convolution) => write!(f, "{convolution}"),
            Attributes::Pool(pool, true) => write!(f, "{pool}, padding counts"),
            Attributes::Pool(pool, false) => write!(f, "{pool}"),
            Attributes::Named(name, ..) => write!(f, "{name}"),
        }
    }
}

/// The op with its attributes: `sum(axes [1])`.
fn label(node: &Node) -> String {
    match node.op.attributes.to_string() {
        attributes if attributes.is_empty() => node.op.def.name.to_owned(),
        attributes => format!("{}({attributes})", node.op.def.name),
    }
}

impl fmt::Display for Graph {
    /// One line for each node, then outputs and updates:
    ///
    /// ```
    /// use meganeura::ir::{DType, Graph};
    ///
    /// let graph = Graph::new();
    /// let x = graph.input("x", [2, 3], DType::F32);
    /// graph.output("y", x.exp().sum(&[1]));
    /// assert_eq!(graph.to_string(), "\
    /// %0 = input(x) : f32 [2, 3]
    /// %1 = exp(%0) : f32 [2, 3]
    /// %2 = sum(%1; axes [1]) : f32 [2, 1]
    /// y = %2
    /// ");
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes();
        for (index, node) in nodes.iter().enumerate() {
            let mut arguments: Vec<String> = node
                .inputs
                .iter()
                .map(|input| format!("%{}", input.index()))
                .collect();
            let attributes = node.op.attributes.to_string();
            let operands = arguments.join(", ");
            arguments = [operands, attributes]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect();
            let (name, scope) = (node.op.def.name, self.scope_path(node.scope));
            let place = if scope.is_empty() {
                String::new()
            } else {
                format!("  # {scope}")
            };
            writeln!(
                f,
                "%{index} = {name}({}) : {}{place}",
                arguments.join("; "),
                node.ty
            )?;
        }
        for (name, id) in self.outputs() {
            writeln!(f, "{name} = %{}", id.index())?;
        }
        for (variable, value) in self.updates() {
            writeln!(f, "%{} := %{}", variable.index(), value.index())?;
        }
        Ok(())
    }
}

impl Graph {
    /// The graph in the DOT language, for Graphviz: one box for each node, grouped by layer.
    pub fn to_dot(&self) -> String {
        let nodes = self.nodes();
        let mut text = String::from("digraph {\n  node [shape=box, fontname=monospace];\n");
        let mut scopes: Vec<u32> = nodes.iter().map(|node| node.scope).collect();
        scopes.sort_unstable();
        scopes.dedup();
        for scope in scopes {
            let path = self.scope_path(scope);
            if !path.is_empty() {
                let _ = writeln!(text, "  subgraph cluster_{scope} {{ label={path:?};");
            }
            for (index, node) in nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| node.scope == scope)
            {
                let _ = writeln!(
                    text,
                    "    n{index} [label={:?}];",
                    format!("{}\n{}", label(node), node.ty)
                );
            }
            if !path.is_empty() {
                text.push_str("  }\n");
            }
        }
        for (index, node) in nodes.iter().enumerate() {
            for input in &node.inputs {
                let _ = writeln!(text, "  n{} -> n{index};", input.index());
            }
        }
        let result = |text: &mut String, name: String, id: NodeId, mark: &str| {
            let _ = writeln!(text, "  n{} -> {:?} [style={mark}];", id.index(), name);
        };
        for (name, id) in self.outputs() {
            result(&mut text, name, id, "bold");
        }
        let variables = self.variables();
        for (variable, value) in self.updates() {
            if let Some((variable, _)) = variables.iter().find(|(_, id)| *id == variable) {
                result(&mut text, format!("{} :=", variable.name), value, "dashed");
            }
        }
        text.push_str("}\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DType, Graph, Init};

    #[test]
    fn dot_groups_layers_and_shows_updates() {
        let graph = Graph::new();
        let x = graph.input("x", [2], DType::F32);
        let y = graph.scoped("hidden", || {
            let weight = graph.parameter("weight", [2], Init::Ones);
            graph.update(weight, weight * x);
            weight * x
        });
        graph.output("y", y);
        let dot = graph.to_dot();
        for part in [
            "label=\"hidden\"",
            "\"hidden.weight :=\" [style=dashed]",
            "\"y\" [style=bold]",
        ] {
            assert!(dot.contains(part), "{dot}");
        }
    }
}
