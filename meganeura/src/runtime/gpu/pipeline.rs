//! Compiled shaders and what they are bound to.

use super::buffer::Buffer;
use super::context::{Context, lock};
use super::error::GpuError;
use super::hazard::Region;
use blade_graphics as blade;
use blade_graphics::ShaderBindable as _;
use std::sync::Arc;

/// Bindings are found by the name of the WGSL variable, and the library wants such
/// names to live forever.
const BINDING_NAMES: [&str; 24] = [
    "b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9", "b10", "b11", "b12", "b13", "b14",
    "b15", "b16", "b17", "b18", "b19", "b20", "b21", "b22", "b23",
];

/// The name of the uniform block in a shader.
const ARGUMENTS_NAME: &str = "arguments";

/// The uniform block of a dispatch: 48 words, in WGSL
/// `var<uniform> arguments: array<vec4<u32>, 12>;`.
pub type Arguments = [u32; 48];

/// The WGSL variable of the storage buffer with this index, `b0`, `b1` and so on.
///
/// # Panics
/// Past the number of storage buffers that [`Limits`](super::Limits) allows.
pub fn binding_name(index: usize) -> &'static str {
    BINDING_NAMES[index]
}

/// A range of a buffer that a shader sees as one of its storage buffers.
#[derive(Debug, Clone)]
pub struct Binding {
    /// The buffer.
    pub buffer: Arc<Buffer>,
    /// Where the range starts, a multiple of the device's offset alignment.
    pub offset: u64,
    /// How many bytes the shader may touch from there.
    pub bytes: u64,
    /// Whether it writes them.
    pub writes: bool,
}

impl Binding {
    /// The bytes the shader may touch.
    pub fn region(&self) -> Region {
        Region {
            space: Arc::as_ptr(&self.buffer) as usize,
            start: self.offset,
            end: self.offset + self.bytes,
        }
    }
}

/// A compiled shader. Pipelines live as long as their [`Context`].
pub struct Pipeline {
    pub(super) raw: blade::ComputePipeline,
    /// How many storage buffers it binds.
    pub bindings: usize,
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({} bindings)", self.bindings)
    }
}

impl Context {
    /// Compiles a WGSL compute shader with the entry point `main` and the given number of
    /// storage buffers, or finds it among those compiled before from the same text.
    pub fn pipeline(
        &self,
        name: &str,
        source: &str,
        bindings: usize,
    ) -> Result<Arc<Pipeline>, GpuError> {
        if let Some(found) = lock(&self.pipelines).get(source)
            && found.bindings == bindings
        {
            return Ok(found.clone());
        }
        let allowed = self.limits().storage_buffers as usize;
        if bindings > allowed.min(BINDING_NAMES.len()) {
            return Err(GpuError::TooLarge {
                what: format!("kernel `{name}`"),
                needed: bindings as u64,
                allowed: allowed as u64,
                unit: "storage buffers",
            });
        }
        let refused = |reason: &str| GpuError::Shader {
            kernel: name.to_owned(),
            reason: reason.to_owned(),
        };
        let shader = self
            .raw()
            .try_create_shader(blade::ShaderDesc {
                source,
                naga_module: None,
            })
            .map_err(refused)?;
        // A failure here names a binding that is missing or of the wrong type.
        let raw = super::error::guarded("creating a pipeline", || {
            self.raw()
                .create_compute_pipeline(blade::ComputePipelineDesc {
                    name,
                    data_layouts: &[&layout(bindings)],
                    compute: shader.at("main"),
                })
        })
        .map_err(|error| refused(&error.to_string()))?;
        let pipeline = Arc::new(Pipeline { raw, bindings });
        lock(&self.pipelines).insert(source.to_owned(), pipeline.clone());
        Ok(pipeline)
    }

    /// How many different pipelines were compiled.
    pub fn pipeline_count(&self) -> usize {
        lock(&self.pipelines).len()
    }
}

fn layout(bindings: usize) -> blade::ShaderDataLayout {
    let arguments = blade::ShaderBinding::Plain {
        size: size_of::<Arguments>() as u32,
    };
    let buffers = BINDING_NAMES[..bindings]
        .iter()
        .map(|&name| (name, blade::ShaderBinding::Buffer));
    blade::ShaderDataLayout {
        bindings: buffers.chain([(ARGUMENTS_NAME, arguments)]).collect(),
    }
}

/// What a dispatch binds: its storage buffers, then the uniform block.
pub(super) struct Bound<'a> {
    pub bindings: &'a [Binding],
    pub arguments: &'a Arguments,
}

impl blade::ShaderData for Bound<'_> {
    /// The layout depends on the pipeline, which is given it at its creation; the library
    /// never asks for this one.
    fn layout() -> blade::ShaderDataLayout {
        blade::ShaderDataLayout::EMPTY.clone()
    }

    fn fill(&self, mut context: blade::PipelineContext) {
        for (index, binding) in self.bindings.iter().enumerate() {
            let piece = binding.buffer.at(binding.offset);
            piece.bind_to(&mut context, index as u32);
        }
        self.arguments
            .bind_to(&mut context, self.bindings.len() as u32);
    }
}
