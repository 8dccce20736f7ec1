//! Layers as PyTorch has them: values, gradients, running statistics.

use std::collections::HashMap;
use std::path::Path;

use meganeura::autodiff::gradients;
use meganeura::interop::safetensors::Tensors;
use meganeura::ir::{Array, VariableKind};
use meganeura::ops::{evaluate_nodes, expand};
use meganeura::prelude::*;

struct Case {
    name: &'static str,
    file: Tensors,
    leaves: HashMap<String, Array>,
}

impl Case {
    fn new(name: &'static str) -> Case {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let file = Tensors::load(folder.join("layers.safetensors")).unwrap();
        let mut case = Case {
            name,
            file,
            leaves: HashMap::new(),
        };
        let names: Vec<String> = case.file.iter().map(|(name, _)| name.to_owned()).collect();
        for kind in ["in", "parameter", "buffer"] {
            let folder = format!("{name}/{kind}/");
            let own = names.iter().filter_map(|name| name.strip_prefix(&folder));
            for leaf in own {
                let value = case.array(&format!("{kind}/{leaf}"));
                case.leaves.insert(leaf.to_owned(), value);
            }
        }
        case
    }

    fn array(&self, name: &str) -> Array {
        let array = self.file.get(&format!("{}/{name}", self.name)).unwrap();
        let values = array.as_f32().unwrap().iter().copied().map(f64::from);
        Array::new(array.shape().clone(), values.collect::<Vec<f64>>())
    }

    /// Builds the layer on the inputs of the case.
    fn build<'g>(&self, graph: &'g Graph, layer: &dyn Layer) -> (Vec<Tensor<'g>>, Tensor<'g>) {
        let count = self
            .leaves
            .keys()
            .filter(|name| name.parse::<usize>().is_ok());
        let inputs: Vec<Tensor<'g>> = (0..count.count())
            .map(|index| {
                let name = index.to_string();
                graph.input(&name, self.leaves[&name].shape.clone(), DType::F32)
            })
            .collect();
        let out = layer.forward(graph, &inputs)[0];
        assert_eq!(graph.errors(), []);
        (inputs, out)
    }

    fn close(&self, what: &str, found: &Array, expected: &Array) {
        assert_eq!(found.shape, expected.shape, "{} {what}", self.name);
        let norm = |array: &Array| array.data.iter().map(|x| x * x).sum::<f64>().sqrt();
        let off = norm(&found.zip(expected, |a, b| a - b)) / norm(expected).max(1e-3);
        assert!(off < 1e-6, "{} {what} is {off} off", self.name);
    }

    fn check(&self, layer: &dyn Layer) {
        let graph = Graph::training();
        let (inputs, out) = self.build(&graph, layer);
        let upstream = self.array("upstream");
        let seed = graph.input("upstream", upstream.shape.clone(), DType::F32);
        graph.output("out", out);
        graph.output("seed", seed);
        let (graph, images) = expand(&graph);
        let image = |tensor: Tensor<'_>| graph.tensor(images.get(tensor.id()).unwrap());
        let mut names: Vec<String> = (0..inputs.len())
            .map(|index| format!("in/{index}"))
            .collect();
        let mut sources: Vec<Tensor<'_>> = inputs.iter().map(|input| image(*input)).collect();
        for (variable, id) in graph.variables() {
            if variable.kind == VariableKind::Parameter {
                names.push(variable.name);
                sources.push(graph.tensor(id));
            }
        }
        let out = image(out);
        let found = gradients(&[(out, image(seed))], &sources);
        let mut leaves = self.leaves.clone();
        leaves.insert("upstream".to_owned(), upstream);
        let mut wanted: Vec<_> = found.iter().map(|gradient| gradient.id()).collect();
        wanted.push(out.id());
        let updates = graph.updates();
        wanted.extend(updates.iter().map(|(_, value)| *value));
        let values = evaluate_nodes(&graph, &leaves, &wanted);
        for (name, value) in names.iter().zip(&values) {
            self.close(name, value, &self.array(&format!("gradient/{name}")));
        }
        self.close("out", &values[names.len()], &self.array("out"));
        let variables = graph.variables();
        for ((variable, _), value) in updates.iter().zip(&values[names.len() + 1..]) {
            let (variable, _) = variables.iter().find(|(_, id)| id == variable).unwrap();
            let expected = self.array(&format!("updated/{}", variable.name));
            self.close(&variable.name, value, &expected);
        }
    }

    fn check_evaluation(&self, layer: &dyn Layer) {
        let graph = Graph::new();
        let (_, out) = self.build(&graph, layer);
        assert_eq!(graph.updates(), []);
        let mut leaves = self.leaves.clone();
        for name in ["running_mean", "running_var"] {
            leaves.insert(name.to_owned(), self.array(&format!("updated/{name}")));
        }
        let value = &evaluate_nodes(&graph, &leaves, &[out.id()])[0];
        self.close("evaluated", value, &self.array("evaluated"));
    }
}

#[test]
fn normalizations_of_channels() {
    let one = BatchNorm {
        momentum: 0.2,
        ..BatchNorm::BASE
    };
    for (name, layer) in [("batch_norm_1d", one), ("batch_norm_2d", BatchNorm::BASE)] {
        let case = Case::new(name);
        case.check(&layer);
        case.check_evaluation(&layer);
    }
    let groups = GroupNorm {
        groups: 2,
        ..GroupNorm::BASE
    };
    Case::new("group_norm").check(&groups);
}

#[test]
fn the_others() {
    Case::new("upsample").check(&Upsample { factor: 3 });
    Case::new("global_average_pool").check(&GlobalAveragePool);
    Case::new("positions").check(&Positions { rows: 7 });
    Case::new("cross_attention").check(&CrossAttention {
        heads: 2,
        bias: Biases::AllButKey,
    });
}

#[test]
fn a_batch_of_one_has_no_variance() {
    let graph = Graph::training();
    let x = graph.input("x", [1, 3], DType::F32);
    BatchNorm::BASE.forward(&graph, &[x]);
    assert_eq!(
        graph.errors()[0].to_string(),
        "needs more than one value per channel in training, but is given [1, 3]"
    );
}
