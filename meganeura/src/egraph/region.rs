//! Cutting a graph into regions, one for each small enough layer with its forward and its
//! backward nodes, so that layers of equal structure are optimized once.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::language::LeafType;
use crate::ir::{Graph, IndexBound, Lowering, Node, NodeId, Op, TensorType};

/// A layer with everything inside it becomes one region up to this many nodes.
const TARGET_NODES: usize = 120;

/// A layer whose own nodes are more than this is cut into pieces of the target size.
const MOST_NODES: usize = 2 * TARGET_NODES;

/// A node of a region: operands are positions in the region's list.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Entry {
    /// A value from outside.
    Leaf(u32),
    /// An op.
    Node {
        op: Op,
        inputs: Vec<usize>,
        ty: TensorType,
        scope: u32,
    },
}

/// A part of a graph on its own: two instances of one structure are equal.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Region {
    /// What comes from outside.
    pub leaves: Vec<LeafType>,
    /// Its nodes, operands first.
    pub entries: Vec<Entry>,
    /// What others use of it, as positions in the list, and with which type.
    pub roots: Vec<(usize, TensorType)>,
    /// How many layers it spans.
    pub scopes: u32,
}

impl Region {
    /// The region as a graph of its own, and where it lies there.
    pub fn as_graph(&self) -> (Graph, Instance) {
        let graph = Graph::new();
        let mut images: Vec<NodeId> = Vec::new();
        let mut instance = Instance {
            region: 0,
            leaves: vec![NodeId::new(0); self.leaves.len()],
            roots: Vec::new(),
            members: Vec::new(),
            scopes: Vec::new(),
        };
        for entry in &self.entries {
            let image = match entry {
                Entry::Leaf(index) => {
                    let leaf = &self.leaves[*index as usize];
                    let name = format!("leaf {index}");
                    let id = graph.input(&name, &leaf.ty.shape, leaf.ty.dtype).id();
                    instance.leaves[*index as usize] = id;
                    id
                }
                Entry::Node { op, inputs, .. } => {
                    let operands: Vec<_> = inputs
                        .iter()
                        .map(|&input| graph.tensor(images[input]))
                        .collect();
                    let attributes = op.attributes.clone();
                    let id = graph.apply(op.def, attributes, &operands).id();
                    instance.members.push(id.index());
                    id
                }
            };
            images.push(image);
        }
        for (index, (root, _)) in self.roots.iter().enumerate() {
            instance.roots.push(images[*root]);
            graph.output(&format!("root {index}"), graph.tensor(images[*root]));
        }
        (graph, instance)
    }

    /// The leaves that are computed elsewhere, given what the leaves are in some graph.
    pub fn since(&self, leaves: &[NodeId]) -> Vec<(NodeId, u32)> {
        let known = self.leaves.iter().zip(leaves);
        known
            .filter_map(|(leaf, id)| Some((*id, leaf.since?)))
            .collect()
    }

    /// The leaves below each root, as in the region itself.
    pub fn cones(&self) -> Vec<Vec<bool>> {
        let mut below: Vec<Vec<bool>> = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let mut leaves = vec![false; self.leaves.len()];
            match entry {
                Entry::Leaf(index) => leaves[*index as usize] = true,
                Entry::Node { inputs, .. } => {
                    for &input in inputs {
                        for (leaf, below) in leaves.iter_mut().zip(&below[input]) {
                            *leaf |= below;
                        }
                    }
                }
            }
            below.push(leaves);
        }
        self.roots
            .iter()
            .map(|(root, _)| below[*root].clone())
            .collect()
    }
}

/// Where an instance of a region lies in the graph.
#[derive(Debug)]
pub(super) struct Instance {
    /// Which region, as an index into [`Cut::regions`].
    pub region: usize,
    /// The nodes its leaves stand for.
    pub leaves: Vec<NodeId>,
    /// The nodes its roots stand for.
    pub roots: Vec<NodeId>,
    /// The nodes that belong to it.
    pub members: Vec<usize>,
    /// The layers, by local index.
    pub scopes: Vec<u32>,
}

/// A graph cut into regions.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// The different ones.
    pub regions: Vec<Region>,
    /// All of them.
    pub instances: Vec<Instance>,
}

/// Cut a graph into regions.
pub(super) fn cut(graph: &Graph, depths: &[u32]) -> Cut {
    let live = graph.live();
    let mut groups = groups(graph, &live);
    let nodes = graph.nodes();
    let numbers = numbers(&nodes);
    let bounds = bounds(graph, &nodes);
    let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for index in (0..nodes.len()).filter(|&index| live[index]) {
        if !is_leaf(&nodes[index]) {
            members.entry(groups[index]).or_default().push(index);
        }
    }
    split(&mut members, &mut groups);
    let shared = shared(graph, &nodes, &members, &groups, &numbers);
    let mut cut = Cut::default();
    let mut known: FxHashMap<Region, usize> = FxHashMap::default();
    for members in members.values() {
        let mut builder = Builder {
            nodes: &nodes,
            numbers: &numbers,
            bounds: &bounds,
            group: groups[members[0]],
            groups: &groups,
            region: Region::default(),
            places: FxHashMap::default(),
            leaves: Vec::new(),
            scopes: Vec::new(),
        };
        for &index in members {
            builder.place(index);
        }
        let roots: Vec<usize> = members.iter().copied().filter(|&i| shared[i]).collect();
        for &root in &roots {
            let place = builder.places[&root];
            builder.region.roots.push((place, nodes[root].ty.clone()));
        }
        builder.region.scopes = builder.scopes.len() as u32;
        since(&mut builder.region.leaves, &builder.leaves, &nodes, depths);
        let next = cut.regions.len();
        let region = *known.entry(builder.region.clone()).or_insert(next);
        if region == next {
            cut.regions.push(builder.region);
        }
        cut.instances.push(Instance {
            region,
            leaves: builder.leaves,
            roots: roots.into_iter().map(NodeId::new).collect(),
            members: members.clone(),
            scopes: builder.scopes,
        });
    }
    cut
}

/// When the leaves are there, from the first on. Distances beyond a few kernels count alike,
/// so that equal layers stay equal wherever they stand.
fn since(leaves: &mut [LeafType], ids: &[NodeId], nodes: &[Node], depths: &[u32]) {
    const FAR: u32 = 4;
    let computed: Vec<usize> = (0..ids.len())
        .filter(|&leaf| !is_leaf(&nodes[ids[leaf].index()]))
        .collect();
    let mut order = computed.clone();
    order.sort_by_key(|&leaf| depths[ids[leaf].index()]);
    let (mut last, mut depth) = (None::<u32>, 0);
    for leaf in order {
        let own = depths[ids[leaf].index()];
        depth += last.map_or(0, |last| (own - last).min(FAR));
        last = Some(own);
        leaves[leaf].since = Some(depth);
    }
}

/// Cut groups that are too large. Any cut is sound, since a solution may not come to depend
/// on more than its region did.
fn split(members: &mut BTreeMap<u32, Vec<usize>>, groups: &mut [u32]) {
    let mut next = members.keys().last().map_or(0, |last| last + 1);
    let large: Vec<u32> = members
        .iter()
        .filter(|(_, members)| members.len() > MOST_NODES)
        .map(|(group, _)| *group)
        .collect();
    for group in large {
        for piece in members
            .remove(&group)
            .unwrap_or_default()
            .chunks(TARGET_NODES)
        {
            for &index in piece {
                groups[index] = next;
            }
            members.insert(next, piece.to_vec());
            next += 1;
        }
    }
}

/// The nodes that another region, an output or an update uses.
fn shared(
    graph: &Graph,
    nodes: &[Node],
    members: &BTreeMap<u32, Vec<usize>>,
    groups: &[u32],
    numbers: &[bool],
) -> Vec<bool> {
    let mut shared = vec![false; nodes.len()];
    for (_, id) in graph.outputs() {
        shared[id.index()] = true;
    }
    for (_, value) in graph.updates() {
        shared[value.index()] = true;
    }
    for (group, members) in members {
        for input in members.iter().flat_map(|&index| &nodes[index].inputs) {
            let input = input.index();
            if groups[input] != *group && !numbers[input] {
                shared[input] = true;
            }
        }
    }
    shared
}

fn is_leaf(node: &Node) -> bool {
    matches!(node.op.def.lowering, Lowering::Leaf)
}

/// Nodes that are the same in every graph: numbers, indices and views of them. A region that
/// uses one holds it.
fn numbers(nodes: &[Node]) -> Vec<bool> {
    let mut numbers = vec![false; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        numbers[index] = match node.op.def.lowering {
            Lowering::Leaf => false,
            Lowering::Constant | Lowering::Index => node.inputs.is_empty(),
            Lowering::View(_) => {
                let part =
                    |of: &Node| is_leaf(of) && node.ty.shape.elements() < of.ty.shape.elements();
                let inputs = node.inputs.iter().map(|input| input.index());
                inputs
                    .into_iter()
                    .all(|input| numbers[input] || part(&nodes[input]))
            }
            _ => false,
        };
    }
    numbers
}

/// Below what the integers of a node are promised to lie.
fn bounds(graph: &Graph, nodes: &[Node]) -> Vec<Option<usize>> {
    let mut bounds: Vec<Option<usize>> = vec![None; nodes.len()];
    let inputs = graph.inputs();
    let without_exception = |promise: &IndexBound| promise.except.is_none();
    for promise in graph.index_bounds().into_iter().filter(without_exception) {
        for (name, id) in &inputs {
            if *name == promise.input {
                let slot = &mut bounds[id.index()];
                *slot = Some(slot.map_or(promise.bound, |bound| bound.min(promise.bound)));
            }
        }
    }
    for (index, node) in nodes.iter().enumerate() {
        if matches!(node.op.def.lowering, Lowering::View(_)) {
            bounds[index] = node.inputs.first().and_then(|input| bounds[input.index()]);
        }
    }
    bounds
}

/// The region each node belongs to: the outermost layer around it that is small enough, or
/// the layer's own nodes.
fn groups(graph: &Graph, live: &[bool]) -> Vec<u32> {
    let nodes = graph.nodes();
    let mut paths: FxHashMap<u32, String> = FxHashMap::default();
    let mut sizes: FxHashMap<String, usize> = FxHashMap::default();
    for (index, node) in nodes.iter().enumerate() {
        let path = paths
            .entry(node.scope)
            .or_insert_with(|| graph.scope_path(node.scope));
        if live[index] && !is_leaf(node) {
            for prefix in prefixes(path) {
                *sizes.entry(prefix.to_owned()).or_default() += 1;
            }
        }
    }
    let mut names: FxHashMap<String, u32> = FxHashMap::default();
    let mut group_of: FxHashMap<u32, u32> = FxHashMap::default();
    nodes
        .iter()
        .map(|node| {
            *group_of.entry(node.scope).or_insert_with(|| {
                let path = &paths[&node.scope];
                let fits = |prefix: &&str| sizes.get(*prefix).copied().unwrap_or(0) <= TARGET_NODES;
                let name = prefixes(path).into_iter().find(fits).unwrap_or(path);
                let next = names.len() as u32;
                *names.entry(name.to_owned()).or_insert(next)
            })
        })
        .collect()
}

/// A path and all its beginnings, shortest first: of `a.b` the empty one, `a`, and `a.b`.
fn prefixes(path: &str) -> Vec<&str> {
    let mut result = vec![""];
    if !path.is_empty() {
        result.extend(path.match_indices('.').map(|(dot, _)| &path[..dot]));
        result.push(path);
    }
    result
}

struct Builder<'a> {
    nodes: &'a [Node],
    numbers: &'a [bool],
    bounds: &'a [Option<usize>],
    group: u32,
    groups: &'a [u32],
    region: Region,
    places: FxHashMap<usize, usize>,
    leaves: Vec<NodeId>,
    scopes: Vec<u32>,
}

impl Builder<'_> {
    /// The position of a node in the region, which holds it from now on.
    fn place(&mut self, index: usize) -> usize {
        if let Some(&place) = self.places.get(&index) {
            return place;
        }
        let node = &self.nodes[index];
        let inside = self.groups[index] == self.group && !is_leaf(node);
        let entry = if inside || self.numbers[index] {
            let inputs = node.inputs.iter().map(|input| self.place(input.index()));
            Entry::Node {
                inputs: inputs.collect(),
                op: node.op.clone(),
                ty: node.ty.clone(),
                scope: if inside { self.scope(node.scope) } else { 0 },
            }
        } else {
            self.leaves.push(NodeId::new(index));
            self.region.leaves.push(LeafType {
                ty: node.ty.clone(),
                bound: self.bounds[index],
                since: None,
            });
            Entry::Leaf(self.region.leaves.len() as u32 - 1)
        };
        let place = self.region.entries.len();
        self.region.entries.push(entry);
        self.places.insert(index, place);
        place
    }

    fn scope(&mut self, scope: u32) -> u32 {
        let known = self.scopes.iter().position(|&known| known == scope);
        known.unwrap_or_else(|| {
            self.scopes.push(scope);
            self.scopes.len() - 1
        }) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egraph::CostModel;
    use crate::ir::{DType, Init};

    #[test]
    fn a_layer_of_many_nodes_is_cut_into_pieces() {
        let graph = Graph::new();
        let mut x = graph.input("x", [4], DType::F32);
        for _ in 0..400 {
            x = (x + 1.0).tanh();
        }
        graph.output("y", x);
        let cut = cut(&graph, &CostModel::default().depths(&graph));
        assert!(cut.instances.len() > 3);
        assert!(
            cut.instances
                .iter()
                .all(|i| i.members.len() <= TARGET_NODES)
        );
    }

    #[test]
    fn equal_layers_are_one_region() {
        let graph = Graph::new();
        let mut x = graph.input("x", [4, 8], DType::F32);
        for layer in 0..40 {
            x = graph.scoped(&format!("layers.{layer}"), || {
                let weight = graph.parameter("weight", [8, 8], Init::Ones);
                x.matmul(weight).tanh() * 0.5 + x
            });
        }
        graph.output("y", x);
        let cut = cut(&graph, &CostModel::default().depths(&graph));
        assert_eq!(cut.instances.len(), 40);
        // The first reads an input, the others what is computed.
        assert_eq!(cut.regions.len(), 2);
    }
}
