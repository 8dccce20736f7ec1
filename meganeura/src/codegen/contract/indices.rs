//! Indices of rows, columns and k, where an axis may stand for several.

use super::pieces::Chunk;
use crate::codegen::body::{Code, Column, Point};
use crate::codegen::loops::outer_indices;
use crate::schedule::kernel::ContractKernel;

/// Where the loop over k ends; the last piece may be shorter.
pub(super) fn k_end(kernel: &ContractKernel, chunk: Option<Chunk>) -> String {
    match chunk {
        Some(Chunk { whole, piece }) if whole % piece != 0 => {
            format!("min({piece}u, {whole}u - i0 * {piece}u)")
        }
        Some(Chunk { piece, .. }) => format!("{piece}u"),
        None => format!("{}u", kernel.depth()),
    }
}

/// Write the indices along the axes that one index stands for.
pub(super) fn digits(code: &mut Code, sizes: &[usize], index: &str, letter: &str) -> Vec<String> {
    match sizes {
        [_] => vec![index.to_owned()],
        _ => outer_indices(code, sizes, index, letter),
    }
}

/// Write the indices along the axes of k. A single axis is cut into pieces by strides;
/// several start with the piece.
pub(super) fn k_digits(
    code: &mut Code,
    kernel: &ContractKernel,
    chunk: Option<Chunk>,
) -> Vec<String> {
    match (chunk, kernel.k.len()) {
        (Some(Chunk { piece, .. }), 2..) => {
            code.line(format!("let whole_k = i0 * {piece}u + k;"));
            digits(code, &kernel.k, "whole_k", "k")
        }
        _ => digits(code, &kernel.k, "k", "k"),
    }
}

/// The point of a program whose last axis is its columns, of which it stands for one.
pub(super) fn point_of_one(axes: &[&[String]], suffix: String) -> Point {
    let mut outer = axes.concat();
    let column = outer.pop().unwrap_or_default();
    Point {
        outer,
        column: Column::One(column),
        suffix,
    }
}

/// The variables of four columns that consist of several axes: for each, its indices.
pub(super) fn digits_of_four(code: &mut Code, sizes: &[usize], suffix: &str) -> Vec<Vec<String>> {
    let lanes = ["x", "y", "z", "w"].iter();
    lanes
        .map(|lane| {
            digits(
                code,
                sizes,
                &format!("c{suffix}.{lane}"),
                &format!("n{suffix}{lane}"),
            )
        })
        .collect()
}

/// Write the variables of four columns: the group's index and each column's, none of which
/// lies past the end.
pub(super) fn column_group(code: &mut Code, n: usize, index: &str, suffix: &str, vectors: usize) {
    let groups = n.div_ceil(4);
    code.line(match groups.is_multiple_of(vectors) {
        true => format!("let q{suffix} = {index};"),
        false => format!("let q{suffix} = min({index}, {}u);", groups - 1),
    });
    let each = format!("vec4<u32>(q{suffix} * 4u) + vec4<u32>(0u, 1u, 2u, 3u)");
    code.line(match n.is_multiple_of(4) {
        true => format!("let c{suffix} = {each};"),
        false => format!("let c{suffix} = min({each}, vec4<u32>({}u));", n - 1),
    });
}

pub(super) fn four(n: usize, suffix: &str) -> Column {
    Column::Four {
        group: format!("q{suffix}"),
        each: format!("c{suffix}"),
        end: (!n.is_multiple_of(4)).then_some(n),
    }
}
