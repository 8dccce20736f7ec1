//! Rewriting costs no precision: in single precision, at large offsets, on the processor.

use std::collections::HashMap;

use meganeura::autodiff::gradients;
use meganeura::egraph::Rewrites;
use meganeura::ir::{Array, DType, Domain, Graph, Init, Tensor};
use meganeura::ops::{evaluate, expand};
use meganeura::runtime::{Device, Session};

use super::support::{Random, draw};

type Build = for<'g> fn(Tensor<'g>) -> Tensor<'g>;

const ROWS: usize = 24;
/// Rows that a loop takes several of at a time, and rows that it takes one by one.
const WIDTHS: [usize; 2] = [96, 300];

/// Half a unit in the last place of a float, relative.
const LAST_DIGITS: f64 = 6e-8;

fn weights(x: Tensor<'_>) -> [Tensor<'_>; 2] {
    ["w", "b"].map(|name| {
        x.graph()
            .parameter(name, [x.shape().last()], Init::Constant(0.7))
    })
}

const MODULES: [(&str, Build); 9] = [
    ("layer norm", |x| {
        let [w, b] = weights(x);
        x.layer_norm(w, b, 1e-5)
    }),
    ("rms norm", |x| x.rms_norm(weights(x)[0], 1e-5)),
    ("softmax", |x| x.softmax()),
    ("log softmax", |x| x.log_softmax()),
    ("cross entropy", |x| {
        let labels = x.graph().input("labels", [ROWS], DType::U32);
        x.cross_entropy(labels)
    }),
    ("standard score", |x| {
        let centred = x - x.mean(&[1]);
        centred / (centred.square().mean(&[1]) + 1e-5).sqrt()
    }),
    ("norm, then linear", |x| {
        let [w, b] = weights(x);
        let y = x.layer_norm(w, b, 1e-5);
        let width = x.shape().last();
        let square = x
            .graph()
            .parameter("square", [width, width], Init::Constant(0.7));
        y.matmul(square / 7.0) + y
    }),
    ("batch norm", |x| {
        let centred = x - x.mean(&[0]);
        centred * (centred.square().mean(&[0]) + 1e-5).rsqrt()
    }),
    ("two norms", |x| {
        let [w, b] = weights(x);
        x.layer_norm(w, b, 1e-5).rms_norm(w, 1e-5)
    }),
];

/// A module with its gradient by x.
fn graph(build: Build, width: usize) -> Graph {
    let graph = Graph::new();
    let x = graph.input("x", [ROWS, width], DType::F32);
    let y = build(x);
    graph.output("y", y);
    let (graph, images) = expand(&graph);
    let image = |x: Tensor<'_>| graph.tensor(images.get(x.id()).expect("an image"));
    let (x, y) = (image(x), image(y));
    let upstream = graph.input("upstream", y.shape(), DType::F32);
    graph.output("dx", gradients(&[(y, upstream)], &[x])[0]);
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    graph
}

/// The error of each output relative to its size.
fn errors(graph: &Graph, offset: f64, rewrites: Rewrites) -> Vec<(String, f64)> {
    let mut session = Session::with_rewrites(&Device::cpu(), 0, rewrites).expect("a processor");
    let step = session.compile(graph).expect("it compiles");
    let mut random = Random::new(offset as u64 + 1);
    let mut leaves = HashMap::new();
    for (name, id) in graph.inputs() {
        let ty = graph.tensor(id).ty();
        if ty.dtype == DType::U32 {
            let labels: Vec<u32> = (0..ROWS).map(|row| (row * 7 % WIDTHS[0]) as u32).collect();
            let values = labels.iter().map(|&label| f64::from(label)).collect();
            let array = Array::new(ty.shape.clone(), values);
            session.input(step, &name, &labels).expect("an input");
            leaves.insert(name, array);
            continue;
        }
        let array = draw(&ty.shape, Domain::Uniform(-1.0, 1.0), &mut random);
        let by = if name == "x" { offset } else { 0.0 };
        // As the device has it.
        let array = array.map(|x| f64::from((x + by) as f32));
        let floats: Vec<f32> = array.data.iter().map(|&x| x as f32).collect();
        session.input(step, &name, &floats).expect("an input");
        leaves.insert(name, array);
    }
    for (variable, _) in graph.variables() {
        let elements = variable.shape.elements();
        let values = vec![f64::from(0.7f32); elements];
        let array = Array::new(variable.shape.clone(), values);
        session
            .set_variable(&variable.name, &vec![0.7; elements])
            .expect("a variable");
        leaves.insert(variable.name, array);
    }
    session.run(step).expect("it runs");
    let expected = evaluate(graph, &leaves);
    graph
        .outputs()
        .into_iter()
        .map(|(name, id)| {
            let found = session.output(step, &name).expect("an output");
            let wanted = &expected[id.index()].data;
            let size = wanted.iter().map(|x| x * x).sum::<f64>().sqrt();
            let off = found.iter().zip(wanted);
            let off: f64 = off.map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
            (name, off.sqrt() / size.max(1e-30))
        })
        .collect()
}

#[test]
fn rewriting_costs_no_precision_at_large_offsets() {
    for width in WIDTHS {
        for (module, build) in MODULES {
            let graph = graph(build, width);
            for offset in [0.0, 1e3, 1e4] {
                // Rounding adds up as steps at random do.
                let most = 3e-8 * (width as f64).sqrt();
                compare((module, offset, most), &graph);
            }
        }
    }
}

fn compare((module, offset, most): (&str, f64, f64), graph: &Graph) {
    let plain = errors(graph, offset, Rewrites::Off);
    let found = errors(graph, offset, Rewrites::EGraph);
    for ((name, before), (_, after)) in plain.into_iter().zip(found) {
        println!("{module:15} {offset:6} {name:3} {before:.1e} {after:.1e}");
        // A tenth, and a few last digits, for rounding in another order; a loss is one number, of
        // which the error is no average.
        let alone = module == "cross entropy" && name == "y";
        let digits = if alone { 2.0 } else { 1.0 } * LAST_DIGITS;
        assert!(
            after <= 1.1 * before + digits,
            "{module}, offset {offset}, `{name}`: {before:e} as given, {after:e} rewritten"
        );
        assert!(
            module == "batch norm" || after < most,
            "{module}, offset {offset}, `{name}`: off by {after:e}"
        );
    }
}
