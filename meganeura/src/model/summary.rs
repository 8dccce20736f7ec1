//! A model as a table.

use crate::ir::{Graph, LayerRecord, Shape, Variable, VariableKind};
use std::fmt::{Display, Formatter};

/// All layers of a model with their shapes and sizes. Print it.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The layers, each before its parts.
    pub rows: Vec<Row>,
    /// The parameters and other variables, each once.
    variables: Vec<Variable>,
}

/// A layer in a [`Summary`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its path.
    pub path: String,
    /// The name of its type.
    pub kind: String,
    /// The shapes of what it puts out.
    pub outputs: Vec<Shape>,
    /// How many numbers it has, its parts included. What tied layers share is counted where it is made.
    pub parameters: usize,
}

impl Summary {
    pub(super) fn new(graph: &Graph) -> Summary {
        let variables: Vec<Variable> = graph
            .variables()
            .into_iter()
            .map(|(variable, _)| variable)
            .collect();
        let row = |layer: LayerRecord| {
            let inside = |name: &str| {
                let rest = name.strip_prefix(layer.path.as_str());
                rest.is_some_and(|rest| rest.starts_with('.'))
            };
            let own = variables.iter().filter(|variable| inside(&variable.name));
            Row {
                parameters: own.map(|variable| variable.shape.elements()).sum(),
                kind: short(layer.kind),
                outputs: layer.outputs.into_iter().map(|ty| ty.shape).collect(),
                path: layer.path,
            }
        };
        Summary {
            rows: graph.layers().into_iter().map(row).collect(),
            variables,
        }
    }

    /// How many numbers the model has.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.count(|_| true)
    }

    /// How many of them are trained.
    #[must_use]
    pub fn trained(&self) -> usize {
        self.count(|variable| variable.kind == VariableKind::Parameter)
    }

    fn count(&self, which: impl Fn(&Variable) -> bool) -> usize {
        let counted = self.variables.iter().filter(|variable| which(variable));
        counted.map(|variable| variable.shape.elements()).sum()
    }
}

/// A type's name without the modules it stands in.
fn short(name: &str) -> String {
    let mut short = String::new();
    for piece in
        name.split_inclusive(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter))
    {
        // `meganeura::layers::Linear,` keeps `Linear,`.
        short.push_str(piece.rsplit("::").next().unwrap_or(piece));
    }
    short
}

impl Display for Summary {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let bytes = |count: usize| (4 * count).to_string();
        let mut lines =
            vec![["layer", "type", "puts out", "parameters", "bytes"].map(str::to_owned)];
        for row in &self.rows {
            let indent = "  ".repeat(row.path.matches('.').count());
            let outputs: Vec<String> = row.outputs.iter().map(ToString::to_string).collect();
            lines.push([
                format!("{indent}{}", row.path),
                row.kind.clone(),
                outputs.join(", "),
                row.parameters.to_string(),
                bytes(row.parameters),
            ]);
        }
        let (all, trained) = (self.parameters(), self.trained());
        let total = |name: &str, count: usize| {
            [
                name.to_owned(),
                String::new(),
                String::new(),
                count.to_string(),
                bytes(count),
            ]
        };
        lines.push(total("total", all));
        if trained < all {
            lines.push(total("trained", trained));
        }
        let width = |column: usize| {
            let cells = lines
                .iter()
                .map(|line: &[String; 5]| line[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths = [width(0), width(1), width(2), width(3), width(4)];
        for [layer, kind, outputs, parameters, bytes] in &lines {
            let [a, b, c, d, e] = widths;
            writeln!(
                formatter,
                "{layer:a$}  {kind:b$}  {outputs:c$}  {parameters:>d$}  {bytes:>e$}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn types_lose_their_modules() {
        assert_eq!(short("a::b::Linear"), "Linear");
        assert_eq!(
            short("(a::Linear, b::c::Wrap<d::Relu>)"),
            "(Linear, Wrap<Relu>)"
        );
        assert_eq!(short("[a::Linear; 3]"), "[Linear; 3]");
    }
}
