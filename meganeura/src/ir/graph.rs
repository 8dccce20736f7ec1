use std::cell::{Ref, RefCell};
use std::fmt;

use rustc_hash::FxHashMap;

use super::treatment::Current;
use super::{Attributes, DType, Init, Lowering, Op, OpDef, Shape, TensorType, Treatment};

/// Stands for the number of the repetition around a layer in the layer's name.
const PLACEHOLDER: &str = "{i}";

/// Stands for the number of each element in the name of a repetition.
const OWN_NUMBER: &str = "{#}";

/// The place of a node in its graph's arena. Operands come before their users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The node at an arena position.
    pub fn new(index: usize) -> NodeId {
        NodeId(u32::try_from(index).expect("fewer than 2^32 nodes"))
    }

    /// The position in the arena.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One value of a graph: an op applied to earlier values.
#[derive(Clone, Debug)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// From which values.
    pub inputs: Vec<NodeId>,
    /// The type of the result.
    pub ty: TensorType,
    /// The layer it belongs to, as an index into [`Graph::scope_path`]; a gradient belongs to
    /// the layer of the op it is the gradient of.
    pub scope: u32,
}

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

/// What went wrong where while a graph was built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct GraphError {
    /// The layer path, empty at the top.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// An arena of nodes: what a model means.
///
/// Equal nodes are one node. Building is infallible: an op that does not fit poisons its
/// result, and [`Graph::errors`] tells all that went wrong with the layer's path.
///
/// ```
/// use meganeura::ir::{DType, Graph};
///
/// let graph = Graph::new();
/// let x = graph.input("x", [4, 3], DType::F32);
/// let y = (x * 2.0 + 1.0).tanh();
/// assert_eq!(y.shape().dims(), [4, 3]);
/// assert!(graph.errors().is_empty());
///
/// let z = graph.input("z", [5], DType::F32);
/// assert!((x + z).is_poisoned());
/// assert_eq!(graph.errors()[0].to_string(), "`add` cannot combine [4, 3] and [5]");
/// ```
#[derive(Default)]
pub struct Graph {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    nodes: Vec<Node>,
    known: FxHashMap<(Op, Vec<NodeId>), NodeId>,
    variables: Vec<(Variable, NodeId)>,
    inputs: Vec<(String, NodeId)>,
    outputs: Vec<(String, NodeId)>,
    updates: Vec<(NodeId, NodeId)>,
    bounds: Vec<IndexBound>,
    errors: Vec<GraphError>,
    scopes: Vec<String>,
    current: u32,
    treatment: Current,
    /// The layers that are computed again for the backward pass, by what is inside them.
    recomputed: FxHashMap<u32, u32>,
    training: bool,
    composites: FxHashMap<NodeId, (Op, Vec<NodeId>)>,
    layers: Vec<LayerRecord>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Graph {
        let graph = Graph::default();
        graph.inner.borrow_mut().scopes.push(String::new());
        graph
    }

    /// A graph without nodes in which layers do what they do in training only: normalize by the
    /// batch and update running statistics, drop values at random.
    pub fn training() -> Graph {
        let graph = Graph::new();
        graph.inner.borrow_mut().training = true;
        graph
    }

    /// Whether layers are to do what they do in training only.
    pub fn is_training(&self) -> bool {
        self.inner.borrow().training
    }

    /// Apply an op. Elementwise operands are broadcast to one shape first.
    pub fn apply<'g>(
        &'g self,
        def: &'static OpDef,
        attributes: Attributes,
        operands: &[Tensor<'g>],
    ) -> Tensor<'g> {
        if operands.iter().any(|operand| operand.is_poisoned()) {
            return self.poisoned();
        }
        let types: Vec<TensorType> = operands.iter().map(|operand| operand.ty()).collect();
        match (def.shape)(&attributes, &types) {
            Ok(ty) => {
                let inputs: Vec<NodeId> = match def.lowering {
                    Lowering::Pointwise(_) => operands
                        .iter()
                        .map(|operand| operand.broadcast(&ty.shape).id)
                        .collect(),
                    _ => operands.iter().map(|operand| operand.id).collect(),
                };
                self.push(Op { def, attributes }, inputs, ty)
            }
            Err(message) => self.fail(format!("`{}` {message}", def.name)),
        }
    }

    /// Add a node whose type is known to be right; equal nodes are one.
    fn push(&self, op: Op, inputs: Vec<NodeId>, ty: TensorType) -> Tensor<'_> {
        let mut inner = self.inner.borrow_mut();
        let key = (op, inputs);
        if let Some(&id) = inner.known.get(&key) {
            return Tensor { graph: self, id };
        }
        let id = NodeId::new(inner.nodes.len());
        let scope = inner.current;
        inner.nodes.push(Node {
            op: key.0.clone(),
            inputs: key.1.clone(),
            ty,
            scope,
        });
        inner.known.insert(key, id);
        Tensor { graph: self, id }
    }

    /// Remember an error at the current layer and return a poisoned tensor.
    pub fn fail(&self, message: impl Into<String>) -> Tensor<'_> {
        let path = self.path();
        self.inner.borrow_mut().errors.push(GraphError {
            path,
            message: message.into(),
        });
        self.poisoned()
    }

    fn poisoned(&self) -> Tensor<'_> {
        Tensor {
            graph: self,
            id: NodeId(u32::MAX),
        }
    }

    /// All that went wrong so far, in order.
    pub fn errors(&self) -> Vec<GraphError> {
        self.inner.borrow().errors.clone()
    }

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

    /// Note that a node is the result of a composite with a gradient of its own, which holds
    /// in place of that of what it was expanded to.
    pub fn note_composite(&self, result: NodeId, op: &Op, operands: &[NodeId]) {
        // A composite that is one of its operands, or made of other things, has none to give.
        if operands.iter().all(|operand| *operand < result) {
            let noted = (op.clone(), operands.to_vec());
            self.inner.borrow_mut().composites.insert(result, noted);
        }
    }

    /// The composite with a gradient of its own that a node is the result of, and its operands.
    pub fn composite(&self, result: NodeId) -> Option<(Op, Vec<NodeId>)> {
        self.inner.borrow().composites.get(&result).cloned()
    }

    /// The layers that were built, each before its parts.
    pub fn layers(&self) -> Vec<LayerRecord> {
        self.inner.borrow().layers.clone()
    }

    /// Whether the values of a scope that a [`Node`] names may be computed again instead of kept.
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

    /// Run `build` so that its nodes belong to a layer, given as in [`Node::scope`].
    pub fn in_scope<R>(&self, scope: u32, build: impl FnOnce() -> R) -> R {
        let outer = std::mem::replace(&mut self.inner.borrow_mut().current, scope);
        let result = build();
        self.inner.borrow_mut().current = outer;
        result
    }

    /// The scope with this path, made if there is none.
    fn scope_of(&self, path: String) -> u32 {
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

    /// The path of a scope that a [`Node`] names.
    pub fn scope_path(&self, scope: u32) -> String {
        self.inner.borrow().scopes[scope as usize].clone()
    }

    fn join(&self, name: &str) -> String {
        match self.path() {
            path if path.is_empty() => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// The nodes, operands before users.
    pub fn nodes(&self) -> Ref<'_, [Node]> {
        Ref::map(self.inner.borrow(), |inner| inner.nodes.as_slice())
    }

    /// The handle of a node.
    pub fn tensor(&self, id: NodeId) -> Tensor<'_> {
        Tensor { graph: self, id }
    }

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
}

/// A value of a graph: a handle that is free to copy.
///
/// Arithmetic operators and methods add nodes to the graph; shapes broadcast as in NumPy.
#[derive(Clone, Copy)]
pub struct Tensor<'g> {
    graph: &'g Graph,
    id: NodeId,
}

impl<'g> Tensor<'g> {
    /// The graph it belongs to.
    pub fn graph(self) -> &'g Graph {
        self.graph
    }

    /// Its node.
    pub fn id(self) -> NodeId {
        self.id
    }

    /// Whether it stands for an op that did not fit; [`Graph::errors`] tells which.
    pub fn is_poisoned(self) -> bool {
        self.id == NodeId(u32::MAX)
    }

    /// Its type; that of a scalar float when poisoned.
    pub fn ty(self) -> TensorType {
        match self.graph.inner.borrow().nodes.get(self.id.index()) {
            Some(node) => node.ty.clone(),
            None => TensorType::f32([]),
        }
    }

    /// Its shape; `[]` when poisoned.
    pub fn shape(self) -> Shape {
        self.ty().shape
    }

    /// Its element type.
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_poisoned() {
            return f.write_str("poisoned");
        }
        write!(f, "%{} {}", self.id.index(), self.ty())
    }
}
