//! The parts of an attention as one kernel.

use rustc_hash::FxHashMap;

use super::attention::{AttentionKernel, AttentionPass};
use super::domain::{Domain, Place};
use super::emit::Emitter;
use super::kernel::Access;
use crate::ir::{AttentionPart, Attributes, Lowering, NodeId};

impl Emitter<'_> {
    /// The members are parts of one attention.
    pub(super) fn attention_kernel(&self, members: &[NodeId]) -> AttentionKernel {
        let parts: FxHashMap<_, _> = members
            .iter()
            .filter_map(|&id| match self.node(id).op.def.lowering {
                Lowering::Attention(part) => Some((part, id)),
                _ => None,
            })
            .collect();
        let result = |part| Some(*self.stores_of.get(parts.get(&part)?)?.first()?);
        let with = |id: &&NodeId| self.node(**id).inputs.len();
        let largest = *members
            .iter()
            .max_by_key(with)
            .expect("a part in its group");
        let node = self.node(largest);
        let Attributes::Sight(sight) = node.op.attributes else {
            unreachable!("its shape rule asks for it");
        };
        let access = |operand: usize| self.whole_access(node.inputs[operand]);
        let dims = |operand: usize| self.node(node.inputs[operand]).ty.shape.dims();
        let [batch @ .., queries, heads, width] = dims(0) else {
            unreachable!("its shape rule asks for three axes");
        };
        let key = &dims(1)[batch.len()..];
        let backward = parts.keys().any(|part| part.is_gradient());
        let has_values = backward || parts.contains_key(&AttentionPart::Output);
        let before_mask = if backward {
            6
        } else {
            2 + usize::from(has_values)
        };
        let pass = match backward {
            false => AttentionPass::Forward {
                output: result(AttentionPart::Output),
                normalizer: result(AttentionPart::Normalizer),
            },
            true => AttentionPass::Backward {
                upstream: access(3),
                normalizer: access(4),
                sums: access(5),
                query: result(AttentionPart::QueryGradient),
                key: result(AttentionPart::KeyGradient),
                value: result(AttentionPart::ValueGradient),
            },
        };
        AttentionKernel {
            batch: batch.to_vec(),
            queries: *queries,
            keys: key[0],
            heads: *heads,
            group: heads / key[1].max(1),
            width: *width,
            value_width: if has_values {
                dims(2)[batch.len() + 2]
            } else {
                0
            },
            scale: sight.scale.value() as f32,
            causal: sight.causal,
            window: sight.window,
            query: access(0),
            key: access(1),
            value: has_values.then(|| access(2)),
            mask: sight.mask.map(|_| access(before_mask)),
            rounds: false,
            pass,
        }
    }

    /// A value in memory, over all axes but the last and columns.
    fn whole_access(&self, id: NodeId) -> Access {
        let reference = &self.fusion.references.of[id.index()];
        let node = self.node(id);
        let domain = Domain::of(&node.ty.shape);
        let (strides, column_stride) = domain
            .strides(&reference.layout, Place::Full)
            .expect("a layout fits its own shape");
        Access {
            buffer: self.buffer_of[&reference.base],
            dtype: node.ty.dtype,
            offset: reference.layout.offset,
            strides,
            column_stride,
        }
    }
}
