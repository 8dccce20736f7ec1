//! A model with inputs of its own.

use super::Model;
use crate::ir::{DType, Graph, Shape, Tensor};
use crate::nearest::nearest;
use crate::walk::{Dim, TensorSpec};

/// Builds `model` with inputs whose free dims take their numbers from `dims`.
pub(super) fn build<'g, M: Model>(
    model: &M,
    graph: &'g Graph,
    dims: &[(&str, usize)],
) -> Vec<Tensor<'g>> {
    let specs = model.inputs_with(dims);
    let names = free_names(&specs);
    let mut known = free_names(M::INPUTS);
    known.extend(M::SETTINGS);
    for (name, _) in dims.iter().filter(|(name, _)| !known.contains(name)) {
        graph.fail(stranger(name, &known));
    }
    let bound = |name: &str| dims.iter().find(|(known, _)| *known == name);
    let missing: Vec<&str> = names
        .into_iter()
        .filter(|name| bound(name).is_none())
        .collect();
    if !missing.is_empty() {
        return vec![graph.fail(unbound(&missing))];
    }
    let inputs: Vec<Tensor<'g>> = specs
        .iter()
        .map(|spec| match sizes(spec, dims, M::SETTINGS) {
            Ok(shape) => graph.input(spec.name, shape, spec.dims.dtype().unwrap_or(DType::F32)),
            Err(message) => graph.fail(message),
        })
        .collect();
    model.forward(graph, &inputs)
}

/// The names that need a number, in order of appearance.
fn free_names(specs: &[TensorSpec]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for spec in specs {
        let rank = spec.dims.rank().unwrap_or(0);
        for name in (0..rank).filter_map(|axis| spec.dims.dim(axis).name()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The numbers of an input's dims, or what is wrong with them.
fn sizes(
    spec: &TensorSpec,
    bindings: &[(&str, usize)],
    settings: &[&str],
) -> Result<Shape, String> {
    let name = spec.name;
    let Some(rank) = spec.dims.rank() else {
        return Err(format!(
            "the input `{name}` has no declared shape: declare one, as in \
             `input({name}: [batch, 64])`, or call `forward` with a tensor of your own"
        ));
    };
    let size = |axis| {
        let declared: Dim = spec.dims.dim(axis);
        let bound = bindings
            .iter()
            .find(|(known, _)| declared.name() == Some(known))
            .map_or(declared, |(_, size)| declared.replace(Dim::of(*size)));
        let problem = || match bound.is_known() {
            true => format!(
                "dim {axis} of `{name}`: {} is {bound}, which is no size",
                spec.dims
            ),
            false => {
                let settings: Vec<String> =
                    settings.iter().map(|name| format!("`{name}`")).collect();
                let settings = settings.join(", ");
                format!(
                    "dim {axis} of `{name}`: {} depends on settings that the description does not keep: bind {settings} too",
                    spec.dims
                )
            }
        };
        bound.value().ok_or_else(problem)
    };
    let sizes: Result<Vec<usize>, String> = (0..rank).map(size).collect();
    sizes.map(Shape::from)
}

fn unbound(names: &[&str]) -> String {
    let list: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let example: Vec<String> = names
        .iter()
        .map(|name| format!("(\"{name}\", 32)"))
        .collect();
    let (noun, verb, them) = match names.len() {
        1 => ("dim", "has", "it"),
        _ => ("dims", "have", "them"),
    };
    format!(
        "the free {noun} {} {verb} no number: bind {them}, as in &[{}]",
        list.join(", "),
        example.join(", ")
    )
}

fn stranger(name: &str, names: &[&str]) -> String {
    let hint = match nearest(name, names.iter().copied()) {
        Some(close) => format!("did you mean `{close}`?"),
        None if names.is_empty() => "the inputs have none".to_owned(),
        None => format!("there are: {}", names.join(", ")),
    };
    format!("no input has a free dim `{name}`: {hint}")
}
