//! A group of nodes as a kernel.

use rustc_hash::FxHashMap;

use super::axes::merge_axes;
use super::centre::centre_again;
use super::domain::{Domain, Place};
use super::fuse::{Fusion, Kind};
use super::kernel::{
    Access, Accumulate, Action, Body, BufferId, ContractKernel, GatherKernel, Instruction, Kernel,
    LoopKernel, Operand, ScatterAddKernel, Store, ValueId,
};
use super::reference::Reference;
use super::simplify::simplify;
use crate::ir::{
    Combine, DType, Graph, Layout, Lowering, Node, NodeId, Precision, ScalarOp, Shape, TensorType,
};

/// What emission needs to know of the rest of the schedule.
pub struct Emitter<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Its nodes.
    pub nodes: &'a [Node],
    /// Which nodes share a kernel.
    pub fusion: &'a Fusion<'a>,
    /// How exactly products are computed.
    pub precision: Precision,
    /// The buffer of every node that has memory, as read by others.
    pub buffer_of: FxHashMap<NodeId, BufferId>,
    /// The buffers a group writes a node to, where it has any.
    pub stores_of: FxHashMap<NodeId, Vec<BufferId>>,
    /// For each buffer, whether its gaps are zeros already.
    pub has_gaps: Vec<bool>,
}

/// A body under construction.
struct Building {
    group: Option<usize>,
    domain: Domain,
    body: Body,
    values: FxHashMap<NodeId, ValueId>,
    loads: FxHashMap<Access, ValueId>,
    constants: FxHashMap<u32, ValueId>,
}

impl Building {
    fn new(group: Option<usize>, domain: Domain) -> Building {
        Building {
            group,
            domain,
            body: Body::default(),
            values: FxHashMap::default(),
            loads: FxHashMap::default(),
            constants: FxHashMap::default(),
        }
    }

    fn push(&mut self, instruction: Instruction) -> ValueId {
        self.body.program.push(instruction)
    }

    fn constant(&mut self, value: f32) -> ValueId {
        if let Some(&known) = self.constants.get(&value.to_bits()) {
            return known;
        }
        let id = self.push(Instruction::Constant(value));
        self.constants.insert(value.to_bits(), id);
        id
    }
}

impl<'a> Emitter<'a> {
    pub(super) fn node(&self, id: NodeId) -> &'a Node {
        &self.nodes[id.index()]
    }

    /// The kernels of a group, in order.
    pub fn kernels(&self, group: usize) -> Vec<Kernel> {
        let members = &self.fusion.groups[group].members;
        let actions = match self.fusion.groups[group].kind {
            Kind::Loop => vec![Action::Loop(self.loop_kernel(group))],
            Kind::Contract => vec![Action::Contract(self.contract_kernel(group))],
            Kind::Indexed => vec![self.indexed_kernel(members[0])],
            Kind::Assemble => self.assemble_kernels(members[0]),
            Kind::Attention => vec![Action::Attention(Box::new(self.attention_kernel(members)))],
        };
        let kernel = |action| Kernel {
            name: self.name(members),
            action,
        };
        actions.into_iter().map(kernel).collect()
    }

    /// A kernel that copies a value as others see it into a buffer.
    pub fn copy_kernel(
        &self,
        name: &str,
        reference: &Reference,
        dtype: DType,
        to: BufferId,
    ) -> Kernel {
        let domain = Domain::of(&Shape::from(&reference.layout.dims[..]));
        let mut building = Building::new(None, domain.clone());
        let value = self.operand(&mut building, reference, Place::Full);
        let access = self.dense(&domain, Place::Full, to, dtype);
        building.body.stores.push(Store { value, access });
        let kernel = LoopKernel {
            outer: domain.outer,
            columns: domain.columns,
            body: building.body,
        };
        Kernel {
            name: format!("copy {name}"),
            action: Action::Loop(simplify(kernel)),
        }
    }

    /// The innermost layer that all members belong to, and what they do.
    fn name(&self, members: &[NodeId]) -> String {
        let scope = self.graph.scope_path(self.node(members[0]).scope);
        let mut ops: Vec<&str> = Vec::new();
        for &id in members {
            let name = self.node(id).op.def.name;
            if !ops.contains(&name) {
                ops.push(name);
            }
        }
        let more = if ops.len() > 6 {
            format!("+{} more", ops.len() - 6)
        } else {
            String::new()
        };
        ops.truncate(6);
        let separator = if scope.is_empty() { "" } else { ": " };
        format!("{scope}{separator}{}{more}", ops.join("+"))
    }

    fn loop_kernel(&self, group: usize) -> LoopKernel {
        let domain = self.fusion.groups[group].domain.clone();
        let mut building = Building::new(Some(group), domain.clone());
        for &id in &self.fusion.groups[group].members {
            self.member(&mut building, id);
        }
        simplify(centre_again(LoopKernel {
            outer: domain.outer,
            columns: domain.columns,
            body: building.body,
        }))
    }

    fn contract_kernel(&self, group: usize) -> ContractKernel {
        let members = &self.fusion.groups[group].members;
        let contracts =
            |id: &&NodeId| matches!(self.node(**id).op.def.lowering, Lowering::Contract);
        let root = *members
            .iter()
            .find(contracts)
            .expect("a contraction in its group");
        let domain = self.fusion.groups[group].domain.clone();
        let mut building = Building::new(Some(group), domain.clone());
        let accumulator = building.push(Instruction::Accumulator);
        building.values.insert(root, accumulator);
        self.store(&mut building, root);
        for &id in members.iter().filter(|&&id| id != root) {
            self.member(&mut building, id);
        }
        let axes = self.fusion.contract_axes(root);
        let [left, right] = [(0, axes.left()), (1, axes.right())]
            .map(|(side, domain)| self.contract_operand(self.side(root, side), domain));
        let mut kernel = ContractKernel {
            batch: axes.batch,
            m: axes.m,
            n: axes.n,
            k: axes.k,
            left,
            right,
            epilogue: building.body,
            precision: Precision::F32,
        };
        merge_axes(&mut kernel);
        kernel.precision = kernel.worthwhile(self.precision);
        kernel
    }

    fn side(&self, root: NodeId, side: usize) -> &'a Reference {
        &self.fusion.references.of[self.node(root).inputs[side].index()]
    }

    fn contract_operand(&self, reference: &Reference, domain: Domain) -> Operand {
        let mut building = Building::new(None, domain);
        let value = self.operand(&mut building, reference, Place::Full);
        Operand {
            program: building.body.program,
            value,
        }
    }

    fn indexed_kernel(&self, id: NodeId) -> Action {
        let node = self.node(id);
        let buffer = |operand: usize| {
            self.buffer_of[&self.fusion.references.of[node.inputs[operand].index()].base]
        };
        let shape = |operand: usize| &self.node(node.inputs[operand]).ty.shape;
        let output = self.stores_of[&id][0];
        let (count, width) = (shape(1).elements(), node.ty.shape.last());
        match node.op.def.lowering {
            Lowering::Gather => Action::Gather(GatherKernel {
                table: buffer(0),
                indices: buffer(1),
                output,
                rounds: false,
                rows: shape(0).dims()[0],
                width,
                count,
            }),
            _ => Action::ScatterAdd(ScatterAddKernel {
                updates: buffer(0),
                indices: buffer(1),
                output,
                rows: node.ty.shape.dims()[0],
                width,
                count,
            }),
        }
    }

    /// What is not covered is filled first, then every piece that is not there yet is put in its
    /// place.
    fn assemble_kernels(&self, id: NodeId) -> Vec<Action> {
        let node = self.node(id);
        let Some(assembly) = node.op.attributes.as_assembly() else {
            return Vec::new();
        };
        let whole = Layout::contiguous(&node.ty.shape);
        let mut actions = Vec::new();
        for &buffer in self.stores_of.get(&id).map_or(&[][..], Vec::as_slice) {
            let filled = self.has_gaps.get(buffer.index()).copied().unwrap_or(false);
            if !assembly.is_covered() && !filled {
                let fill = assembly.fill.value() as f32;
                actions.push(fill_kernel(buffer, &node.ty, fill));
            }
            let pieces = node.inputs.iter().zip(&assembly.pieces);
            for (piece, (input, steps)) in pieces.enumerate() {
                let reference = &self.fusion.references.of[input.index()];
                let missing = !self.fusion.in_place.contains(&(id, piece));
                if missing && steps.iter().all(|steps| steps.count > 0) {
                    let place = whole.sliced(steps);
                    actions.push(self.piece_kernel(reference, buffer, node.ty.dtype, &place));
                }
            }
        }
        actions
    }

    /// A value as its readers see it, written to a part of a buffer.
    fn piece_kernel(
        &self,
        reference: &Reference,
        buffer: BufferId,
        dtype: DType,
        place: &Layout,
    ) -> Action {
        let domain = Domain::of(&Shape::from(&place.dims[..]));
        let mut building = Building::new(None, domain.clone());
        let value = self.operand(&mut building, reference, Place::Full);
        let (strides, column_stride) = domain
            .strides(place, Place::Full)
            .expect("a layout fits its own shape");
        let access = Access {
            buffer,
            dtype,
            offset: place.offset,
            strides,
            column_stride,
        };
        building.body.stores.push(Store { value, access });
        Action::Loop(simplify(LoopKernel {
            outer: domain.outer,
            columns: domain.columns,
            body: building.body,
        }))
    }

    /// Compute one member and store it where it is wanted.
    fn member(&self, building: &mut Building, id: NodeId) {
        let node = self.node(id);
        let place = self.fusion.role_of[id.index()].place;
        match node.op.def.lowering {
            Lowering::Reduce(combine) => return self.reduction(building, id, combine),
            Lowering::Assemble => return self.store_pieces(building, id),
            _ => {}
        }
        let operands = self.read(id).into_iter();
        let operands: Vec<ValueId> = operands
            .map(|reference| self.operand(building, reference, place))
            .collect();
        let value = self.pointwise(building, id, operands);
        building.values.insert(id, value);
        self.store(building, id);
    }

    /// The operands that an elementwise node is computed from: of a value after another, only
    /// the value is, since kernels stand in order.
    fn read(&self, id: NodeId) -> Vec<&'a Reference> {
        let mut operands = self.fusion.operands(id);
        if let Lowering::Pointwise(ScalarOp::First) = self.node(id).op.def.lowering {
            operands.truncate(1);
        }
        operands
    }

    /// Pieces that the kernel computes go straight to their places.
    fn store_pieces(&self, building: &mut Building, id: NodeId) {
        let node = self.node(id);
        let pieces = node.op.attributes.as_assembly().into_iter();
        let pieces = pieces.flat_map(|assembly| &assembly.pieces);
        for (input, steps) in node.inputs.iter().zip(pieces) {
            let base = self.fusion.references.of[input.index()].base;
            for (buffer, whole) in self.places(id) {
                self.store_at(building, base, buffer, &whole.sliced(steps));
            }
        }
    }

    /// Where a value goes: to buffers of its own, and into the assemblies it is a piece of.
    fn places(&self, id: NodeId) -> Vec<(BufferId, Layout)> {
        let shape = &self.node(id).ty.shape;
        let own = self.stores_of.get(&id).into_iter().flatten();
        let mut places: Vec<(BufferId, Layout)> = own
            .map(|&buffer| (buffer, Layout::contiguous(shape)))
            .collect();
        for &(assembly, piece) in self.fusion.pieces_of.get(&id).into_iter().flatten() {
            let Some(all) = self.node(assembly).op.attributes.as_assembly() else {
                continue;
            };
            for (buffer, whole) in self.places(assembly) {
                let place = whole.sliced(&all.pieces[piece]).reshaped(shape);
                places.extend(place.map(|place| (buffer, place)));
            }
        }
        places
    }

    /// Store a full value where a layout says.
    fn store_at(&self, building: &mut Building, id: NodeId, buffer: BufferId, place: &Layout) {
        let strides = building.domain.strides(place, Place::Full);
        let (strides, column_stride) = strides.expect("checked when it was placed");
        let access = Access {
            buffer,
            dtype: self.node(id).ty.dtype,
            offset: place.offset,
            strides,
            column_stride,
        };
        let value = building.values[&id];
        building.body.stores.push(Store { value, access });
    }

    fn reduction(&self, building: &mut Building, id: NodeId, combine: Combine) {
        let node = self.node(id);
        let role = self.fusion.role_of[id.index()];
        let from = &self.node(node.inputs[0]).ty.shape;
        let reference = &self.fusion.references.of[node.inputs[0].index()];
        let operand = self.operand(building, reference, role.reads);
        if role.place == Place::Row {
            let value = building.push(Instruction::Reduce(combine, operand));
            building.values.insert(id, value);
            return self.store(building, id);
        }
        let over_columns = node.op.attributes.as_axes().contains(&(from.rank() - 1));
        let value = if over_columns && role.reads == Place::Full {
            building.push(Instruction::Reduce(combine, operand))
        } else {
            operand
        };
        let target = self.fusion.target(id, &building.domain, role.reads);
        let (strides, column_stride) = target.expect("checked when the node joined");
        for &buffer in &self.stores_of[&id] {
            let strides = strides.clone();
            let access = Access {
                buffer,
                dtype: DType::F32,
                offset: 0,
                strides,
                column_stride,
            };
            building.body.accumulates.push(Accumulate {
                combine,
                value,
                access,
            });
        }
    }

    fn store(&self, building: &mut Building, id: NodeId) {
        let place = self.fusion.role_of[id.index()].place;
        if place == Place::Full {
            for (buffer, whole) in self.places(id) {
                self.store_at(building, id, buffer, &whole);
            }
            return;
        }
        for &buffer in self.stores_of.get(&id).map_or(&[][..], Vec::as_slice) {
            let access = self.dense(&building.domain, place, buffer, self.node(id).ty.dtype);
            building.body.stores.push(Store {
                value: building.values[&id],
                access,
            });
        }
    }

    /// Row-major without gaps.
    fn dense(&self, domain: &Domain, place: Place, buffer: BufferId, dtype: DType) -> Access {
        let shape = match place {
            Place::Full => domain.shape(),
            _ => Shape::from(&domain.outer[..]),
        };
        let (strides, column_stride) = domain
            .strides(&Layout::contiguous(&shape), place)
            .expect("a dense layout fits its own shape");
        Access {
            buffer,
            dtype,
            offset: 0,
            strides,
            column_stride,
        }
    }

    /// The value an operand has at a place.
    fn operand(&self, building: &mut Building, reference: &Reference, place: Place) -> ValueId {
        let base = reference.base;
        let own = self.fusion.group_of[base.index()];
        if own.is_some() && own == building.group && !self.fusion.inline[base.index()] {
            return building.values[&base];
        }
        let node = self.node(base);
        if self.fusion.inline[base.index()] {
            return self.inline(building, base);
        }
        if self.fusion.prologue[base.index()] || self.fusion.again[base.index()] {
            return self.prologue(building, reference, place);
        }
        match node.op.def.lowering {
            Lowering::Constant => building.constant(node.op.attributes.as_number() as f32),
            Lowering::Index => self.index(building, reference, place),
            _ => self.load(building, reference, place),
        }
    }

    fn inline(&self, building: &mut Building, id: NodeId) -> ValueId {
        if let Some(&known) = building.values.get(&id) {
            return known;
        }
        let node = self.node(id);
        let operands: Vec<ValueId> = node
            .inputs
            .iter()
            .map(|input| {
                let seen = &self.fusion.references.of[input.index()];
                let mut scalar = Reference::plain(seen.base, Layout::contiguous(&Shape::scalar()));
                scalar.layout.offset = seen.layout.offset;
                self.operand(building, &scalar, Place::Row)
            })
            .collect();
        let value = self.pointwise(building, id, operands);
        building.values.insert(id, value);
        value
    }

    /// A node computed where it is read.
    fn prologue(&self, building: &mut Building, reference: &Reference, place: Place) -> ValueId {
        let id = reference.base;
        if let Some(&known) = building.values.get(&id) {
            return known;
        }
        let own = building.domain.place_of_base(&reference.layout, place);
        let place = own.expect("checked when it was left to its readers");
        let operands = self.read(id).into_iter();
        let operands: Vec<ValueId> = operands
            .map(|reference| self.operand(building, reference, place))
            .collect();
        let value = self.pointwise(building, id, operands);
        building.values.insert(id, value);
        value
    }

    /// One elementwise node.
    fn pointwise(&self, building: &mut Building, id: NodeId, operands: Vec<ValueId>) -> ValueId {
        match self.node(id).op.def.lowering {
            Lowering::Pointwise(ScalarOp::Identity | ScalarOp::First) | Lowering::View(_) => {
                operands[0]
            }
            Lowering::Pointwise(op) => building.push(Instruction::Scalar(op, operands)),
            _ => unreachable!("only elementwise work is part of a program"),
        }
    }

    fn load(&self, building: &mut Building, reference: &Reference, place: Place) -> ValueId {
        let (strides, column_stride) = self.strides(building, reference, place);
        let access = Access {
            buffer: self.buffer_of[&reference.base],
            dtype: self.node(reference.base).ty.dtype,
            offset: reference.layout.offset,
            strides,
            column_stride,
        };
        if let Some(&known) = building.loads.get(&access) {
            return known;
        }
        let value = building.push(Instruction::Load(access.clone()));
        building.loads.insert(access, value);
        value
    }

    fn strides(
        &self,
        building: &Building,
        reference: &Reference,
        place: Place,
    ) -> (Vec<usize>, usize) {
        if reference.layout.dims.iter().product::<usize>() == 1 {
            return (vec![0; building.domain.outer.len()], 0);
        }
        building
            .domain
            .strides(&reference.layout, place)
            .expect("checked when the node joined")
    }

    /// The address of an index, which is its value.
    fn index(&self, building: &mut Building, reference: &Reference, place: Place) -> ValueId {
        let (strides, column_stride) = self.strides(building, reference, place);
        let mut terms = Vec::new();
        for (axis, &stride) in strides
            .iter()
            .enumerate()
            .filter(|(_, stride)| **stride != 0)
        {
            let index = building.push(Instruction::OuterIndex(axis));
            terms.push(self.scaled(building, index, stride));
        }
        if column_stride != 0 {
            let index = building.push(Instruction::ColumnIndex);
            terms.push(self.scaled(building, index, column_stride));
        }
        if terms.is_empty() || reference.layout.offset != 0 {
            terms.push(building.constant(reference.layout.offset as f32));
        }
        let sum = |a, b| Instruction::Scalar(ScalarOp::Add, vec![a, b]);
        terms
            .into_iter()
            .reduce(|a, b| building.push(sum(a, b)))
            .expect("at least one term")
    }

    fn scaled(&self, building: &mut Building, index: ValueId, stride: usize) -> ValueId {
        if stride == 1 {
            return index;
        }
        let factor = building.constant(stride as f32);
        building.push(Instruction::Scalar(ScalarOp::Multiply, vec![index, factor]))
    }
}

/// A buffer filled with one number.
fn fill_kernel(buffer: BufferId, ty: &TensorType, value: f32) -> Action {
    let mut body = Body::default();
    let value = body.program.push(Instruction::Constant(value));
    let access = Access {
        buffer,
        dtype: ty.dtype,
        offset: 0,
        strides: Vec::new(),
        column_stride: 1,
    };
    body.stores.push(Store { value, access });
    Action::Loop(LoopKernel {
        outer: Vec::new(),
        columns: ty.shape.elements(),
        body,
    })
}
