//! What a kernel moves: of a buffer only the part that it touches.

use std::collections::BTreeMap;

use super::Plan;
use crate::schedule::kernel::{Access, Action, Body, BufferId, Kernel, Program};

/// Accesses and the sizes of the axes they run over, of which the last are the columns.
struct Touched<'a> {
    /// For each buffer the different accesses, with how many elements each touches.
    accesses: BTreeMap<BufferId, Vec<(&'a Access, usize)>>,
}

impl<'a> Touched<'a> {
    fn new() -> Touched<'a> {
        Touched {
            accesses: BTreeMap::new(),
        }
    }

    fn add(&mut self, access: &'a Access, outer: &[usize], columns: usize) {
        let strides = access.strides.iter().chain([&access.column_stride]);
        let sizes = outer.iter().chain([&columns]).zip(strides);
        let moves = sizes.filter(|(_, stride)| **stride != 0);
        let elements = moves.map(|(size, _)| size).product();
        let known = self.accesses.entry(access.buffer).or_default();
        if known.iter().all(|(other, _)| *other != access) {
            known.push((access, elements));
        }
    }

    fn program(&mut self, program: &'a Program, (outer, columns): (&[usize], usize)) {
        for access in program.loads() {
            self.add(access, outer, columns);
        }
    }

    fn results(&mut self, body: &'a Body, (outer, columns): (&[usize], usize)) {
        let stores = body.stores.iter().map(|store| &store.access);
        let sums = body.accumulates.iter().map(|sum| &sum.access);
        for access in stores.chain(sums) {
            self.add(access, outer, columns);
        }
    }

    /// Bytes that are touched, no more than there are.
    fn bytes(&self, plan: &Plan) -> usize {
        let buffers = self.accesses.iter().map(|(buffer, accesses)| {
            let touched: usize = accesses.iter().map(|(_, elements)| elements).sum();
            let buffer = plan.buffer(*buffer);
            touched.min(buffer.elements) * buffer.dtype.size()
        });
        buffers.sum()
    }
}

/// Bytes that a kernel reads and writes, each element of a buffer once.
pub(super) fn bytes(plan: &Plan, kernel: &Kernel) -> usize {
    let (mut reads, mut writes) = (Touched::new(), Touched::new());
    match &kernel.action {
        Action::Loop(kernel) => {
            let domain = (&kernel.outer[..], kernel.columns);
            reads.program(&kernel.body.program, domain);
            writes.results(&kernel.body, domain);
        }
        Action::Contract(kernel) => {
            let (outer, columns) = kernel.left_domain();
            reads.program(&kernel.left.program, (&outer, columns));
            let (outer, columns) = kernel.right_domain();
            reads.program(&kernel.right.program, (&outer, columns));
            let (outer, columns) = kernel.result_domain();
            reads.program(&kernel.epilogue.program, (&outer, columns));
            writes.results(&kernel.epilogue, (&outer, columns));
        }
        Action::Attention(attention) => {
            let with = |first, second| [&attention.batch[..], &[first, second]].concat();
            let queries = with(attention.queries, attention.heads);
            let keys = with(attention.keys, attention.key_heads());
            reads.add(&attention.query, &queries, attention.width);
            reads.add(&attention.key, &keys, attention.width);
            if let Some(value) = &attention.value {
                reads.add(value, &keys, attention.value_width);
            }
            let known = [&attention.query, &attention.key];
            let known = known.into_iter().chain(&attention.value);
            let known: Vec<&Access> = known.collect();
            let rest = attention.loads().filter(|access| !known.contains(access));
            let rest = rest.map(|access| whole(plan, access.buffer));
            return reads.bytes(plan) + rest.sum::<usize>() + written(plan, kernel);
        }
        Action::Gather(_) | Action::ScatterAdd(_) => {
            let read = kernel.reads().into_iter();
            let read = read.map(|id| whole(plan, id)).sum::<usize>();
            return read + written(plan, kernel);
        }
    }
    reads.bytes(plan) + writes.bytes(plan)
}

fn written(plan: &Plan, kernel: &Kernel) -> usize {
    let buffers = kernel.writes().into_iter();
    buffers.map(|id| whole(plan, id)).sum()
}

fn whole(plan: &Plan, id: BufferId) -> usize {
    plan.buffer(id).bytes() as usize
}
