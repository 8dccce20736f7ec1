//! The depth of products: which are cut along it, and which are folded.
//!
//! A thread that takes some steps of depth reads only those of both operands, and what it
//! reads it mostly wrote: the samples whose gradients it computed, or the rows of a weight that
//! it updated. Deep products of small results are cut into parts, products of their own that are
//! added up in order afterwards; those of larger ones are folded, for which an executor that shares
//! them among threads has memory for half of the sums. Both depend on sizes only, so that results
//! do not depend on the number of threads.

use crate::schedule::kernel::{Access, Action, BufferId, ContractKernel, Kernel};
use std::collections::HashSet;

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

/// Floats of a line of the cache.
const LINE: usize = 16;

/// Floats for all parts of a result: what a second-level cache holds, and no plan notices.
const RESULTS: usize = 160 * 1024;

/// The buffers that a run of some kernels writes.
pub(crate) fn written(kernels: &[Kernel]) -> HashSet<BufferId> {
    kernels.iter().flat_map(Kernel::writes).collect()
}

/// Floats for the sums of one product at a time, enough for all of them.
pub(crate) fn room(kernels: &[Kernel], rewritten: &dyn Fn(BufferId) -> bool) -> usize {
    let products = kernels.iter().filter_map(|kernel| match &kernel.action {
        Action::Contract(kernel) => Some(elements(kernel, rewritten)),
        _ => None,
    });
    products.max().unwrap_or(0)
}

/// How many floats there must be for the parts of a product's result.
fn elements(kernel: &ContractKernel, rewritten: &dyn Fn(BufferId) -> bool) -> usize {
    match parts(kernel, rewritten) {
        1 if folds(kernel, rewritten) => folded_elements(kernel.rows(), kernel.columns()),
        1 => 0,
        parts => parts * kernel.rows() * kernel.columns(),
    }
}

/// Floats for one sum of every element of a result: rows begin at lines of the cache.
pub(crate) fn folded_elements(rows: usize, columns: usize) -> usize {
    rows.saturating_mul(columns.next_multiple_of(LINE))
}

/// How many parts a product is cut into; one, if it is not. Some buffers are rewritten in every
/// run.
pub(crate) fn parts(kernel: &ContractKernel, rewritten: &dyn Fn(BufferId) -> bool) -> usize {
    let [m, n, k] = [kernel.rows(), kernel.columns(), kernel.depth()];
    let shared: f64 = shared(kernel, rewritten).iter().sum();
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
pub(crate) fn folds(kernel: &ContractKernel, rewritten: &dyn Fn(BufferId) -> bool) -> bool {
    let [m, n, k] = [kernel.rows(), kernel.columns(), kernel.depth()];
    let [left, right] = shared(kernel, rewritten);
    m.min(n) >= FOLDED
        && k >= 2 * DEPTH
        && left > 0.0
        && right > 0.0
        && (m * n) as f64 * LEAVE <= (left + right) * TAKE_BACK
        && parts(kernel, rewritten) == 1
}

/// How many floats of operands a product makes threads read of each other's; none if it is not
/// worth a thought.
fn shared(kernel: &ContractKernel, rewritten: &dyn Fn(BufferId) -> bool) -> [f64; 2] {
    let [m, n, k] = [kernel.rows(), kernel.columns(), kernel.depth()];
    let batches: usize = kernel.batch.iter().product();
    let (Some(left), Some(right)) = (kernel.left.as_load(), kernel.right.as_load()) else {
        return [0.0; 2];
    };
    let multiplications = m.saturating_mul(n).saturating_mul(k);
    if batches != 1 || multiplications < WORTH_CUTTING {
        return [0.0; 2];
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
    [
        shared(left, batch + kernel.m.len(), m * k),
        shared(right, batch, k * n),
    ]
}

/// The stride of an axis, the last of which are the columns.
pub(crate) fn stride(access: &Access, axis: usize) -> usize {
    let stride = access.strides.get(axis).copied();
    stride.unwrap_or(access.column_stride)
}
