//! Plans on a device.

use std::collections::HashMap;

use meganeura::ir::{Array, DType};
use meganeura::plan::{Plan, Role};
use meganeura::runtime::{Binding, Executor, ProgramId};
use meganeura::schedule::kernel::BufferId;

/// A plan on a device with memory of its own for every input, variable and output.
pub struct Loaded {
    /// The program.
    pub program: ProgramId,
    /// The memories, those of outputs and variables with their names.
    memories: Vec<(Option<String>, DType, usize, Binding)>,
}

/// Load a plan and give its inputs and variables their values.
pub fn load(executor: &mut dyn Executor, plan: &Plan, leaves: &HashMap<String, Array>) -> Loaded {
    let mut memories = Vec::new();
    for (index, buffer) in plan.buffers.iter().enumerate() {
        let (name, result) = match &buffer.role {
            Role::Input(name) => (name, false),
            Role::Output(name) => (name, true),
            Role::Variable(index) => (&plan.variables[*index].name, true),
            Role::Temporary { .. } => continue,
        };
        let memory = executor.allocate(buffer.elements).unwrap();
        if !matches!(buffer.role, Role::Output(_)) {
            let bits = leaves[name].data.iter().map(|&value| match buffer.dtype {
                DType::U32 => value as u32,
                _ => (value as f32).to_bits(),
            });
            let bits: Vec<u32> = bits.collect();
            executor.write(memory, &bits).unwrap();
        }
        let binding = Binding {
            buffer: BufferId(index as u32),
            memory,
        };
        memories.push((
            result.then(|| name.clone()),
            buffer.dtype,
            buffer.elements,
            binding,
        ));
    }
    let bindings: Vec<Binding> = memories.iter().map(|memory| memory.3).collect();
    let program = executor.load(plan, &bindings).unwrap();
    Loaded { program, memories }
}

impl Loaded {
    /// The outputs and variables by name.
    pub fn results(&self, executor: &mut dyn Executor) -> HashMap<String, Vec<f64>> {
        let mut results = HashMap::new();
        for (name, dtype, elements, binding) in &self.memories {
            let Some(name) = name else { continue };
            let mut bits = vec![0; *elements];
            executor.read(binding.memory, &mut bits).unwrap();
            let values = bits.into_iter().map(|bits| match dtype {
                DType::U32 => f64::from(bits),
                _ => f64::from(f32::from_bits(bits)),
            });
            results.insert(name.clone(), values.collect());
        }
        results
    }
}
