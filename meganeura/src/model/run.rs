//! Building the graph of a model, field by field.

use super::Layer;
use crate::ir::{Graph, Tensor, Treatment};
use crate::walk::carry::Sum;
use crate::walk::{Dim, Dims, Entry, Shapes, TensorSpec};

/// The tensors on an edge of a model, with the name the reader knows them by.
#[derive(Clone, Debug)]
pub struct Flow<'g> {
    tensors: Vec<Tensor<'g>>,
    name: &'static str,
    /// The names of the tensors, where they have names.
    outputs: &'static [&'static str],
}

impl<'g> Flow<'g> {
    /// What went wrong upstream; whoever takes it in only hands it on.
    fn broken(&self) -> Option<Flow<'g>> {
        let poisoned = self.tensors.iter().find(|tensor| tensor.is_poisoned())?;
        Some(Flow {
            tensors: vec![*poisoned],
            ..self.clone()
        })
    }

    fn shapes(&self, into: Shapes) -> Shapes {
        let dims = self.tensors.iter().map(|tensor| {
            let shape = tensor.shape();
            let dims: Vec<Dim> = shape.dims().iter().copied().map(Dim::of).collect();
            Dims::of(&dims).with_dtype(tensor.dtype()).named(self.name)
        });
        dims.fold(into, Shapes::push)
    }

    fn one(&self, tensor: Option<&Tensor<'g>>, graph: &'g Graph, what: &str) -> Flow<'g> {
        if let Some(broken) = self.broken() {
            return broken;
        }
        let tensor = tensor.copied().unwrap_or_else(|| {
            graph.fail(format!(
                "takes `{}.{what}`, but `{}` puts out {} values",
                self.name,
                self.name,
                self.tensors.len()
            ))
        });
        Flow {
            tensors: vec![tensor],
            name: self.name,
            outputs: &[],
        }
    }

    /// The tensors.
    #[must_use]
    pub fn into_tensors(self) -> Vec<Tensor<'g>> {
        self.tensors
    }
}

/// A model while its graph is built.
#[derive(Debug)]
pub struct Run<'g> {
    graph: Within<'g>,
    entry: Entry,
    inputs: Vec<Tensor<'g>>,
    names: Vec<&'static str>,
}

/// The graph, which has no [`std::fmt::Debug`] of its own.
struct Within<'g>(&'g Graph);

impl std::fmt::Debug for Within<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Graph(in {:?})", self.0.path())
    }
}

impl<'g> Run<'g> {
    /// Binds what flows into a model to what it declares.
    #[must_use]
    pub fn new(graph: &'g Graph, tensors: &[Tensor<'g>], declared: &[TensorSpec]) -> Run<'g> {
        let mut run = Run {
            names: declared.iter().map(|spec| spec.name).collect(),
            ..Run::anonymous(graph, tensors)
        };
        let all = run.all();
        if let Some(broken) = all.broken() {
            run.inputs = vec![broken.tensors[0]; declared.len()];
            return run;
        }
        run.entry = Entry::new("", false, &all.shapes(Shapes::NONE), declared);
        if run.entry.inputs.failed() {
            let poisoned = graph.fail(run.entry.inputs.problem().as_str());
            run.inputs = vec![poisoned; declared.len()];
        }
        run
    }

    /// A sequence that takes whatever flows in.
    pub(super) fn anonymous(graph: &'g Graph, tensors: &[Tensor<'g>]) -> Run<'g> {
        Run {
            graph: Within(graph),
            entry: Entry::new("", true, &Shapes::UNKNOWN, &[]),
            inputs: tensors.to_vec(),
            names: Vec::new(),
        }
    }

    /// Everything that flows in.
    pub(super) fn all(&self) -> Flow<'g> {
        Flow {
            tensors: self.inputs.clone(),
            name: "",
            outputs: &[],
        }
    }

    /// The input at `index`.
    #[must_use]
    pub fn input(&self, index: usize) -> Flow<'g> {
        Flow {
            tensors: self.inputs.get(index).copied().into_iter().collect(),
            name: self.names.get(index).copied().unwrap_or(""),
            outputs: &[],
        }
    }

    /// The output at `index` of a field, for the field `taker`.
    #[must_use]
    pub fn pick(&self, taker: &str, from: &Flow<'g>, index: usize) -> Flow<'g> {
        let take = || from.one(from.tensors.get(index), self.graph.0, &index.to_string());
        self.graph.0.scoped(taker, take)
    }

    /// The output `name` of a field, for the field `taker`.
    #[must_use]
    pub fn pick_named(&self, taker: &str, from: &Flow<'g>, name: &str) -> Flow<'g> {
        let index = from.outputs.iter().position(|output| *output == name);
        let tensor = index.and_then(|index| from.tensors.get(index));
        let take = || from.one(tensor, self.graph.0, name);
        self.graph.0.scoped(taker, take)
    }

    /// Builds the layer of the field `name`, whose parameters stand under `path`.
    #[must_use]
    pub fn field(
        &self,
        name: &'static str,
        path: &str,
        layer: &dyn Layer,
        sources: &[&Flow<'g>],
        treatment: Option<Treatment>,
    ) -> Flow<'g> {
        let Some(mut treatment) = treatment else {
            return self.within(path, || self.layer(name, layer, sources));
        };
        // The other layer is one of this model.
        if let Some(tied) = &treatment.tied {
            treatment.tied = self.graph.0.place(tied);
        }
        let build = || self.layer(name, layer, sources);
        self.within(path, || self.graph.0.treated(&treatment, build))
    }

    /// Builds the layer at `index` of a sequence.
    pub(super) fn numbered(&self, index: usize, layer: &dyn Layer, from: &Flow<'g>) -> Flow<'g> {
        let build = || self.layer(from.name, layer, &[from]);
        self.graph.0.scoped(&index.to_string(), build)
    }

    /// Builds the layer at `index` of a repetition.
    pub(super) fn repeated(&self, index: usize, layer: &dyn Layer, from: &Flow<'g>) -> Flow<'g> {
        let build = || self.layer(from.name, layer, &[from]);
        self.graph.0.element(index, build)
    }

    /// The sum of what the field under `path` puts out and another value.
    #[must_use]
    pub fn add(&self, path: &str, sum: Sum, flow: Flow<'g>, others: &[&Flow<'g>]) -> Flow<'g> {
        self.within(path, || {
            let plus = |flow, other: &&Flow<'g>| self.plus(sum, flow, other);
            others.iter().fold(flow, plus)
        })
    }

    /// What the model puts out, checked against what it declares.
    #[must_use]
    pub fn finish(&self, outputs: &[&Flow<'g>], declared: &[TensorSpec]) -> Vec<Tensor<'g>> {
        let tensors: Vec<Tensor<'g>> = outputs
            .iter()
            .flat_map(|flow| flow.tensors.clone())
            .collect();
        if outputs.iter().any(|flow| flow.broken().is_some()) {
            return tensors;
        }
        let shapes = outputs
            .iter()
            .fold(Shapes::NONE, |all, flow| flow.shapes(all));
        let checked = self.entry.leave(&shapes, declared);
        if checked.failed() {
            let poisoned = self.graph.0.fail(checked.problem().as_str());
            return vec![poisoned; tensors.len()];
        }
        tensors
    }

    fn within<R>(&self, path: &str, build: impl FnOnce() -> R) -> R {
        match self.graph.0.place(path) {
            _ if path.is_empty() => build(),
            Some(place) => self.graph.0.at(place, build),
            None => {
                let message = format!(
                    "`rename(\"{path}\")` counts with `{{i}}`, but no `repeat` is around it"
                );
                self.graph.0.fail(message);
                build()
            }
        }
    }

    fn layer(&self, name: &'static str, layer: &dyn Layer, sources: &[&Flow<'g>]) -> Flow<'g> {
        let flow = |tensors| Flow {
            tensors,
            name,
            outputs: layer.output_names(),
        };
        if let Some(broken) = sources.iter().find_map(|source| source.broken()) {
            return flow(broken.tensors);
        }
        let shapes = sources
            .iter()
            .fold(Shapes::NONE, |all, source| source.shapes(all));
        let rule = layer.shape(&shapes);
        if rule.failed() {
            return flow(vec![self.graph.0.fail(rule.problem().as_str())]);
        }
        let inputs: Vec<Tensor<'g>> = sources
            .iter()
            .flat_map(|source| source.tensors.clone())
            .collect();
        let build = || layer.forward(self.graph.0, &inputs);
        let made = flow(self.graph.0.layer(layer.kind(), build));
        match made.broken() {
            Some(broken) => broken,
            None => self.as_ruled(made, &rule),
        }
    }

    /// Holds a layer to its own rule.
    fn as_ruled(&self, made: Flow<'g>, rule: &Shapes) -> Flow<'g> {
        let shapes = made.shapes(Shapes::NONE);
        for index in 0..made.tensors.len() {
            let (said, found) = (rule.get(index), shapes.get(index));
            if said.differs(&found) {
                let poisoned = self.graph.0.fail(format!(
                    "puts out {found}, but its `shape` says {said}: one of both is wrong"
                ));
                return Flow {
                    tensors: vec![poisoned],
                    ..made
                };
            }
        }
        made
    }

    fn plus(&self, sum: Sum, flow: Flow<'g>, other: &Flow<'g>) -> Flow<'g> {
        if let Some(broken) = flow.broken().or_else(|| other.broken()) {
            return Flow {
                tensors: broken.tensors,
                ..flow
            };
        }
        let sum = flow
            .shapes(Shapes::NONE)
            .plus(&other.shapes(Shapes::NONE), sum);
        let sum = match (sum.failed(), flow.tensors.first(), other.tensors.first()) {
            (false, Some(&left), Some(&right)) => left + right,
            _ => self.graph.0.fail(sum.problem().as_str()),
        };
        Flow {
            tensors: vec![sum],
            ..flow
        }
    }
}
