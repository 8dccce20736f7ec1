//! Deep products of small results, cut along their depth.
//!
//! A thread that takes some steps of depth reads only those of both operands, and what it
//! reads it mostly wrote: the samples whose gradients it computed, or the rows of a weight that
//! it updated. Parts are products of their own, added up in order afterwards. How many there
//! are depends on sizes only, so that results do not depend on the number of threads.

use super::gemm;
use super::memory::Region;
use crate::schedule::kernel::{Access, BufferId, ContractKernel, Instruction, Operand};

/// How many parts, if so many divide the depth.
const PARTS: [usize; 3] = [8, 4, 2];
/// A part is at least as deep as this.
const DEPTH: usize = 192;
/// A product of fewer multiplications is not worth it.
const WORTH_CUTTING: usize = 1 << 20;
/// Cycles until a float that another thread has read can be written again.
const TAKE_BACK: f64 = 2.5;
/// Cycles to store a float of a part, add it up and take it back: twice as many, so that what is
/// saved is worth it.
const ADD_UP: f64 = 12.0;

/// A folded product has at least as many rows and columns as this.
const FOLDED: usize = 48;
/// Cycles to leave a sum to another thread, which adds its own.
const LEAVE: f64 = 6.0;

/// Floats for all parts of a result: what a second-level cache holds, and no plan notices.
const RESULTS: usize = 160 * 1024;

/// What the products of a plan have in common.
pub(super) struct Common<'a> {
    /// Whether a buffer is written in every run.
    pub rewritten: &'a dyn Fn(BufferId) -> bool,
    /// Room for the parts of a result, one product at a time.
    pub parts: Region,
}

/// How many floats there must be for the parts of a product's result.
pub(super) fn elements(kernel: &ContractKernel, rewritten: &dyn Fn(BufferId) -> bool) -> usize {
    match parts(kernel, rewritten) {
        1 if folds(kernel, rewritten) => gemm::room(kernel.rows(), kernel.columns()),
        1 => 0,
        parts => parts * kernel.rows() * kernel.columns(),
    }
}

/// How many parts a product is cut into; one, if it is not. Some buffers are rewritten in every
/// run.
pub(super) fn parts(kernel: &ContractKernel, rewritten: &dyn Fn(BufferId) -> bool) -> usize {
    let [m, n, k] = [kernel.rows(), kernel.columns(), kernel.depth()];
    let shared = shared(kernel, rewritten);
    let fits = |parts: &usize| {
        let results = (m * n).saturating_mul(*parts);
        shared > 0.0
            && kernel.k[0].is_multiple_of(*parts)
            && k / parts >= DEPTH
            && results <= RESULTS
            && results as f64 * ADD_UP <= shared * TAKE_BACK
    };
    PARTS.into_iter().find(fits).unwrap_or(1)
}

/// Whether a product's depth is folded, if it is not cut into parts: it is for weights' gradients
/// that are small beside what they are made of.
pub(super) fn folds(kernel: &ContractKernel, rewritten: &dyn Fn(BufferId) -> bool) -> bool {
    let [m, n, k] = [kernel.rows(), kernel.columns(), kernel.depth()];
    m >= FOLDED
        && n >= FOLDED
        && k >= 2 * DEPTH
        && (m * n) as f64 * LEAVE <= shared(kernel, rewritten) * TAKE_BACK
        && parts(kernel, rewritten) == 1
}

/// How many floats of operands a product makes threads read of each other's; none if it is not
/// worth a thought.
fn shared(kernel: &ContractKernel, rewritten: &dyn Fn(BufferId) -> bool) -> f64 {
    let [m, n, k] = [kernel.rows(), kernel.columns(), kernel.depth()];
    let batches: usize = kernel.batch.iter().product();
    let (Some(left), Some(right)) = (kernel.left.as_load(), kernel.right.as_load()) else {
        return 0.0;
    };
    let multiplications = m.saturating_mul(n).saturating_mul(k);
    if batches != 1 || multiplications < WORTH_CUTTING {
        return 0.0;
    }
    // A thread's part of the result needs all of such an operand, some steps of depth need a
    // contiguous part of it.
    let shared = |access: &Access, axis: usize, elements: usize| {
        let along_depth = stride(access, axis);
        let outermost = access.strides.iter().all(|&stride| stride <= along_depth);
        match outermost && rewritten(access.buffer) {
            true => elements as f64,
            false => 0.0,
        }
    };
    let batch = kernel.batch.len();
    shared(left, batch + kernel.m.len(), m * k) + shared(right, batch, k * n)
}

/// The same product with its parts as the first axis of the batch.
pub(super) fn cut(kernel: &ContractKernel, parts: usize) -> ContractKernel {
    let batch = kernel.batch.len();
    let operand = |operand: &Operand, depth: usize| {
        let mut operand = operand.clone();
        for instruction in &mut operand.program.instructions {
            if let Instruction::Load(access) = instruction {
                *access = cut_access(access, depth, kernel.k[0] / parts);
            }
        }
        operand
    };
    let mut k = kernel.k.clone();
    k[0] /= parts;
    ContractKernel {
        batch: [&[parts], &kernel.batch[..]].concat(),
        k,
        left: operand(&kernel.left, batch + kernel.m.len()),
        right: operand(&kernel.right, batch),
        ..kernel.clone()
    }
}

/// An access with an axis in front that steps over `length` elements of another.
fn cut_access(access: &Access, axis: usize, length: usize) -> Access {
    let stride = stride(access, axis) * length;
    Access {
        strides: [&[stride], &access.strides[..]].concat(),
        ..access.clone()
    }
}

/// The stride of an axis, the last of which are the columns.
fn stride(access: &Access, axis: usize) -> usize {
    let stride = access.strides.get(axis).copied();
    stride.unwrap_or(access.column_stride)
}
