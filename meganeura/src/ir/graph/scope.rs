//! Where in the model a node stands: layers, repetitions and what is said of them.

use super::{Graph, NodeId, Tensor};
use crate::ir::{TensorType, Treatment};

/// Stands for the number of the repetition around a layer in the layer's name.
const PLACEHOLDER: &str = "{i}";

/// Stands for the number of each element in the name of a repetition.
const OWN_NUMBER: &str = "{#}";

/// A layer as it was built into a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRecord {
    /// Its path.
    pub path: String,
    /// The name of its type.
    pub kind: &'static str,
    /// What it puts out; empty when it failed.
    pub outputs: Vec<TensorType>,
}

impl Graph {
    /// Run `build` inside the layer `name`: its parameters and errors carry the path.
    pub fn scoped<R>(&self, name: &str, build: impl FnOnce() -> R) -> R {
        let path = self.join(name);
        self.at(path, build)
    }

    /// Run `build` inside the layer at `path`, counted from the top.
    pub(crate) fn at<R>(&self, path: String, build: impl FnOnce() -> R) -> R {
        let scope = self.scope_of(path);
        let outside = self.path();
        let outer = self.inner.borrow_mut().treatment.enter(outside);
        let result = self.in_scope(scope, build);
        self.inner.borrow_mut().treatment.leave(outer);
        result
    }

    /// Run `build`, which builds the element at `index` of the repetition at the current path.
    pub(crate) fn element<R>(&self, index: usize, build: impl FnOnce() -> R) -> R {
        let path = match self.path() {
            // A pattern says where the number stands.
            path if path.contains(OWN_NUMBER) => path.replace(OWN_NUMBER, &index.to_string()),
            path if path.is_empty() => index.to_string(),
            path => format!("{path}.{index}"),
        };
        let inside = self.inner.borrow().treatment.element(index, &path);
        let outer = std::mem::replace(&mut self.inner.borrow_mut().treatment, inside);
        let result = self.at(path, build);
        self.inner.borrow_mut().treatment = outer;
        result
    }

    /// The path from the top of what stands under `name` here. In a name with `{i}` that is the
    /// number of the innermost repetition around, and the name takes the place of everything from
    /// the repetition on.
    pub(crate) fn place(&self, name: &str) -> Option<String> {
        if name.is_empty() {
            return Some(self.path());
        }
        if !name.contains(PLACEHOLDER) {
            return Some(self.join(name));
        }
        let inner = self.inner.borrow();
        let (prefix, index) = inner.treatment.repetition()?;
        let name = name.replace(PLACEHOLDER, &index.to_string());
        Some(match prefix {
            "" => name,
            prefix => format!("{prefix}.{name}"),
        })
    }

    /// Run `build`, which builds the layer at the current path, so that its parameters are
    /// treated as said.
    pub fn treated<R>(&self, treatment: &Treatment, build: impl FnOnce() -> R) -> R {
        let path = self.path();
        let inside = self.inner.borrow().treatment.inside(&path, treatment);
        let outer = std::mem::replace(&mut self.inner.borrow_mut().treatment, inside);
        // The scope was made before, so it is marked once more.
        self.scope_of(path);
        let result = build();
        self.inner.borrow_mut().treatment = outer;
        result
    }

    /// Build the layer at the current path and note what it puts out.
    pub fn layer<'g>(
        &'g self,
        kind: &'static str,
        build: impl FnOnce() -> Vec<Tensor<'g>>,
    ) -> Vec<Tensor<'g>> {
        let path = self.path();
        let place = self.inner.borrow().layers.len();
        self.inner.borrow_mut().layers.push(LayerRecord {
            path,
            kind,
            outputs: Vec::new(),
        });
        let outputs = build();
        if !outputs.iter().any(|output| output.is_poisoned()) {
            let types = outputs.iter().map(|output| output.ty()).collect();
            self.inner.borrow_mut().layers[place].outputs = types;
        }
        outputs
    }

    /// The layers that were built, each before its parts.
    pub fn layers(&self) -> Vec<LayerRecord> {
        self.inner.borrow().layers.clone()
    }

    /// Whether the values of a scope that a [`Node`](super::Node) names may be computed again instead of kept.
    pub fn is_recomputed(&self, scope: u32) -> bool {
        self.recomputed_with(scope).is_some()
    }

    /// The layer with which the values of a scope are computed again instead of kept, as its scope.
    pub fn recomputed_with(&self, scope: u32) -> Option<u32> {
        self.inner.borrow().recomputed.get(&scope).copied()
    }

    /// Run `build` so that its nodes belong to the layer that `node` belongs to.
    pub fn in_scope_of<R>(&self, node: NodeId, build: impl FnOnce() -> R) -> R {
        let scope = self.inner.borrow().nodes[node.index()].scope;
        self.in_scope(scope, build)
    }

    /// Run `build` so that its nodes belong to a layer, given as in [`Node::scope`](super::Node::scope).
    pub fn in_scope<R>(&self, scope: u32, build: impl FnOnce() -> R) -> R {
        let outer = std::mem::replace(&mut self.inner.borrow_mut().current, scope);
        let result = build();
        self.inner.borrow_mut().current = outer;
        result
    }

    /// The scope with this path, made if there is none.
    pub(super) fn scope_of(&self, path: String) -> u32 {
        let mut inner = self.inner.borrow_mut();
        let known = inner.scopes.iter().position(|scope| *scope == path);
        let index = known.unwrap_or_else(|| {
            inner.scopes.push(path);
            inner.scopes.len() - 1
        });
        let scope = u32::try_from(index).expect("fewer than 2^32 layers");
        if let Some(whole) = &inner.treatment.recomputed {
            let whole = inner.scopes.iter().position(|path| path == whole);
            let whole = whole.map_or(scope, |index| index as u32);
            inner.recomputed.insert(scope, whole);
        }
        scope
    }

    /// The path of the layer being built.
    pub fn path(&self) -> String {
        let inner = self.inner.borrow();
        inner.scopes[inner.current as usize].clone()
    }

    /// The path of a scope that a [`Node`](super::Node) names.
    pub fn scope_path(&self, scope: u32) -> String {
        self.inner.borrow().scopes[scope as usize].clone()
    }

    pub(super) fn join(&self, name: &str) -> String {
        match self.path() {
            path if path.is_empty() => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }
}
