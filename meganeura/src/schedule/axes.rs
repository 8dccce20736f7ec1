//! The axes of a contraction: what both operands' layouts have in common.

use super::domain::Domain;
use super::kernel::{Access, ContractKernel, Instruction, Program};
use super::reference::Reference;

/// How a contraction's axes are cut so that strides address both operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractAxes {
    /// Sizes of the batch axes.
    pub batch: Vec<usize>,
    /// Sizes of the axes that are rows.
    pub m: Vec<usize>,
    /// Sizes of the axes that are columns.
    pub n: Vec<usize>,
    /// Sizes of the axes that are contracted.
    pub k: Vec<usize>,
}

impl ContractAxes {
    /// The coarsest axes that address both operands; `None` when they do not nest.
    pub fn of(left: &Reference, right: &Reference) -> Option<ContractAxes> {
        let (left, right) = (left.axes(), right.axes());
        let (&[ref batch @ .., m, k], &[ref other_batch @ .., other_k, n]) =
            (&left[..], &right[..])
        else {
            return None;
        };
        let batch = batch.iter().zip(other_batch);
        let batch: Option<Vec<_>> = batch.map(|(a, b)| refined(a, b)).collect();
        Some(ContractAxes {
            batch: batch?.concat(),
            m: m.to_vec(),
            n: n.to_vec(),
            k: refined(k, other_k)?,
        })
    }
}

impl ContractAxes {
    /// What the left operand's program runs over.
    pub fn left(&self) -> Domain {
        Domain::over(&[&self.batch[..], &self.m, &self.k].concat())
    }

    /// What the right operand's program runs over.
    pub fn right(&self) -> Domain {
        Domain::over(&[&self.batch[..], &self.k, &self.n].concat())
    }

    /// What the epilogue runs over: rows and columns are one axis each.
    pub fn result(&self) -> Domain {
        let (rows, columns) = (self.m.iter().product(), self.n.iter().product());
        Domain::over(&[&self.batch[..], &[rows, columns]].concat())
    }
}

/// The coarsest sizes that both lists are products of neighbours of.
fn refined(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    if a == b {
        return Some(a.to_vec());
    }
    let ends = |sizes: &[usize]| -> Vec<usize> {
        // Elements that each axis steps over, which grow outwards.
        let mut product = 1;
        let inner = sizes.iter().rev().map(|size| {
            product *= size;
            product
        });
        inner.collect()
    };
    let mut all = [ends(a), ends(b)].concat();
    all.sort_unstable();
    all.dedup();
    if all.contains(&0) {
        return None;
    }
    let mut sizes = Vec::with_capacity(all.len());
    let mut inner = 1;
    for end in all {
        if end % inner != 0 {
            return None;
        }
        if end != inner || sizes.is_empty() {
            sizes.push(end / inner);
        }
        inner = end;
    }
    sizes.reverse();
    Some(sizes)
}

/// The same contraction with as few axes of rows, columns and depth as its accesses allow.
pub fn merge_axes(kernel: &mut ContractKernel) {
    if counts(&kernel.left.program) || counts(&kernel.right.program) {
        return;
    }
    for group in [Group::Rows, Group::Columns, Group::Depth] {
        let mut axis = 0;
        while axis + 1 < group.sizes(kernel).len() {
            if merges(kernel, group, axis) {
                merge(kernel, group, axis);
            } else {
                axis += 1;
            }
        }
    }
}

/// Whether a program looks at indices, which merging would change.
fn counts(program: &Program) -> bool {
    let mut instructions = program.instructions.iter();
    instructions.any(|instruction| {
        matches!(
            instruction,
            Instruction::OuterIndex(_) | Instruction::ColumnIndex
        )
    })
}

#[derive(Clone, Copy)]
enum Group {
    Rows,
    Columns,
    Depth,
}

impl Group {
    fn sizes(self, kernel: &mut ContractKernel) -> &mut Vec<usize> {
        match self {
            Group::Rows => &mut kernel.m,
            Group::Columns => &mut kernel.n,
            Group::Depth => &mut kernel.k,
        }
    }

    /// The loads of the operands that have the group, each with the position of its first
    /// axis there.
    fn loads(self, kernel: &mut ContractKernel) -> Vec<(usize, &mut Access)> {
        let (batch, m, k) = (kernel.batch.len(), kernel.m.len(), kernel.k.len());
        let (left, right) = match self {
            Group::Rows => (Some(batch), None),
            Group::Columns => (None, Some(batch + k)),
            Group::Depth => (Some(batch + m), Some(batch)),
        };
        let sides = [
            (left, &mut kernel.left.program),
            (right, &mut kernel.right.program),
        ];
        let of_side = |(first, program): (Option<usize>, _)| {
            first.map(|first| loads(program).map(move |access| (first, access)))
        };
        sides.into_iter().filter_map(of_side).flatten().collect()
    }
}

fn loads(program: &mut Program) -> impl Iterator<Item = &mut Access> {
    let instructions = program.instructions.iter_mut();
    instructions.filter_map(|instruction| match instruction {
        Instruction::Load(access) => Some(access),
        _ => None,
    })
}

/// The stride of an access along an axis, the columns being the last.
fn stride(access: &mut Access, axis: usize) -> &mut usize {
    if axis < access.strides.len() {
        &mut access.strides[axis]
    } else {
        &mut access.column_stride
    }
}

fn merges(kernel: &mut ContractKernel, group: Group, axis: usize) -> bool {
    let sizes = group.sizes(kernel);
    let (outer, inner) = (sizes[axis], sizes[axis + 1]);
    let follows = |(first, access): (usize, &mut Access)| {
        *stride(access, first + axis) == *stride(access, first + axis + 1) * inner
    };
    outer == 1 || inner == 1 || group.loads(kernel).into_iter().all(follows)
}

fn merge(kernel: &mut ContractKernel, group: Group, axis: usize) {
    let inner = group.sizes(kernel)[axis + 1];
    for (first, access) in group.loads(kernel) {
        let at = first + axis;
        if inner == 1 {
            *stride(access, at + 1) = *stride(access, at);
        }
        access.strides.remove(at);
    }
    let sizes = group.sizes(kernel);
    sizes[axis + 1] *= sizes[axis];
    sizes.remove(axis);
}
