//! Recording work and handing it to the device.

use super::buffer::Buffer;
use super::context::Context;
use super::error::GpuError;
use super::hazard::{self, Access};
use super::pipeline::{Arguments, Binding, Bound, Pipeline};
use blade_graphics as blade;
use std::collections::VecDeque;
use std::sync::Arc;

/// One execution of a pipeline.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// What it is called in messages and captures.
    pub name: String,
    /// The compiled shader.
    pub pipeline: Arc<Pipeline>,
    /// Its storage buffers, in the order of their variables.
    pub bindings: Vec<Binding>,
    /// The uniform block.
    pub arguments: Arguments,
    /// How many workgroups to start along each axis.
    pub groups: [u32; 3],
}

impl Dispatch {
    /// The memory this dispatch reads and writes.
    pub fn access(&self) -> Access {
        let mut access = Access::default();
        for binding in &self.bindings {
            match binding.writes {
                true => access.writes.push(binding.region()),
                false => access.reads.push(binding.region()),
            }
        }
        access
    }

    /// Whether two bindings overlap and one of them is written: invocations would not see
    /// each other's writes in any order, and compilers assume that they need not.
    fn overlaps_itself(&self) -> bool {
        self.bindings.iter().enumerate().any(|(index, a)| {
            let others = self.bindings[..index].iter();
            let mut overlapping = others.filter(|b| a.region().overlaps(&b.region()));
            overlapping.any(|b| a.writes || b.writes)
        })
    }

    fn check(&self, context: &Context) -> Result<(), GpuError> {
        let limits = context.limits();
        let invalid =
            |reason: String| GpuError::Invalid(format!("kernel `{}`: {reason}", self.name));
        if self.bindings.len() != self.pipeline.bindings {
            return Err(invalid(format!(
                "binds {} buffers where its shader has {}",
                self.bindings.len(),
                self.pipeline.bindings
            )));
        }
        if self
            .groups
            .iter()
            .any(|&n| n == 0 || n > limits.groups_per_axis)
        {
            return Err(invalid(format!(
                "cannot start {:?} workgroups",
                self.groups
            )));
        }
        if self.overlaps_itself() {
            return Err(invalid("writes memory that it binds twice".to_owned()));
        }
        for binding in &self.bindings {
            if binding.bytes > limits.binding_bytes {
                return Err(GpuError::TooLarge {
                    what: format!("a tensor of kernel `{}`", self.name),
                    needed: binding.bytes,
                    allowed: limits.binding_bytes,
                    unit: "bytes",
                });
            }
            let end = binding.offset.checked_add(binding.bytes);
            if end.is_none_or(|end| end > binding.buffer.bytes()) {
                return Err(invalid("binds memory past the end of a buffer".to_owned()));
            }
            if !binding.offset.is_multiple_of(limits.offset_alignment) {
                return Err(invalid(format!("binds the odd offset {}", binding.offset)));
            }
        }
        Ok(())
    }
}

/// A list of dispatches, checked against the device's limits, with its barriers.
#[derive(Debug)]
pub struct Program {
    dispatches: Vec<Dispatch>,
    barriers: Vec<bool>,
}

impl Program {
    /// Checks the dispatches and finds where barriers must stand.
    pub fn new(context: &Context, dispatches: Vec<Dispatch>) -> Result<Self, GpuError> {
        for dispatch in &dispatches {
            dispatch.check(context)?;
        }
        let accesses = dispatches.iter().map(Dispatch::access).collect::<Vec<_>>();
        let barriers = hazard::place(&accesses);
        if let Some(hazard) = hazard::check(&accesses, &barriers) {
            return Err(GpuError::Invalid(format!(
                "kernels {} and {} are not ordered: {hazard:?}",
                hazard.earlier, hazard.later
            )));
        }
        Ok(Self {
            dispatches,
            barriers,
        })
    }

    /// How many dispatches it has.
    pub fn len(&self) -> usize {
        self.dispatches.len()
    }

    /// True when there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.dispatches.is_empty()
    }

    /// How many barriers stand between them.
    pub fn barrier_count(&self) -> usize {
        self.barriers.iter().filter(|&&barrier| barrier).count()
    }
}

/// Staging memory is used in pieces of at most this size.
const STAGING_BYTES: u64 = 8 << 20;

/// Where uniform blocks do not travel inside descriptors, one command buffer has room for
/// 1 MiB of them at up to 256 bytes each.
const DISPATCHES_PER_SUBMISSION: usize = 2_000;

/// Command buffers of a queue: all but one may be executing while that one is recorded.
const COMMAND_BUFFERS: usize = 4;

/// Staging buffers for uploads, used in turn.
const UPLOADS: usize = 3;

/// Records commands and submits them in order.
pub struct Queue {
    context: Arc<Context>,
    encoder: blade::CommandEncoder,
    /// Submissions that may still be executing, oldest first.
    in_flight: VecDeque<blade::SyncPoint>,
    /// Staging buffers, each with the submission that used it last; the front is next.
    uploads: VecDeque<(Option<Buffer>, Option<blade::SyncPoint>)>,
    download: Option<Buffer>,
}

impl Queue {
    /// Opens a queue of commands.
    pub fn new(context: &Arc<Context>) -> Result<Self, GpuError> {
        let desc = blade::CommandEncoderDesc {
            name: "meganeura",
            buffer_count: COMMAND_BUFFERS as u32,
            manual_barriers: false,
        };
        let encoder = context.guarded("creating a command encoder", || {
            context.raw().create_command_encoder(desc)
        })?;
        Ok(Self {
            context: context.clone(),
            encoder,
            in_flight: VecDeque::new(),
            uploads: (0..UPLOADS).map(|_| (None, None)).collect(),
            download: None,
        })
    }

    /// The device this queue works for.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Copies data into a buffer, after everything submitted so far.
    pub fn write(&mut self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), GpuError> {
        check_range(buffer, offset, data.len())?;
        if buffer.is_mapped() {
            self.context.wait()?;
            return buffer.write_mapped(offset, data);
        }
        for (index, piece) in data.chunks(STAGING_BYTES as usize).enumerate() {
            let (mut slot, used) = self.uploads.pop_front().unwrap_or_default();
            if let Some(point) = used {
                self.context.wait_for(&point)?;
            }
            let staging = staging(&self.context, &mut slot, piece.len(), Buffer::upload)?;
            staging.write_mapped(0, piece)?;
            let target = buffer.at(offset + index as u64 * STAGING_BYTES);
            let source = staging.at(0);
            let point = self.copy(source, target, piece.len())?;
            self.uploads.push_back((slot, Some(point)));
        }
        Ok(())
    }

    /// Copies data out of a buffer, after everything submitted so far.
    pub fn read(&mut self, buffer: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), GpuError> {
        check_range(buffer, offset, data.len())?;
        if buffer.is_mapped() {
            self.context.wait()?;
            return buffer.read_mapped(offset, data);
        }
        let mut slot = self.download.take();
        for (index, piece) in data.chunks_mut(STAGING_BYTES as usize).enumerate() {
            let staging = staging(&self.context, &mut slot, piece.len(), Buffer::download)?;
            let source = buffer.at(offset + index as u64 * STAGING_BYTES);
            let point = self.copy(source, staging.at(0), piece.len())?;
            self.context.wait_for(&point)?;
            staging.read_mapped(0, piece)?;
        }
        self.download = slot;
        Ok(())
    }

    /// Fills a buffer with zeros, after everything submitted so far.
    pub fn clear(&mut self, buffer: &Buffer) -> Result<(), GpuError> {
        if buffer.is_mapped() {
            self.context.wait()?;
            return buffer.clear_mapped();
        }
        self.submit("a fill", |encoder| {
            let mut pass = encoder.transfer("clear");
            pass.fill_buffer(buffer.at(0), buffer.bytes(), 0);
        })?;
        Ok(())
    }

    /// Submits a program. It runs after everything submitted before; [`Context::wait`]
    /// waits for it.
    pub fn run(&mut self, program: &Program) -> Result<(), GpuError> {
        for start in (0..program.len()).step_by(DISPATCHES_PER_SUBMISSION) {
            let end = program.len().min(start + DISPATCHES_PER_SUBMISSION);
            self.submit("a program", |encoder| record(encoder, program, start..end))?;
        }
        Ok(())
    }

    fn copy(
        &mut self,
        source: blade::BufferPiece,
        target: blade::BufferPiece,
        bytes: usize,
    ) -> Result<blade::SyncPoint, GpuError> {
        self.submit("a copy", |encoder| {
            let mut pass = encoder.transfer("staging");
            pass.copy_buffer_to_buffer(source, target, bytes as u64);
        })
    }

    /// Records commands into a command buffer that is free, and submits them.
    fn submit(
        &mut self,
        what: &str,
        record: impl FnOnce(&mut blade::CommandEncoder),
    ) -> Result<blade::SyncPoint, GpuError> {
        while self.in_flight.len() >= COMMAND_BUFFERS {
            if let Some(oldest) = self.in_flight.pop_front() {
                self.context.wait_for(&oldest)?;
            }
        }
        self.context.guarded(what, || {
            self.encoder.start();
            record(&mut self.encoder);
        })?;
        let point = self.context.submit(&mut self.encoder)?;
        self.in_flight.push_back(point.clone());
        Ok(point)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.context.wait().is_ok() && !self.context.has_failed() {
            self.context
                .raw()
                .destroy_command_encoder(&mut self.encoder);
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({})", self.context.adapter())
    }
}

fn record(encoder: &mut blade::CommandEncoder, program: &Program, range: std::ops::Range<usize>) {
    let mut pass = encoder.compute("meganeura");
    for index in range.clone() {
        let dispatch = &program.dispatches[index];
        if program.barriers[index] && index > range.start {
            pass.barrier();
        }
        let mut commands = pass.with(&dispatch.pipeline.raw);
        commands.bind(
            0,
            &Bound {
                bindings: &dispatch.bindings,
                arguments: &dispatch.arguments,
            },
        );
        commands.dispatch(dispatch.groups);
    }
}

fn check_range(buffer: &Buffer, offset: u64, bytes: usize) -> Result<(), GpuError> {
    match offset.checked_add(bytes as u64) {
        Some(end) if end <= buffer.bytes() => Ok(()),
        _ => Err(GpuError::Invalid(format!(
            "bytes {offset}+{bytes} are outside of a buffer of {}",
            buffer.bytes()
        ))),
    }
}

/// The staging buffer, made or grown to hold the given number of bytes.
fn staging<'a>(
    context: &Arc<Context>,
    slot: &'a mut Option<Buffer>,
    bytes: usize,
    create: fn(&Arc<Context>, &str, u64) -> Result<Buffer, GpuError>,
) -> Result<&'a Buffer, GpuError> {
    let bytes = bytes as u64;
    match slot {
        Some(buffer) if buffer.bytes() >= bytes => {}
        _ => *slot = Some(create(context, "staging", bytes.next_power_of_two())?),
    }
    slot.as_ref()
        .ok_or_else(|| GpuError::Driver("the staging buffer is missing".to_owned()))
}
