//! The closed forms that equality saturation reaches.

use meganeura::autodiff::gradients;
use meganeura::egraph::{CostModel, Estimate, Rewrites, optimize};
use meganeura::ir::{DType, Graph, Tensor};
use meganeura::ops::expand;

use super::support::{Fill, check};

/// A module on `x` of [rows, columns] with its gradients, before and after; also checked to
/// be equal on a small instance.
pub fn forms(
    name: &str,
    dims: [usize; 2],
    build: impl for<'g> Fn(&'g Graph, Tensor<'g>) -> (Tensor<'g>, Vec<Tensor<'g>>),
) -> (Estimate, Estimate) {
    let small = with_gradients([3, 5], &build);
    let fills = [Fill::Uniform(-1.5, 1.5), Fill::Offset, Fill::NotFinite];
    check(name, &small, 5, &fills, 11);
    let graph = with_gradients(dims, &build);
    let model = CostModel::default();
    let (optimized, report) = optimize(&graph, Rewrites::EGraph, &model);
    let (before, after) = (model.estimate(&graph), model.estimate(&optimized));
    println!(
        "== {name}\n{before:?}\n{after:?}\n{report}{}",
        text(&optimized)
    );
    (before, after)
}

fn with_gradients(
    dims: [usize; 2],
    build: &impl for<'g> Fn(&'g Graph, Tensor<'g>) -> (Tensor<'g>, Vec<Tensor<'g>>),
) -> Graph {
    let graph = Graph::new();
    let x = graph.input("x", dims, DType::F32);
    let (y, mut sources) = build(&graph, x);
    sources.push(x);
    graph.output("y", y);
    let (graph, images) = expand(&graph);
    let image = |x: Tensor<'_>| graph.tensor(images.get(x.id()).expect("an image"));
    let y = image(y);
    let upstream = graph.input("g", y.shape(), DType::F32);
    let sources: Vec<Tensor<'_>> = sources.into_iter().map(image).collect();
    for (index, g) in gradients(&[(y, upstream)], &sources).iter().enumerate() {
        graph.output(&format!("gradient {index}"), *g);
    }
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    graph
}

/// A graph, a line for each node.
pub fn text(graph: &Graph) -> String {
    let mut text = String::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        text += &format!("  %{index} = {} {:?}", node.op.def.name, node.op.attributes);
        for input in &node.inputs {
            text += &format!(" %{}", input.index());
        }
        text += &format!("  {}\n", node.ty);
    }
    for (name, id) in graph.outputs() {
        text += &format!("  {name}: %{}\n", id.index());
    }
    text
}

#[test]
fn layer_norm() {
    let (before, after) = forms("layer norm", [512, 768], |graph, x| {
        let w = graph.input("w", [x.shape().last()], DType::F32);
        let b = graph.input("b", [x.shape().last()], DType::F32);
        (x.layer_norm(w, b, 1e-5), vec![w, b])
    });
    assert_eq!((before.row_reductions, before.passes), (4, 3));
    assert_eq!((after.row_reductions, after.passes), (4, 2));
}

#[test]
fn rms_norm() {
    let (before, after) = forms("rms norm", [512, 768], |graph, x| {
        let w = graph.input("w", [x.shape().last()], DType::F32);
        (x.rms_norm(w, 1e-5), vec![w])
    });
    assert_eq!((before.row_reductions, before.passes), (2, 1));
    assert_eq!((after.row_reductions, after.passes), (2, 1));
}

#[test]
fn softmax() {
    let (_, after) = forms("softmax", [512, 768], |_, x| (x.softmax(), vec![]));
    assert_eq!((after.row_reductions, after.passes, after.heavy), (3, 2, 1));
}

#[test]
fn cross_entropy() {
    let (_, after) = forms("cross entropy", [512, 768], |graph, x| {
        let labels = graph.input("labels", [x.shape().dims()[0]], DType::U32);
        (x.cross_entropy(labels), vec![])
    });
    assert_eq!((after.row_reductions, after.passes), (3, 2));
}

#[test]
fn activations() {
    for (name, heavy, apply) in [
        (
            "sigmoid",
            1,
            (|x| x.sigmoid()) as for<'g> fn(Tensor<'g>) -> Tensor<'g>,
        ),
        ("tanh", 1, |x| x.tanh()),
        ("silu", 1, |x| x.silu()),
        ("gelu", 1, |x| x.gelu()),
        ("gelu exact", 2, |x| x.gelu_exact()),
    ] {
        let (_, after) = forms(name, [512, 768], |_, x| (apply(x), vec![]));
        assert_eq!(after.heavy, heavy, "{name}");
    }
}

/// The gradient of a rectified layer needs the result only: no mask is written besides, with or
/// without rewriting.
#[test]
fn rectified_layers_keep_one_value() {
    let (before, after) = forms("relu(x·w)", [512, 768], |graph, x| {
        let w = graph.input("w", [x.shape().last(), 64], DType::F32);
        let v = graph.input("v", [64, 64], DType::F32);
        (x.matmul(w).relu().matmul(v), vec![w, v])
    });
    assert_eq!(before.bytes, after.bytes);
}
