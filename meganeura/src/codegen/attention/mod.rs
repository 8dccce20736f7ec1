//! Attention: every query, or every key, walks along what it meets with an online softmax.

mod operands;
mod steps;

use super::body::Code;
use super::{LowerError, Lowering, check_access, count};
use crate::schedule::attention::{AttentionKernel, AttentionPass};
use meganeura_shaders::{ATTENTION_SERIAL, ATTENTION_TILES, fill};
use operands::Writer;

/// Invocations of a workgroup.
const WORKGROUP: usize = 64;

/// Everything that is counted with 32 bits.
pub(super) fn check(kernel: &AttentionKernel) -> Result<(), LowerError> {
    let with = |first, second| [&kernel.batch[..], &[first, second]].concat();
    let queries = with(kernel.queries, kernel.heads);
    let keys = with(kernel.keys, kernel.key_heads());
    check_access(&kernel.query, &queries, kernel.width)?;
    check_access(&kernel.key, &keys, kernel.width)?;
    if let Some(value) = &kernel.value {
        check_access(value, &keys, kernel.value_width)?;
    }
    if let Some(mask) = &kernel.mask {
        check_access(mask, &with(kernel.heads, kernel.queries), kernel.keys)?;
    }
    if let AttentionPass::Backward { upstream, .. } = &kernel.pass {
        check_access(upstream, &queries, kernel.value_width)?;
    }
    let widest = kernel.width.max(kernel.value_width);
    count(&[&queries[..], &[widest]].concat())?;
    count(&[&keys[..], &[widest]].concat()).map(|_| ())
}

/// What one shader computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Mixed values and normalizers, an invocation for each query.
    Forward,
    /// The gradient of the queries.
    Queries,
    /// The gradients of keys and values, an invocation for each key.
    Keys,
}

/// How many there are of what a shader's invocations stand for, and of what these meet.
#[derive(Clone, Copy)]
struct Sizes {
    /// Queries, or keys.
    own: usize,
    heads: usize,
    /// Keys, or queries.
    others: usize,
    /// Heads of the other side that each head meets.
    members: usize,
}

impl Sizes {
    fn of(kernel: &AttentionKernel, side: Side) -> Sizes {
        match side {
            Side::Keys => Sizes {
                own: kernel.keys,
                heads: kernel.key_heads(),
                others: kernel.queries,
                members: kernel.group,
            },
            Side::Forward | Side::Queries => Sizes {
                own: kernel.queries,
                heads: kernel.heads,
                others: kernel.keys,
                members: 1,
            },
        }
    }
}

impl Lowering<'_> {
    pub(super) fn attention(&mut self, kernel: &AttentionKernel) -> Result<(), LowerError> {
        match &kernel.pass {
            AttentionPass::Forward { .. } => self.attention_side(kernel, Side::Forward),
            AttentionPass::Backward {
                query, key, value, ..
            } => {
                if query.is_some() {
                    self.attention_side(kernel, Side::Queries)?;
                }
                if key.is_some() || value.is_some() {
                    self.attention_side(kernel, Side::Keys)?;
                }
                Ok(())
            }
        }
    }

    fn attention_side(&mut self, kernel: &AttentionKernel, side: Side) -> Result<(), LowerError> {
        let sizes = Sizes::of(kernel, side);
        let Sizes {
            own,
            heads,
            others,
            members,
        } = sizes;
        let batches: usize = kernel.batch.iter().product();
        if batches * own * heads == 0 {
            return Ok(());
        }
        let rounds = members * others;
        if rounds > self.target.rounds {
            return Err(LowerError::TooManyRounds(rounds));
        }
        let writer = Writer::new(kernel, side, self.memory());
        let number = |value: usize| format!("{value}u");
        let mut before = Code::default();
        writer.before(&mut before);
        let (mut step, mut after) = (Code::default(), Code::default());
        writer.step(&mut step);
        writer.after(&mut after);
        let group = kernel.group;
        let other_head = match side {
            Side::Keys => format!("head * {group}u + member"),
            Side::Forward | Side::Queries => format!("head / {group}u + member"),
        };
        let tile = writer.tile();
        let blocks = own.div_ceil(WORKGROUP);
        let (mut shared, mut fill_tile, mut load) = Default::default();
        let (template, groups) = match self.target.software {
            true => {
                writer.load(&mut load);
                (
                    ATTENTION_SERIAL,
                    (batches * heads * own).div_ceil(WORKGROUP),
                )
            }
            false => {
                writer.share(&mut shared, &mut fill_tile, &mut load);
                (ATTENTION_TILES, blocks * batches * heads)
            }
        };
        let source = fill(
            template,
            &[
                ("declarations", &writer.memory.declarations()),
                ("ranges", &ranges(kernel, side, sizes)),
                ("workgroup", &number(WORKGROUP)),
                ("items", &number(batches * heads * own)),
                ("works", &number(blocks * batches * heads)),
                ("blocks", &number(blocks)),
                ("tile", &number(tile)),
                ("shared", shared.text()),
                ("fill", fill_tile.text()),
                ("count", &number(own)),
                ("heads", &number(heads)),
                ("members", &number(members)),
                ("other_head", &other_head),
                ("before", before.text()),
                ("load", load.text()),
                ("step", step.text()),
                ("after", after.text()),
            ],
        );
        let part = match side {
            Side::Forward => "",
            Side::Queries => "queries",
            Side::Keys => "keys",
        };
        self.emit(part, source, &writer.memory, groups)
    }
}

/// The functions that tell which of the other side a query (or a key) meets.
fn ranges(kernel: &AttentionKernel, side: Side, sizes: Sizes) -> String {
    let (own, others) = (sizes.own as i64, sizes.others as i64);
    // Where the other side's row stands that is at the same position.
    let shift = others - own;
    let window = kernel.window.map(|window| window.min(1 << 30) as i64);
    let (before, beyond) = match (side, kernel.causal) {
        (Side::Keys, true) => (Some(0), window),
        (_, true) => (window.map(|w| 1 - w), Some(1)),
        (_, false) => (window.map(|w| 1 - w), window),
    };
    let bound = |by: Option<i64>, otherwise: i64| match by {
        Some(by) => format!("u32(clamp(i32(own) + ({}i), 0i, {others}i))", shift + by),
        None => format!("{otherwise}u"),
    };
    format!(
        "fn range_start(own: u32) -> u32 {{\n    return {};\n}}\n\
         fn range_end(own: u32) -> u32 {{\n    return {};\n}}\n",
        bound(before, 0),
        bound(beyond, others)
    )
}
