//! Back into a graph: chosen terms through the tensor methods.

use egg::Id;

use super::emit::{self, Arithmetic, Binary, Unary};
use super::explain::History;
use super::facts::Known;
use super::language::{Applied, Extents, NO_AXIS, Term};
use super::region::{Cut, Instance};
use crate::ir::{Combine, Graph, Lowering, NodeId, Shape, Tensor, TensorType};
use crate::ops::Images;

/// A chosen term; its operands are earlier steps.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The term; its children say nothing here.
    pub term: Term,
    /// Positions of its operands.
    pub operands: Vec<usize>,
    /// What is known of its class.
    pub known: Known,
    /// Its class, in the e-graph it was chosen from.
    pub class: Id,
    /// What led to it.
    pub history: History,
}

/// The chosen terms of a region.
#[derive(Clone, Debug)]
pub(super) struct Solution {
    /// Operands first.
    pub steps: Vec<Step>,
    /// The steps of the region's roots.
    pub roots: Vec<usize>,
    /// What [`Term::Apply`] applies.
    pub ops: Vec<Applied>,
}

impl Solution {
    /// The layer of every step; one without gets that of its user.
    fn scopes(&self) -> Vec<u32> {
        let mut scopes: Vec<Option<u32>> = self.steps.iter().map(|s| s.known.scope).collect();
        for index in (0..self.steps.len()).rev() {
            for &operand in &self.steps[index].operands {
                scopes[operand] = scopes[operand].or(scopes[index]);
            }
        }
        scopes.into_iter().map(|scope| scope.unwrap_or(0)).collect()
    }

    /// The leaves below each root.
    pub fn cones(&self, leaves: usize) -> Vec<Vec<bool>> {
        let mut below: Vec<Vec<bool>> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let mut cone = vec![false; leaves];
            if let Term::Leaf(index) = step.term {
                cone[index as usize] = true;
            }
            for &operand in &step.operands {
                for (leaf, below) in cone.iter_mut().zip(&below[operand]) {
                    *leaf |= below;
                }
            }
            below.push(cone);
        }
        self.roots.iter().map(|&root| below[root].clone()).collect()
    }
}

/// The same graph without what no output needs.
pub(super) fn without_dead_code(graph: &Graph) -> Graph {
    live_copy(graph).0
}

/// The same graph without what no output needs, and where the nodes went.
pub(super) fn live_copy(graph: &Graph) -> (Graph, Images) {
    let live = graph.live();
    let (result, leaves) = graph.successor();
    let nodes = graph.nodes();
    let mut images = Images::new(nodes.len(), leaves);
    for index in (0..nodes.len()).filter(|&index| live[index]) {
        copy(graph, NodeId::new(index), &result, &mut images);
    }
    finish(graph, &result, &images);
    drop(nodes);
    (result, images)
}

/// Outputs and updates, from their images.
fn finish(graph: &Graph, result: &Graph, images: &Images) {
    for (name, id) in graph.outputs() {
        if let Some(image) = images.get(id) {
            result.output(&name, result.tensor(image));
        }
    }
    for (variable, value) in graph.updates() {
        if let (Some(variable), Some(value)) = (images.get(variable), images.get(value)) {
            result.update(result.tensor(variable), result.tensor(value));
        }
    }
}

/// A node as it is, on the images of its operands; operands that are not there yet come too.
fn copy<'g>(graph: &Graph, id: NodeId, result: &'g Graph, images: &mut Images) -> Tensor<'g> {
    if let Some(image) = images.get(id) {
        return result.tensor(image);
    }
    let node = graph.nodes()[id.index()].clone();
    let operands: Vec<Tensor<'g>> = node
        .inputs
        .iter()
        .map(|&input| copy(graph, input, result, images))
        .collect();
    let image = result.in_scope(node.scope, || {
        result.apply(node.op.def, node.op.attributes.clone(), &operands)
    });
    images.set(id, image.id());
    image
}

/// A graph put together of solutions.
pub(super) struct Assembled {
    /// The graph.
    pub graph: Graph,
    /// What its nodes were made for: node, instance, and step of the instance's solution.
    pub made: Vec<(NodeId, usize, usize)>,
}

/// The graph in which every region with a solution is replaced by it; an error where some
/// term did not fit, which would be a mistake of this pass.
pub(super) fn assemble(
    graph: &Graph,
    cut: &Cut,
    solutions: &[Option<Solution>],
) -> Result<Assembled, String> {
    let live = graph.live();
    let (result, leaves) = graph.successor();
    let count = graph.nodes().len();
    let mut images = Images::new(count, leaves);
    let mut owners: Vec<Option<(usize, usize)>> = vec![None; count];
    let mut replaced = vec![false; count];
    for (place, instance) in cut.instances.iter().enumerate() {
        for (root, id) in instance.roots.iter().enumerate() {
            owners[id.index()] = Some((place, root));
        }
        if solutions[instance.region].is_some() {
            for &member in &instance.members {
                replaced[member] = true;
            }
        }
    }
    let mut stamps: Vec<Option<Stamp<'_, '_>>> = cut
        .instances
        .iter()
        .map(|instance| {
            let solution = solutions[instance.region].as_ref()?;
            Some(Stamp::new(solution, instance, &result))
        })
        .collect();
    for index in (0..count).filter(|&index| live[index]) {
        let id = NodeId::new(index);
        if images.get(id).is_some() {
            continue;
        }
        match owners[index].map(|(place, root)| (stamps[place].as_mut(), root)) {
            Some((Some(stamp), root)) => {
                let ty = graph.nodes()[index].ty.clone();
                let value = stamp.root(root, graph, &mut images, &ty);
                if value.is_poisoned() {
                    let errors = result.errors();
                    let message = errors.first().map(ToString::to_string);
                    return Err(message.unwrap_or_else(|| "a term did not fit".to_owned()));
                }
                images.set(id, value.id());
            }
            _ if replaced[index] => {}
            _ => {
                copy(graph, id, &result, &mut images);
            }
        }
    }
    finish(graph, &result, &images);
    let mut made = Vec::new();
    for (place, stamp) in stamps.into_iter().enumerate() {
        let nodes = stamp.map_or(Vec::new(), |stamp| stamp.made);
        made.extend(nodes.into_iter().map(|(node, step)| (node, place, step)));
    }
    Ok(Assembled {
        graph: result,
        made,
    })
}

/// A solution put in the place of one instance.
struct Stamp<'s, 'g> {
    solution: &'s Solution,
    instance: &'s Instance,
    scopes: Vec<u32>,
    built: Vec<Option<Tensor<'g>>>,
    made: Vec<(NodeId, usize)>,
    graph: &'g Graph,
}

impl<'s, 'g> Stamp<'s, 'g> {
    fn new(solution: &'s Solution, instance: &'s Instance, graph: &'g Graph) -> Stamp<'s, 'g> {
        let local = solution.scopes();
        let scope = |scope: u32| instance.scopes.get(scope as usize).copied().unwrap_or(0);
        Stamp {
            solution,
            instance,
            scopes: local.into_iter().map(scope).collect(),
            built: vec![None; solution.steps.len()],
            made: Vec::new(),
            graph,
        }
    }

    /// Build a root and what it needs.
    fn root(
        &mut self,
        root: usize,
        old: &Graph,
        images: &mut Images,
        ty: &TensorType,
    ) -> Tensor<'g> {
        let root = self.solution.roots[root];
        let mut needed = vec![false; root + 1];
        needed[root] = true;
        for index in (0..=root).rev() {
            if needed[index] && self.built[index].is_none() {
                for &operand in &self.solution.steps[index].operands {
                    needed[operand] = true;
                }
            }
        }
        for index in (0..=root).filter(|&index| needed[index]) {
            if self.built[index].is_none() {
                let graph = self.graph;
                let scope = self.scopes[index];
                let first = graph.nodes().len();
                let built = graph.in_scope(scope, || self.step(index, old, images));
                let new = (first..graph.nodes().len()).map(NodeId::new);
                self.made.push((built.id(), index));
                self.made.extend(new.map(|node| (node, index)));
                self.built[index] = Some(built);
            }
        }
        match self.built[root] {
            Some(value) => self
                .graph
                .in_scope(self.scopes[root], || fit(value, &ty.shape)),
            None => self.graph.fail("a root was not built"),
        }
    }

    fn step(&self, index: usize, old: &Graph, images: &mut Images) -> Tensor<'g> {
        let step = &self.solution.steps[index];
        let x: Vec<Tensor<'g>> = step
            .operands
            .iter()
            .filter_map(|&operand| self.built[operand])
            .collect();
        match &step.term {
            Term::Leaf(leaf) => {
                let id = self.instance.leaves[*leaf as usize];
                match images.get(id) {
                    Some(image) => self.graph.tensor(image),
                    None => copy(old, id, self.graph, images),
                }
            }
            Term::Constant(value) => self.graph.constant(value.value()),
            Term::Sum(coefficients, _) => {
                let mut constant = 0.0;
                let mut terms = Vec::new();
                for (position, (c, &value)) in coefficients.iter().zip(&x).enumerate() {
                    match self.solution.steps[step.operands[position]].term {
                        Term::Constant(number) => constant += c.value() * number.value(),
                        _ => terms.push((c.value(), value)),
                    }
                }
                emit::sum(&mut Builder(self.graph), constant, terms)
            }
            Term::Product(halves, _) => {
                let factors = halves.iter().copied().zip(x);
                emit::product(&mut Builder(self.graph), factors)
            }
            Term::Reduce(combine, span, _) => reduce(x[0], *combine, span),
            Term::Rename(sources, _) => rename(x[0], sources),
            Term::Contract(k, _) => matmul(x[0], x[1], *k as usize),
            Term::Apply(op, _) => self.apply(&self.solution.ops[*op as usize], &x),
        }
    }

    fn apply(&self, applied: &Applied, x: &[Tensor<'g>]) -> Tensor<'g> {
        let operands: Vec<Tensor<'g>> = if applied.elementwise {
            x.to_vec()
        } else {
            let types = applied.operands.iter();
            x.iter()
                .zip(types)
                .map(|(&x, ty)| fit(x, &ty.shape))
                .collect()
        };
        let op = &applied.op;
        match op.def.lowering {
            // A view that sees the operand as it already is.
            Lowering::View(_) if applied.reshape => operands[0].reshape(&applied.result.shape),
            _ => self.graph.apply(op.def, op.attributes.clone(), &operands),
        }
    }
}

/// A value in a shape it can be repeated to, once leading axes of size 1 are dropped.
fn fit<'g>(value: Tensor<'g>, shape: &Shape) -> Tensor<'g> {
    let own = value.shape();
    if own.rank() <= shape.rank() {
        return value.broadcast(shape);
    }
    let dropped = own.rank() - shape.rank();
    value.reshape(&own.dims()[dropped..]).broadcast(shape)
}

fn reduce<'g>(value: Tensor<'g>, combine: Combine, span: &[(u8, u32)]) -> Tensor<'g> {
    let mut extents = Extents::of(&value.shape());
    for &(axis, extent) in span {
        extents.set(usize::from(axis), extent);
    }
    let own = value.shape();
    let shape = extents.shape();
    let value = if own.rank() >= shape.rank() && span_fits(&own, span) {
        value
    } else {
        fit(value, &shape)
    };
    let rank = value.shape().rank();
    let axes: Vec<usize> = span
        .iter()
        .map(|(axis, _)| rank - 1 - usize::from(*axis))
        .collect();
    let result = match combine {
        Combine::Sum => value.sum(&axes),
        Combine::Maximum => value.max(&axes),
    };
    // What is left of summed leading axes only makes shapes differ.
    for &(axis, _) in span {
        extents.set(usize::from(axis), 1);
    }
    fit(result, &extents.shape())
}

fn span_fits(shape: &Shape, span: &[(u8, u32)]) -> bool {
    let extents = Extents::of(shape);
    span.iter()
        .all(|&(axis, extent)| extents.get(usize::from(axis)) == extent)
}

fn rename<'g>(value: Tensor<'g>, sources: &[u8]) -> Tensor<'g> {
    let extents = Extents::of(&value.shape());
    let rank = extents.rank().max(sources.len());
    let mut result = Extents::SCALAR;
    for (axis, &source) in sources.iter().enumerate() {
        if source != NO_AXIS {
            result.set(axis, extents.get(usize::from(source)));
        }
    }
    // Axes that keep their order only move apart or together.
    let used: Vec<u8> = sources
        .iter()
        .copied()
        .filter(|&source| source != NO_AXIS && extents.varies(usize::from(source)))
        .collect();
    if used.windows(2).all(|pair| pair[0] < pair[1]) {
        return value.reshape(result.shape());
    }
    let mut dims: Vec<usize> = vec![1; rank - extents.rank()];
    dims.extend(extents.shape().dims());
    let mut idle: Vec<u8> = (0..rank as u8)
        .filter(|axis| !used.contains(axis))
        .collect();
    let mut permutation: Vec<usize> = (0..rank)
        .map(|axis| {
            let source = sources.get(axis).copied().unwrap_or(NO_AXIS);
            let source = if used.contains(&source) {
                Some(source)
            } else {
                idle.pop()
            };
            rank - 1 - usize::from(source.unwrap_or(0))
        })
        .collect();
    permutation.reverse();
    value.reshape(dims).transpose(&permutation)
}

fn matmul<'g>(left: Tensor<'g>, right: Tensor<'g>, k: usize) -> Tensor<'g> {
    let with = |value: Tensor<'g>, axis: usize| {
        let mut extents = Extents::of(&value.shape());
        extents.set(axis, k as u32);
        let mut dims = extents.shape().dims().to_vec();
        while dims.len() < 2 {
            dims.insert(0, 1);
        }
        fit(value, &Shape::from(dims))
    };
    with(left, 0).matmul(with(right, 1))
}

/// Arithmetic on tensors.
struct Builder<'g>(&'g Graph);

impl<'g> Arithmetic for Builder<'g> {
    type Value = Tensor<'g>;

    fn extents(&self, value: &Tensor<'g>) -> Extents {
        Extents::of(&value.shape())
    }

    fn number(&mut self, value: f64) -> Tensor<'g> {
        self.0.constant(value)
    }

    fn binary(&mut self, op: Binary, a: Tensor<'g>, b: Tensor<'g>) -> Tensor<'g> {
        match op {
            Binary::Add => a + b,
            Binary::Subtract => a - b,
            Binary::Multiply => a * b,
            Binary::Divide => a / b,
        }
    }

    fn unary(&mut self, op: Unary, a: Tensor<'g>) -> Tensor<'g> {
        match op {
            Unary::Negate => -a,
            Unary::SquareRoot => a.sqrt(),
            Unary::ReciprocalSquareRoot => a.rsqrt(),
            Unary::Reciprocal => a.reciprocal(),
        }
    }
}
