//! From kernels to WGSL.
//!
//! A kernel becomes one or more [`Shader`]s, run in order: a reduction over rows, say, first
//! combines blocks of rows and then the blocks. What passes between them lies in scratch
//! memory that only the kernel's own shaders see.
//!
//! There are two ways to write most kernels, and the [`Target`] decides: real GPUs share
//! rows and tiles between invocations through workgroup memory; software drivers compile
//! an invocation to a vector lane, where registers and straight loops are fast and
//! everything shared is slow.
//!
//! # Not-a-numbers
//!
//! WGSL lets compilers assume that NaN and infinity do not occur. Generated code keeps them
//! alive where a rule of ours depends on it: maximum and minimum test bits, `x − x`, `x / x`
//! and `x · 0` are written so that they cannot be folded, hyperbolic tangents and sigmoids
//! cannot overflow into NaN. What cannot be promised is that a compiler keeps the NaN of a
//! longer expression that is finite for all finite values, such as `a + (b − a)`, that the
//! sign of zero survives, or that denormal numbers are not flushed to zero.

mod arguments;
mod attention;
mod body;
mod contract;
mod fold;
mod index;
mod loops;
mod memory;
mod scalar;
mod simplify;
mod split;
mod sums;

#[cfg(test)]
pub(crate) mod tests;

use crate::schedule::kernel::{Access, Action, Body, BufferId, Kernel};
use memory::Memory;

/// What the shaders are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// A driver that computes on the processor: one invocation per row or tile, no
    /// workgroup memory.
    pub software: bool,
    /// How many storage buffers a shader may bind.
    pub storage_buffers: usize,
    /// How many workgroups one axis of a dispatch may have.
    pub groups_per_axis: u32,
    /// How often all loops of an invocation may go around together. Mesa's software driver
    /// silently leaves loops after 65,535 rounds.
    pub rounds: usize,
}

impl Target {
    /// A software driver.
    pub const SOFTWARE: Target = Target {
        software: true,
        storage_buffers: 24,
        groups_per_axis: 65_535,
        rounds: 65_000,
    };
    /// A GPU.
    pub const GPU: Target = Target {
        software: false,
        rounds: usize::MAX,
        ..Target::SOFTWARE
    };
}

/// Which memory a binding of a shader stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Buffers of the plan; more than one when they lie in the same place.
    Buffers(Vec<BufferId>),
    /// Scratch memory of the kernel, an index into [`Lowered::scratch`].
    Scratch(usize),
}

/// A storage buffer of a shader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What is bound.
    pub place: Place,
    /// Whether the shader writes it.
    pub writes: bool,
}

/// One compute shader and how to start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// What it is called in messages.
    pub name: String,
    /// WGSL with the entry point `main`.
    pub source: String,
    /// Its storage buffers, the variables `b0`, `b1` and so on.
    pub slots: Vec<Slot>,
    /// Its uniform block, the variable `arguments`, where it has one.
    pub arguments: [u32; arguments::WORDS],
    /// How many workgroups to start along each axis.
    pub groups: [u32; 3],
}

/// A kernel as shaders.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Lowered {
    /// To be run in this order.
    pub shaders: Vec<Shader>,
    /// The sizes of the kernel's scratch buffers, in elements of four bytes.
    pub scratch: Vec<usize>,
}

/// Why a kernel cannot run on the target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// Indices in shaders have 32 bits.
    #[error(
        "it works on {0} elements, more than 32-bit indices can tell apart; use smaller batches"
    )]
    TooManyElements(u128),
    /// More buffers than the device can bind at once.
    #[error("it uses {used} buffers, the device binds at most {allowed}")]
    TooManyBuffers {
        /// How many it uses.
        used: usize,
        /// How many there may be.
        allowed: usize,
    },
    /// A loop that the driver would leave before its end.
    #[error(
        "it goes around {0} times in one loop, which this driver would cut short; use smaller batches or the CPU"
    )]
    TooManyRounds(usize),
    /// More work than a dispatch can hold.
    #[error("it needs {0} workgroups, more than one dispatch can have; use smaller batches")]
    TooManyGroups(u64),
}

/// Write the shaders of a kernel. `same_place` tells which of its buffers share their
/// memory; they must do so from their first element.
///
/// # Errors
/// When the kernel exceeds what the target can do.
pub fn lower(
    kernel: &Kernel,
    target: &Target,
    same_place: &dyn Fn(BufferId, BufferId) -> bool,
) -> Result<Lowered, LowerError> {
    let mut lowering = Lowering {
        name: &kernel.name,
        target,
        same_place,
        result: Lowered::default(),
    };
    check(kernel)?;
    match &kernel.action {
        Action::Loop(kernel) => lowering.loops(kernel)?,
        Action::Contract(kernel) => lowering.contract(kernel)?,
        Action::Gather(kernel) => lowering.gather(kernel)?,
        Action::ScatterAdd(kernel) => lowering.scatter_add(kernel)?,
        Action::Attention(kernel) => lowering.attention(kernel)?,
    }
    Ok(lowering.result)
}

/// A kernel on its way to shaders.
struct Lowering<'a> {
    name: &'a str,
    target: &'a Target,
    same_place: &'a dyn Fn(BufferId, BufferId) -> bool,
    result: Lowered,
}

/// Scratch buffers have ids of their own while shaders are written, counted from the top.
const FIRST_SCRATCH: u32 = u32::MAX;

impl<'a> Lowering<'a> {
    /// Scratch memory for this many elements, as a buffer.
    fn scratch(&mut self, elements: usize) -> BufferId {
        self.result.scratch.push(elements.max(1));
        BufferId(FIRST_SCRATCH - (self.result.scratch.len() as u32 - 1))
    }

    fn place(&self, buffers: &[BufferId]) -> Place {
        match buffers {
            [buffer] if (FIRST_SCRATCH - buffer.0) < self.result.scratch.len() as u32 => {
                Place::Scratch((FIRST_SCRATCH - buffer.0) as usize)
            }
            _ => Place::Buffers(buffers.to_vec()),
        }
    }

    fn memory(&self) -> Memory<'a> {
        Memory::new(self.same_place)
    }

    /// Add a finished shader that needs this many workgroups, with its numbers as arguments.
    fn emit_lifted(
        &mut self,
        source: &str,
        memory: &Memory<'_>,
        groups: usize,
    ) -> Result<(), LowerError> {
        let (source, arguments) = arguments::lift(source);
        self.emit("", source, memory, groups)?;
        if let Some(shader) = self.result.shaders.last_mut() {
            shader.arguments = arguments;
        }
        Ok(())
    }

    /// Add a finished shader that needs this many workgroups.
    fn emit(
        &mut self,
        part: &str,
        source: String,
        memory: &Memory<'_>,
        groups: usize,
    ) -> Result<(), LowerError> {
        let slots: Vec<Slot> = memory
            .slots()
            .map(|(buffers, writes)| Slot {
                place: self.place(buffers),
                writes,
            })
            .collect();
        if slots.len() > self.target.storage_buffers {
            return Err(LowerError::TooManyBuffers {
                used: slots.len(),
                allowed: self.target.storage_buffers,
            });
        }
        let groups = self.target.split_groups(groups as u64)?;
        let name = match part {
            "" => self.name.to_owned(),
            part => format!("{} ({part})", self.name),
        };
        self.result.shaders.push(Shader {
            name,
            source,
            slots,
            arguments: [0; arguments::WORDS],
            groups,
        });
        Ok(())
    }
}

impl Target {
    /// Spread workgroups over the axes of a dispatch. The product may exceed the number
    /// asked for, so shaders compare their index with the true count.
    fn split_groups(&self, groups: u64) -> Result<[u32; 3], LowerError> {
        let axis = u64::from(self.groups_per_axis);
        if groups <= axis {
            return Ok([groups.max(1) as u32, 1, 1]);
        }
        if groups > axis * axis {
            return Err(LowerError::TooManyGroups(groups));
        }
        let rows = groups.div_ceil(axis);
        Ok([groups.div_ceil(rows) as u32, rows as u32, 1])
    }
}

/// The product, which must fit 32-bit indices.
fn count(factors: &[usize]) -> Result<usize, LowerError> {
    let factors = factors.iter().map(|&factor| factor as u128);
    checked(factors.fold(1, u128::saturating_mul))
}

/// Elements up to the last that an access touches, which must fit 32-bit indices.
fn check_access(access: &Access, outer: &[usize], columns: usize) -> Result<(), LowerError> {
    let last = |size: usize, stride: usize| {
        (size.saturating_sub(1) as u128).saturating_mul(stride as u128)
    };
    let rows = outer
        .iter()
        .zip(&access.strides)
        .map(|(&size, &stride)| last(size, stride));
    let reach = rows.fold(
        access.offset as u128 + last(columns, access.column_stride),
        u128::saturating_add,
    );
    checked(reach).map(|_| ())
}

fn checked(elements: u128) -> Result<usize, LowerError> {
    match u32::try_from(elements) {
        Ok(count) if count <= u32::MAX / 2 => Ok(count as usize),
        _ => Err(LowerError::TooManyElements(elements)),
    }
}

/// Check everything a kernel counts with 32 bits.
fn check(kernel: &Kernel) -> Result<(), LowerError> {
    match &kernel.action {
        Action::Loop(kernel) => check_body(&kernel.body, &kernel.outer, kernel.columns),
        Action::Contract(kernel) => {
            let (outer, columns) = kernel.left_domain();
            for access in kernel.left.program.loads() {
                check_access(access, &outer, columns)?;
            }
            let (outer, columns) = kernel.right_domain();
            for access in kernel.right.program.loads() {
                check_access(access, &outer, columns)?;
            }
            let (outer, columns) = kernel.result_domain();
            check_body(&kernel.epilogue, &outer, columns)
        }
        Action::Gather(kernel) => {
            count(&[kernel.rows, kernel.width])?;
            count(&[kernel.count, kernel.width]).map(|_| ())
        }
        Action::ScatterAdd(kernel) => {
            count(&[kernel.rows, kernel.width])?;
            count(&[kernel.count, kernel.width]).map(|_| ())
        }
        Action::Attention(kernel) => attention::check(kernel),
    }
}

fn check_body(body: &Body, outer: &[usize], columns: usize) -> Result<(), LowerError> {
    count(&[outer, &[columns]].concat())?;
    let stores = body.stores.iter().map(|store| &store.access);
    let sums = body.accumulates.iter().map(|sum| &sum.access);
    for access in body.program.loads().chain(stores).chain(sums) {
        check_access(access, outer, columns)?;
    }
    Ok(())
}
