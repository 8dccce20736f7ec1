//! The variables of a session, and where each lies.

use std::collections::BTreeMap;

use super::session::SessionError;
use super::{Executor, MemoryId};
use crate::ir::{Graph, Variable};
use crate::siblings::{self, Group};

struct Held {
    variable: Variable,
    memory: MemoryId,
    /// Where it lies in memory that it shares with others.
    part: Option<Part>,
}

/// Some columns of a matrix.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    size: usize,
    /// Columns of the whole matrix.
    stride: usize,
    rows: usize,
}

impl Part {
    /// Elements of the whole matrix.
    fn whole(self) -> usize {
        self.rows * self.stride
    }

    /// For each row where it starts in the part and in the whole.
    fn rows(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.rows).map(move |row| (row * self.size, row * self.stride + self.start))
    }

    fn take(self, whole: &[f32]) -> Vec<f32> {
        let rows = self.rows();
        rows.flat_map(|(_, at)| &whole[at..at + self.size])
            .copied()
            .collect()
    }

    fn put(self, values: &[f32], whole: &mut [f32]) {
        for (from, to) in self.rows() {
            whole[to..to + self.size].copy_from_slice(&values[from..from + self.size]);
        }
    }
}

/// The variables of a session by name. Some share memory; nobody outside sees that but the graphs
/// that are planned.
#[derive(Default)]
pub(super) struct Variables {
    held: BTreeMap<String, Held>,
    groups: Vec<(Group, MemoryId)>,
}

impl Variables {
    /// Give memory and first values to the variables of a graph of primitives that are new;
    /// siblings side by side if they are to be `packed`.
    pub fn add(
        &mut self,
        executor: &mut dyn Executor,
        graph: &Graph,
        seed: u64,
        packed: bool,
    ) -> Result<(), SessionError> {
        let variables: Vec<Variable> = graph.variables().into_iter().map(|(v, _)| v).collect();
        for variable in &variables {
            let known = self.held.get(&variable.name).map(|held| &held.variable);
            if let Some(known) = known.filter(|known| known.shape != variable.shape) {
                return Err(SessionError::Variable {
                    name: variable.name.clone(),
                    known: known.shape.clone(),
                    found: variable.shape.clone(),
                });
            }
        }
        let mut parts: BTreeMap<String, (MemoryId, Part)> = BTreeMap::new();
        if packed {
            for group in siblings::find(graph, |name| self.held.contains_key(name)) {
                let memory = self.share(executor, &group)?;
                for piece in &group.pieces {
                    let part = Part {
                        start: piece.start,
                        size: piece.size,
                        stride: group.columns(),
                        rows: group.rows(),
                    };
                    parts.insert(piece.name.clone(), (memory, part));
                }
            }
        }
        for variable in variables {
            if self.held.contains_key(&variable.name) {
                continue;
            }
            let (name, shape) = (variable.name.clone(), &variable.shape);
            let values = variable.init.values(shape, seed, &name);
            let (memory, part) = match parts.get(&name) {
                Some(&(memory, part)) => (memory, Some(part)),
                None => (executor.allocate(shape.elements())?, None),
            };
            write(executor, memory, part, &values)?;
            let held = Held {
                variable,
                memory,
                part,
            };
            self.held.insert(name, held);
        }
        Ok(())
    }

    /// The memory of a group, which it may have from an attempt that failed later.
    fn share(
        &mut self,
        executor: &mut dyn Executor,
        group: &Group,
    ) -> Result<MemoryId, SessionError> {
        if let Some((_, memory)) = self.groups.iter().find(|(known, _)| known == group) {
            return Ok(*memory);
        }
        let memory = executor.allocate(group.shape().elements())?;
        self.groups.push((group.clone(), memory));
        Ok(memory)
    }

    /// The groups of which a graph has a variable.
    pub fn groups_of(&self, graph: &Graph) -> Vec<Group> {
        let variables = graph.variables();
        let has = |name: &str| variables.iter().any(|(variable, _)| variable.name == name);
        let groups = self.groups.iter().map(|(group, _)| group);
        groups
            .filter(|group| group.pieces.iter().any(|piece| has(&piece.name)))
            .cloned()
            .collect()
    }

    /// The memory of a variable of a plan: one of the session's, or a buffer that several share.
    pub fn memory(&self, name: &str) -> Result<MemoryId, SessionError> {
        match self.groups.iter().find(|(group, _)| group.name == name) {
            Some((_, memory)) => Ok(*memory),
            None => Ok(self.held(name)?.memory),
        }
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Variable> {
        self.held.values().map(|held| &held.variable)
    }

    /// A variable's values, row-major.
    pub fn read(&self, executor: &mut dyn Executor, name: &str) -> Result<Vec<f32>, SessionError> {
        let held = self.held(name)?;
        let own = held.variable.shape.elements();
        let mut values = vec![0f32; held.part.map_or(own, Part::whole)];
        executor.read(held.memory, bytemuck::cast_slice_mut(&mut values))?;
        Ok(match held.part {
            Some(part) => part.take(&values),
            None => values,
        })
    }

    /// Give a variable other values, row-major.
    pub fn write(
        &self,
        executor: &mut dyn Executor,
        name: &str,
        values: &[f32],
    ) -> Result<(), SessionError> {
        let held = self.held(name)?;
        let shape = &held.variable.shape;
        if values.len() != shape.elements() {
            return Err(SessionError::Values {
                name: name.to_owned(),
                expected: format!("{} f32 ({shape})", shape.elements()),
                found: format!("{} f32", values.len()),
            });
        }
        write(executor, held.memory, held.part, values)
    }

    fn held(&self, name: &str) -> Result<&Held, SessionError> {
        self.held.get(name).ok_or_else(|| SessionError::Unknown {
            what: "variable",
            name: name.to_owned(),
            known: self.held.keys().cloned().collect(),
        })
    }
}

/// Write values to their place in a memory, which keeps what else is in it.
fn write(
    executor: &mut dyn Executor,
    memory: MemoryId,
    part: Option<Part>,
    values: &[f32],
) -> Result<(), SessionError> {
    let Some(part) = part else {
        return Ok(executor.write(memory, bytemuck::cast_slice(values))?);
    };
    let mut whole = vec![0f32; part.whole()];
    executor.read(memory, bytemuck::cast_slice_mut(&mut whole))?;
    part.put(values, &mut whole);
    Ok(executor.write(memory, bytemuck::cast_slice(&whole))?)
}
