//! Results and gradients against those of PyTorch.

use std::path::Path;

use meganeura::autodiff::gradients;
use meganeura::egraph::Rewrites;
use meganeura::interop::safetensors::Tensors;
use meganeura::ir::{Array, DType, Graph, Tensor};
use meganeura::ops;
use meganeura::runtime::{Device, Session};

use crate::Values;
use crate::references::{ATTENTION, REFERENCES, Reference, WINDOWS};
use crate::support;
use crate::support::samples::relative_error;

/// Every operation of the fixtures on a device: result and gradients, row by row.
fn check_references(device: &Device, rewrites: Rewrites) {
    check_fixture(device, rewrites, "ops", REFERENCES, 0.0);
    check_fixture(device, rewrites, "windows", WINDOWS, 0.0);
    // A query that sees one key has a gradient of 0, of which rounding leaves a trace.
    check_fixture(device, rewrites, "attention", ATTENTION, 1e-2);
}

/// Every case of a fixture, row by row; a row small beside the largest counts as `floor` of it.
fn check_fixture(
    device: &Device,
    rewrites: Rewrites,
    file: &str,
    references: &[Reference],
    floor: f64,
) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let path = folder.join(format!("{file}.safetensors"));
    let fixture = Tensors::load(path).expect("the fixture");
    for (case, operands, build) in references {
        let graph = Graph::new();
        let mut values = Values::new();
        let mut leaf = |name: &str| {
            let array = fixture.get(&format!("{case}/{name}")).expect("an operand");
            let data = match (array.as_f32(), array.as_u32()) {
                (Some(floats), _) => floats.iter().map(|&value| f64::from(value)).collect(),
                (_, Some(integers)) => integers.iter().map(|&value| f64::from(value)).collect(),
                _ => Vec::new(),
            };
            values.insert(name.to_owned(), Array::new(array.shape().clone(), data));
            graph.input(name, array.shape(), array.dtype())
        };
        let inputs: Vec<_> = operands.iter().map(|name| leaf(name)).collect();
        let upstream = leaf("upstream");
        let result = build(&inputs);
        graph.output("out", result);
        let (graph, images) = ops::expand(&graph);
        let image = |tensor: Tensor<'_>| graph.tensor(images.get(tensor.id()).expect("an image"));
        let floats: Vec<_> = operands
            .iter()
            .zip(&inputs)
            .filter(|(_, input)| input.dtype() == DType::F32)
            .collect();
        let sources: Vec<_> = floats.iter().map(|(_, input)| image(**input)).collect();
        let found = gradients(&[(image(result), image(upstream))], &sources);
        for ((name, _), gradient) in floats.iter().zip(found) {
            graph.output(&format!("gradient/{name}"), gradient);
        }
        let mut session = Session::with_rewrites(device, 0, rewrites).expect("the device is there");
        let step = session
            .compile(&graph)
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        support::give(&mut session, step, &graph, &values);
        session.run(step).expect("a run");
        for (name, id) in graph.outputs() {
            let wide = |values: &[f32]| {
                values
                    .iter()
                    .map(|&value| f64::from(value))
                    .collect::<Vec<_>>()
            };
            let found = wide(&session.output(step, &name).expect("an output"));
            let expected = wide(
                fixture
                    .get(&format!("{case}/{name}"))
                    .expect("a result")
                    .as_f32()
                    .expect("floats"),
            );
            let width = graph.tensor(id).shape().last().max(1);
            let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
            let least = floor * expected.chunks(width).map(norm).fold(0.0, f64::max);
            for (row, (found, expected)) in
                found.chunks(width).zip(expected.chunks(width)).enumerate()
            {
                let own = norm(expected).max(1e-3);
                let error = relative_error(found, expected) * own / own.max(least);
                assert!(
                    error < 1e-4,
                    "{case} on {device}, {rewrites:?}: row {row} of {name} is off by {error}"
                );
            }
        }
    }
}

#[test]
fn the_cpu_agrees_with_pytorch() {
    check_references(&Device::cpu(), Rewrites::Off);
    check_references(&Device::cpu(), Rewrites::EGraph);
}

#[test]
fn the_gpu_agrees_with_pytorch() {
    let Some(device) = support::gpu() else { return };
    check_references(&device, Rewrites::Off);
    check_references(&device, Rewrites::EGraph);
}
