//! Graphs as a page to look at: one file, no resources from elsewhere.

use std::fmt::Write;

use super::{Attributes, Graph, Lowering, Node, NodeId};

mod layout;

use layout::{Layout, place};

/// A graph beside others on a page.
pub struct Side<'a> {
    /// What it is.
    pub title: String,
    /// What is worth knowing of it: name and value.
    pub facts: Vec<(String, String)>,
    /// The graph.
    pub graph: &'a Graph,
    /// What more there is to say of a node: a line for each step.
    pub note: &'a dyn Fn(NodeId) -> Option<String>,
}

/// A page of graphs side by side. Of each node one sees op and shape, grouped by layer, with a
/// bar for its share of the work; pointing at one shows where it comes from and goes to, and
/// its note. `words` are looked up in the notes: what contains one can be lit up.
pub fn page(title: &str, words: &[(&str, usize)], sides: &[Side<'_>]) -> String {
    let most = sides
        .iter()
        .flat_map(|side| {
            let nodes = side.graph.nodes();
            nodes
                .iter()
                .map(|node| work(&nodes, node))
                .collect::<Vec<f64>>()
        })
        .fold(1.0, f64::max);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n<header><h1>{title}</h1>\n",
        title = escaped(title),
    );
    text.push_str("<p class=\"legend\">");
    for (kind, name) in KINDS {
        let _ = write!(text, "<span class=\"{kind}\"><i></i>{name}</span>");
    }
    text.push_str("<span class=\"work\"><i></i>share of the work</span></p>\n");
    if !words.is_empty() {
        text.push_str("<p class=\"words\">");
        for (word, count) in words {
            let word = escaped(word);
            let _ = write!(
                text,
                "<button data-word=\"{word}\">{word}<b>{count}</b></button>"
            );
        }
        text.push_str("</p>\n");
    }
    text.push_str("</header>\n<main>\n");
    for (index, side) in sides.iter().enumerate() {
        draw(&mut text, index, side, most);
    }
    let _ = write!(
        text,
        "</main>\n<aside id=\"tip\" hidden></aside>\n<script>{SCRIPT}</script>\n</body></html>\n"
    );
    text
}

impl Graph {
    /// The graph as a page of its own, to be opened in a browser: see [`page`].
    pub fn to_html(&self) -> String {
        let side = Side {
            title: "graph".to_owned(),
            facts: Vec::new(),
            graph: self,
            note: &|_| None,
        };
        page("A graph", &[], &[side])
    }
}

const KINDS: [(&str, &str); 7] = [
    ("input", "input"),
    ("variable", "parameter, state"),
    ("pointwise", "elementwise"),
    ("reduce", "reduction"),
    ("contract", "contraction"),
    ("view", "view"),
    ("other", "index, table"),
];

/// What a node looks like.
fn kind(graph: &Graph, id: NodeId, node: &Node) -> &'static str {
    match node.op.def.lowering {
        Lowering::Leaf if graph.inputs().iter().any(|input| input.1 == id) => "input",
        Lowering::Leaf => "variable",
        Lowering::Pointwise(_) => "pointwise",
        Lowering::Reduce(_) => "reduce",
        Lowering::Contract => "contract",
        Lowering::View(_) => "view",
        _ => "other",
    }
}

/// About how many instructions a node takes.
fn work(nodes: &[Node], node: &Node) -> f64 {
    let of = |id: &NodeId| nodes[id.index()].ty.shape.elements() as f64;
    let elements = node.ty.shape.elements() as f64;
    match node.op.def.lowering {
        Lowering::Pointwise(_) => elements,
        Lowering::Reduce(_) => of(&node.inputs[0]),
        Lowering::Contract => 2.0 * elements * nodes[node.inputs[0].index()].ty.shape.last() as f64,
        _ => 0.0,
    }
}

/// A node in words: what is written on it, and beside it.
fn label(nodes: &[Node], node: &Node) -> String {
    if let Attributes::Named(name, ..) = &node.op.attributes {
        return name.clone();
    }
    let mut label = node.op.def.name.to_owned();
    let own = node.op.attributes.to_string();
    if !own.is_empty() && !matches!(node.op.def.lowering, Lowering::View(_)) {
        label += &format!(" {own}");
    }
    for input in &node.inputs {
        if let Some(number) = number(nodes, *input) {
            label += &format!(" {number}");
        }
    }
    label
}

/// A number, where a node is one: it is written on whoever uses it.
fn number(nodes: &[Node], id: NodeId) -> Option<String> {
    let node = &nodes[id.index()];
    match node.op.def.lowering {
        Lowering::Constant => {
            let value = node.op.attributes.as_number();
            let short = format!("{value:.4}");
            let short = short.trim_end_matches('0').trim_end_matches('.');
            Some(match value.abs() {
                0.0 | 0.01..1e6 => short.to_owned(),
                _ => format!("{value:.2e}"),
            })
        }
        Lowering::View(_) => number(nodes, *node.inputs.first()?),
        _ => None,
    }
}

fn draw(text: &mut String, side: usize, drawn: &Side<'_>, most: f64) {
    let graph = drawn.graph;
    let nodes = graph.nodes();
    let shown: Vec<bool> = (0..nodes.len())
        .map(|index| number(&nodes, NodeId::new(index)).is_none())
        .collect();
    let labels: Vec<String> = nodes.iter().map(|node| label(&nodes, node)).collect();
    let layout = place(graph, &nodes, &shown, &labels);
    let _ = write!(text, "<section><h2>{}</h2><dl>", escaped(&drawn.title));
    for (name, value) in &drawn.facts {
        let _ = write!(
            text,
            "<div><dt>{}</dt><dd>{}</dd></div>",
            escaped(name),
            escaped(value)
        );
    }
    let _ = write!(
        text,
        "</dl>\n<svg viewBox=\"0 0 {w:.0} {h:.0}\" style=\"max-width:{w:.0}px\">\n",
        w = layout.width,
        h = layout.height,
    );
    for frame in &layout.frames {
        let _ = writeln!(
            text,
            "<rect class=\"frame d{}\" x=\"{:.0}\" y=\"{:.0}\" width=\"{:.0}\" height=\"{:.0}\" rx=\"12\"/>\
             <text class=\"layer\" x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            frame.depth,
            frame.x,
            frame.y,
            frame.width,
            frame.height,
            frame.x + 12.0,
            frame.y + 17.0,
            escaped(&frame.title),
        );
    }
    let results = results(graph);
    draw_edges(text, side, &nodes, &layout);
    for (index, node) in nodes.iter().enumerate().filter(|(index, _)| shown[*index]) {
        let id = NodeId::new(index);
        let spot = &layout.boxes[index];
        let kind = kind(graph, id, node);
        let scope = graph.scope_path(node.scope);
        let detail = format!("%{index} {}({})", node.op.def.name, node.op.attributes);
        let mut end = String::new();
        for (_, name) in results.iter().filter(|(result, _)| *result == id) {
            end += &format!("{name} ");
        }
        let note = (drawn.note)(id).unwrap_or_default();
        let changed = if note.is_empty() { "" } else { " new" };
        let share = (work(&nodes, node) / most).sqrt();
        let _ = writeln!(
            text,
            "<g class=\"node {kind}{changed}\" id=\"s{side}n{index}\" data-detail=\"{}\" data-type=\"{}\" \
             data-layer=\"{}\" data-end=\"{}\" data-note=\"{}\" transform=\"translate({:.1} {:.1})\">\
             <rect width=\"{w:.0}\" height=\"{h:.0}\" rx=\"{r:.0}\"/><rect class=\"share\" x=\"6\" y=\"{b:.0}\" \
             width=\"{s:.1}\" height=\"3\" rx=\"1.5\"/><text x=\"{m:.1}\" y=\"14\">{}</text>{}{}</g>",
            escaped(&detail),
            escaped(&node.ty.to_string()),
            escaped(&scope),
            escaped(end.trim_end()),
            escaped(&note),
            spot.x,
            spot.y,
            escaped(&labels[index]),
            shape(node, kind, spot.width),
            mark(&end, spot.width),
            w = spot.width,
            h = spot.height,
            r = if kind == "view" { 10 } else { 6 },
            b = spot.height - 5.0,
            s = share * (spot.width - 12.0),
            m = spot.width / 2.0,
        );
    }
    text.push_str("</svg></section>\n");
}

/// The second line of a node.
fn shape(node: &Node, kind: &str, width: f64) -> String {
    if kind == "view" {
        return String::new();
    }
    format!(
        "<text class=\"shape\" x=\"{:.1}\" y=\"27\">{}</text>",
        width / 2.0,
        escaped(&node.ty.shape.to_string())
    )
}

/// A dot on what the graph puts out.
fn mark(end: &str, width: f64) -> String {
    match end {
        "" => String::new(),
        _ => format!("<circle class=\"end\" cx=\"{width:.0}\" cy=\"0\" r=\"5\"/>"),
    }
}

/// Outputs and updates, with their names.
fn results(graph: &Graph) -> Vec<(NodeId, String)> {
    let variables = graph.variables();
    let name = |id: NodeId| {
        let found = variables.iter().find(|(_, variable)| *variable == id);
        found.map_or(String::new(), |(variable, _)| {
            format!("{} :=", variable.name)
        })
    };
    let outputs = graph.outputs().into_iter().map(|(name, id)| (id, name));
    let updates = graph
        .updates()
        .into_iter()
        .map(|(variable, id)| (id, name(variable)));
    outputs.chain(updates).collect()
}

fn draw_edges(text: &mut String, side: usize, nodes: &[Node], layout: &Layout) {
    for (index, node) in nodes
        .iter()
        .enumerate()
        .filter(|(index, _)| layout.boxes[*index].width > 0.0)
    {
        for input in &node.inputs {
            let (from, to) = (&layout.boxes[input.index()], &layout.boxes[index]);
            if from.width == 0.0 {
                continue;
            }
            let (x, y) = (from.x + from.width / 2.0, from.y + from.height);
            let (u, v) = (to.x + to.width / 2.0, to.y);
            let far = if v - y > 160.0 { " far" } else { "" };
            let bend = ((v - y).abs() / 2.0).clamp(14.0, 90.0);
            let _ = writeln!(
                text,
                "<path class=\"edge{far}\" data-a=\"s{side}n{}\" data-b=\"s{side}n{index}\" \
                 d=\"M{x:.1} {y:.1}C{x:.1} {:.1} {u:.1} {:.1} {u:.1} {v:.1}\"/>",
                input.index(),
                y + bend,
                v - bend,
            );
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

#[cfg(test)]
mod tests {
    use super::super::{DType, Graph, Init};

    #[test]
    fn a_page_shows_layers_shapes_and_results_and_needs_nothing_else() {
        let graph = Graph::new();
        let x = graph.input("x", [2, 3], DType::F32);
        let y = graph.scoped("hidden", || {
            let weight = graph.parameter("weight", [3, 4], Init::Ones);
            graph.update(weight, weight * 0.5);
            x.matmul(weight)
        });
        graph.output("<y>", y);
        let page = graph.to_html();
        for part in [
            ">hidden</text>",
            ">matmul</text>",
            "[2, 4]",
            "multiply 0.5",
            "&lt;y&gt;",
            "hidden.weight :=",
        ] {
            assert!(page.contains(part), "{part}");
        }
        for part in ["http", "src=", "url(", "@import"] {
            assert!(!page.contains(part), "{part}");
        }
    }
}
