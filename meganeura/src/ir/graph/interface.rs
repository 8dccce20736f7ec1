//! What comes from outside a graph and what goes there: inputs, variables, outputs, updates.

use super::{Graph, NodeId, Tensor};
use crate::ir::{Attributes, DType, Init, Lowering, Op, OpDef, Shape, TensorType};

/// What a [`Variable`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// Trained.
    Parameter,
    /// Part of the model, but not trained: frozen parameters, running statistics.
    Buffer,
    /// Part of the training, kept from step to step: moments.
    State,
}

/// A value that lives between steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its full path, `blocks.3.attention.query.weight`.
    pub name: String,
    /// Its shape; variables are floats.
    pub shape: Shape,
    /// Its first value.
    pub init: Init,
    /// What it is for.
    pub kind: VariableKind,
    /// Whether it is a matrix `[in, out]` that files of other programs keep as `[out, in]`.
    pub transposed: bool,
}

/// The promise that an input's integers lie below a bound, checked when they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexBound {
    /// The input's name.
    pub input: String,
    /// All its values are smaller.
    pub bound: usize,
    /// But for this one, which says that there is none.
    pub except: Option<u32>,
    /// The layer that needs it.
    pub path: String,
}

impl Graph {
    /// The inputs by name, in order of declaration.
    pub fn inputs(&self) -> Vec<(String, NodeId)> {
        self.inner.borrow().inputs.clone()
    }

    /// The variables and their leaves, in order of declaration.
    pub fn variables(&self) -> Vec<(Variable, NodeId)> {
        self.inner.borrow().variables.clone()
    }

    /// The named results.
    pub fn outputs(&self) -> Vec<(String, NodeId)> {
        self.inner.borrow().outputs.clone()
    }

    /// Pairs of a variable's leaf and the value it takes after the step.
    pub fn updates(&self) -> Vec<(NodeId, NodeId)> {
        self.inner.borrow().updates.clone()
    }

    /// What must hold of integer inputs.
    pub fn index_bounds(&self) -> Vec<IndexBound> {
        self.inner.borrow().bounds.clone()
    }

    /// Name a result.
    pub fn output(&self, name: &str, value: Tensor<'_>) {
        if !value.is_poisoned() {
            self.inner
                .borrow_mut()
                .outputs
                .push((name.to_owned(), value.id));
        }
    }

    /// Let a variable take a new value after the step. All updates of a step happen at once:
    /// whatever reads the variable in this graph reads its old value.
    pub fn update(&self, variable: Tensor<'_>, value: Tensor<'_>) {
        if variable.is_poisoned() || value.is_poisoned() {
            return;
        }
        if variable.ty() != value.ty() {
            self.fail(format!(
                "a variable of {} cannot take a value of {}",
                variable.ty(),
                value.ty()
            ));
            return;
        }
        self.inner
            .borrow_mut()
            .updates
            .push((variable.id, value.id));
    }

    /// Note that the integers of `indices` must lie below `bound`. Where they come straight
    /// from an input, they are checked when given.
    pub(crate) fn bound_indices(&self, indices: Tensor<'_>, bound: usize) {
        self.bound_indices_except(indices, bound, None);
    }

    /// The same, but for one value that may stand in place of any.
    pub(crate) fn bound_indices_except(
        &self,
        indices: Tensor<'_>,
        bound: usize,
        except: Option<u32>,
    ) {
        if indices.is_poisoned() {
            return;
        }
        let path = self.path();
        let mut inner = self.inner.borrow_mut();
        let mut id = indices.id;
        while matches!(inner.nodes[id.index()].op.def.lowering, Lowering::View(_)) {
            id = inner.nodes[id.index()].inputs[0];
        }
        let Some(input) = inner
            .inputs
            .iter()
            .find(|(_, leaf)| *leaf == id)
            .map(|(name, _)| name.clone())
        else {
            return;
        };
        let bound = IndexBound {
            input,
            bound,
            except,
            path,
        };
        if !inner.bounds.contains(&bound) {
            inner.bounds.push(bound);
        }
    }

    pub(crate) fn declare_input(
        &self,
        leaf: &'static OpDef,
        name: &str,
        ty: TensorType,
    ) -> Tensor<'_> {
        if self
            .inner
            .borrow()
            .inputs
            .iter()
            .any(|(known, _)| known == name)
        {
            return self.fail(format!(
                "there are two inputs named `{name}`; give one another name"
            ));
        }
        let attributes = Attributes::Named(name.to_owned(), ty.shape.clone(), ty.dtype);
        let tensor = self.push(
            Op {
                def: leaf,
                attributes,
            },
            Vec::new(),
            ty,
        );
        self.inner
            .borrow_mut()
            .inputs
            .push((name.to_owned(), tensor.id));
        tensor
    }

    pub(crate) fn declare_variable(
        &self,
        leaf: &'static OpDef,
        name: &str,
        shape: Shape,
        init: Init,
        kind: VariableKind,
        transposed: bool,
    ) -> Tensor<'_> {
        let name = self.join(name);
        if let Some(shared) = self.shared(&name, &shape) {
            return shared;
        }
        let (init, kind) = {
            let treatment = &self.inner.borrow().treatment;
            let kind = match treatment.frozen() {
                true => VariableKind::Buffer,
                false => kind,
            };
            (treatment.init(shape.rank(), init), kind)
        };
        if self
            .inner
            .borrow()
            .variables
            .iter()
            .any(|(known, _)| known.name == name)
        {
            return self.fail(format!(
                "there are two variables named `{name}`; give one another name"
            ));
        }
        let attributes = Attributes::Named(name.clone(), shape.clone(), DType::F32);
        let tensor = self.push(
            Op {
                def: leaf,
                attributes,
            },
            Vec::new(),
            TensorType::f32(shape.clone()),
        );
        let variable = Variable {
            name,
            shape,
            init,
            kind,
            transposed,
        };
        self.inner
            .borrow_mut()
            .variables
            .push((variable, tensor.id));
        tensor
    }

    /// The variable that a tied layer uses instead of one of its own.
    fn shared(&self, name: &str, shape: &Shape) -> Option<Tensor<'_>> {
        let inner = self.inner.borrow();
        let source = inner.treatment.shared(name)?;
        let (variable, id) = inner
            .variables
            .iter()
            .find(|(known, _)| known.name == source)?;
        if variable.shape == *shape {
            return Some(Tensor {
                graph: self,
                id: *id,
            });
        }
        let message = format!("shares `{source}` of {}, but needs {shape}", variable.shape);
        drop(inner);
        Some(self.fail(message))
    }

    /// A graph that declares the same inputs, variables and bounds and holds nothing else
    /// yet, with the leaves in this graph and their images: where rewriting passes start.
    pub fn successor(&self) -> (Graph, Vec<(NodeId, NodeId)>) {
        let result = Graph::new();
        let mut images = Vec::new();
        {
            let old = self.inner.borrow();
            let mut new = result.inner.borrow_mut();
            new.scopes = old.scopes.clone();
            new.bounds = old.bounds.clone();
            new.recomputed = old.recomputed.clone();
            new.training = old.training;
            let leaves = old.inputs.iter().map(|(_, id)| *id);
            for id in leaves.chain(old.variables.iter().map(|(_, id)| *id)) {
                let node = &old.nodes[id.index()];
                let image = NodeId::new(new.nodes.len());
                new.nodes.push(node.clone());
                new.known.insert((node.op.clone(), Vec::new()), image);
                images.push((id, image));
            }
            let image = |id: NodeId| images.iter().find(|(old, _)| *old == id).expect("a leaf").1;
            new.inputs = old
                .inputs
                .iter()
                .map(|(name, id)| (name.clone(), image(*id)))
                .collect();
            new.variables = old
                .variables
                .iter()
                .map(|(v, id)| (v.clone(), image(*id)))
                .collect();
        }
        (result, images)
    }

    /// A successor with other variables in place of those whose leaves are `gone`: the graph, the
    /// leaves that stay with their images, and the leaves of the new variables.
    pub(crate) fn successor_with(
        &self,
        gone: &[NodeId],
        variables: &[Variable],
    ) -> (Graph, Vec<(NodeId, NodeId)>, Vec<NodeId>) {
        let (result, mut images) = self.successor();
        let leaf = gone.first().map(|id| self.nodes()[id.index()].op.def);
        let mut new = Vec::new();
        if let Some(leaf) = leaf {
            let (dropped, kept) = images.into_iter().partition(|(old, _)| gone.contains(old));
            images = kept;
            let dropped: Vec<(NodeId, NodeId)> = dropped;
            let mut inner = result.inner.borrow_mut();
            inner
                .variables
                .retain(|(_, id)| dropped.iter().all(|(_, image)| image != id));
            drop(inner);
            for variable in variables {
                let (name, shape) = (variable.name.clone(), variable.shape.clone());
                let op = Op {
                    def: leaf,
                    attributes: Attributes::Named(name, shape.clone(), DType::F32),
                };
                let id = result.push(op, Vec::new(), TensorType::f32(shape)).id;
                result
                    .inner
                    .borrow_mut()
                    .variables
                    .push((variable.clone(), id));
                new.push(id);
            }
        }
        (result, images, new)
    }
}
