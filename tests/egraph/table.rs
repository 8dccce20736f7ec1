//! Every op of the table, forward and backward, in the middle of a graph.

use meganeura::autodiff::gradients;
use meganeura::egraph::verify;
use meganeura::ir::{DType, Domain, Graph, Tensor};
use meganeura::ops::{all, expand};

use super::support::{Fill, Random, check, fill};

/// The type a domain's elements have.
fn dtype(domain: Domain) -> DType {
    match domain {
        Domain::Indices(_) => DType::U32,
        Domain::Truth => DType::Bool,
        _ => DType::F32,
    }
}

#[test]
fn every_op_and_its_gradient_stay_equal() {
    for def in all() {
        for (number, case) in (def.cases)().into_iter().enumerate() {
            if case.operands.iter().any(|(shape, _)| shape.elements() == 0) {
                continue;
            }
            let graph = Graph::new();
            let mut range = (-2.0, 2.0);
            let mut bound = 1;
            let operands: Vec<Tensor<'_>> = case
                .operands
                .iter()
                .enumerate()
                .map(|(index, (shape, domain))| {
                    match *domain {
                        Domain::Uniform(low, high) => range = (low, high),
                        Domain::Indices(limit) => bound = limit,
                        _ => {}
                    }
                    graph.input(&format!("x{index}"), shape, dtype(*domain))
                })
                .collect();
            let y = graph.apply(def, case.attributes.clone(), &operands);
            if y.shape().elements() == 0 {
                continue;
            }
            graph.output("y", y);
            let (graph, images) = expand(&graph);
            let image = |x: Tensor<'_>| graph.tensor(images.get(x.id()).expect("an image"));
            let sources: Vec<Tensor<'_>> = operands
                .iter()
                .filter(|x| x.dtype() == DType::F32)
                .map(|&x| image(x))
                .collect();
            let y = image(y);
            if y.dtype() == DType::F32 && !sources.is_empty() {
                // Mid-graph: the upstream gradient is a value, not 1.
                let upstream = graph.input("upstream", y.shape(), DType::F32) * 0.7;
                for (index, g) in gradients(&[(y, upstream)], &sources).iter().enumerate() {
                    graph.output(&format!("gradient {index}"), *g);
                }
            }
            assert!(
                graph.errors().is_empty(),
                "{}: {:?}",
                def.name,
                graph.errors()
            );
            let fills = [Fill::Uniform(range.0, range.1), Fill::Nan];
            let what = format!("{} case {number}", def.name);
            check(&what, &graph, bound, &fills, 7);
            for kind in fills {
                let leaves = fill(&graph, kind, bound, &mut Random::new(3));
                if let Err(message) = verify(&graph, &[leaves], 2000) {
                    panic!("{what}: {message}");
                }
            }
        }
    }
}
