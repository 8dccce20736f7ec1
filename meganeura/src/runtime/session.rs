use std::fmt;
use std::time::Duration;

use super::variables::Variables;
use super::{Binding, Device, Executor, MemoryId, ProgramId, RunError, Tuning};
use crate::egraph::{CostModel, Report, Rewrites, optimize};
use crate::ir::{DType, Graph, GraphError, IndexBound, Precision, Shape, Variable};
use crate::ops::expand;
use crate::plan::{Plan, Role};
use crate::schedule::kernel::BufferId;
use crate::siblings;

/// Why a session could not do something.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SessionError {
    /// The graph is wrong; everything that is wrong with it.
    #[error("{}", Lines(.0))]
    Graph(Vec<GraphError>),
    /// The device cannot do it.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No such input, variable or output.
    #[error("there is no {what} `{name}`{}", Among(.known))]
    Unknown {
        /// What was looked for: "input", "variable", "output".
        what: &'static str,
        /// By this name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// Values of another type or number than asked for.
    #[error("`{name}` takes {expected}, got {found}")]
    Values {
        /// Whose values.
        name: String,
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// An integer outside the table it chooses from.
    #[error("`{input}` holds {value} at position {position}, but {} only knows 0 to {}", Place(.path), bound - 1)]
    Index {
        /// The input.
        input: String,
        /// Where in it.
        position: usize,
        /// The integer.
        value: u32,
        /// All must be smaller.
        bound: usize,
        /// The layer that needs it.
        path: String,
    },
    /// A run without all its inputs.
    #[error("input `{0}` was never given: call `Session::input` before `Session::run`")]
    Missing(String),
    /// Two graphs that disagree about a variable.
    #[error("`{name}` is {known} in this session, the graph has it as {found}")]
    Variable {
        /// The variable.
        name: String,
        /// Its shape so far.
        known: Shape,
        /// Its shape in the graph.
        found: Shape,
    },
}

struct Lines<'a>(&'a [GraphError]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

struct Among<'a>(&'a [String]);

impl fmt::Display for Among<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            names => write!(f, ": there are `{}`", names.join("`, `")),
        }
    }
}

struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => f.write_str("the graph"),
            path => write!(f, "layer `{path}`"),
        }
    }
}

/// Elements given to an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Elements<'a> {
    /// Floats.
    F32(&'a [f32]),
    /// Integers.
    U32(&'a [u32]),
}

impl<'a> From<&'a [f32]> for Elements<'a> {
    fn from(values: &'a [f32]) -> Elements<'a> {
        Elements::F32(values)
    }
}

impl<'a> From<&'a Vec<f32>> for Elements<'a> {
    fn from(values: &'a Vec<f32>) -> Elements<'a> {
        Elements::F32(values)
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Elements<'a> {
    fn from(values: &'a [f32; N]) -> Elements<'a> {
        Elements::F32(values)
    }
}

impl<'a> From<&'a [u32]> for Elements<'a> {
    fn from(values: &'a [u32]) -> Elements<'a> {
        Elements::U32(values)
    }
}

impl<'a> From<&'a Vec<u32>> for Elements<'a> {
    fn from(values: &'a Vec<u32>) -> Elements<'a> {
        Elements::U32(values)
    }
}

impl<'a, const N: usize> From<&'a [u32; N]> for Elements<'a> {
    fn from(values: &'a [u32; N]) -> Elements<'a> {
        Elements::U32(values)
    }
}

impl fmt::Display for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Elements::F32(values) => write!(f, "{} f32", values.len()),
            Elements::U32(values) => write!(f, "{} u32", values.len()),
        }
    }
}

/// A compiled graph of a [`Session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StepId(usize);

/// A plan that is not loaded yet.
pub(crate) struct Draft {
    /// The plan.
    pub plan: Plan,
    report: Report,
}

struct Step {
    plan: Plan,
    report: Report,
    program: ProgramId,
    inputs: Vec<Given>,
    outputs: Vec<Named>,
}

struct Named {
    name: String,
    memory: MemoryId,
    elements: usize,
    dtype: DType,
}

struct Given {
    named: Named,
    bounds: Vec<IndexBound>,
    given: bool,
}

/// Plans on one device, and the variables they share.
///
/// ```
/// use meganeura::ir::{DType, Graph, Init};
/// use meganeura::runtime::{Device, Session};
///
/// let graph = Graph::new();
/// let x = graph.input("x", [2], DType::F32);
/// let total = graph.state("total", [2], Init::Zeros);
/// graph.update(total, total + x);
/// graph.output("mean", x.mean_all());
///
/// let mut session = Session::new(&Device::cpu(), 0)?;
/// let step = session.compile(&graph)?;
/// session.input(step, "x", &[1.0, 3.0])?;
/// session.run(step)?;
/// session.run(step)?;
/// assert_eq!(session.output(step, "mean")?, [2.0]);
/// assert_eq!(session.variable("total")?, [2.0, 6.0]);
/// # Ok::<(), meganeura::runtime::SessionError>(())
/// ```
pub struct Session {
    executor: Box<dyn Executor>,
    seed: u64,
    rewrites: Rewrites,
    precision: Precision,
    variables: Variables,
    steps: Vec<Step>,
}

impl Session {
    /// An empty session on a device; variables get their first values from `seed`.
    ///
    /// # Errors
    /// When the device is not there.
    pub fn new(device: &Device, seed: u64) -> Result<Session, SessionError> {
        Session::with_rewrites(device, seed, Rewrites::default())
    }

    /// The same, with another way to optimize graphs.
    ///
    /// # Errors
    /// When the device is not there.
    pub fn with_rewrites(
        device: &Device,
        seed: u64,
        rewrites: Rewrites,
    ) -> Result<Session, SessionError> {
        Ok(Session {
            executor: device.executor()?,
            seed,
            rewrites,
            precision: Precision::F32,
            variables: Variables::default(),
            steps: Vec::new(),
        })
    }

    /// Compute the products of graphs that are compiled from now on this precisely. Variables
    /// and outputs are 32-bit floats in any case.
    pub fn precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// What it runs on.
    pub fn describe(&self) -> String {
        self.executor.describe()
    }

    /// The rates of the device, by which graphs are rewritten.
    pub fn cost_model(&self) -> CostModel {
        self.executor.cost_model()
    }

    /// Make a graph ready to run. Variables it shares by name with earlier graphs keep their
    /// values; new ones are initialized.
    ///
    /// # Errors
    /// When the graph has errors, disagrees with the session about a variable, or asks too
    /// much of the device.
    pub fn compile(&mut self, graph: &Graph) -> Result<StepId, SessionError> {
        let draft = self.draft(graph)?;
        self.load(draft)
    }

    /// What [`Session::compile`] would load.
    pub(crate) fn draft(&mut self, graph: &Graph) -> Result<Draft, SessionError> {
        let errors = graph.errors();
        if !errors.is_empty() {
            return Err(SessionError::Graph(errors));
        }
        let (graph, _) = expand(graph);
        let errors = graph.errors();
        if !errors.is_empty() {
            return Err(SessionError::Graph(errors));
        }
        self.add_variables(&graph)?;
        let model = self.executor.cost_model();
        let graph = match self.variables.groups_of(&graph) {
            groups if groups.is_empty() => graph,
            groups => siblings::pack(&graph, &groups),
        };
        let (graph, report) = optimize(&graph, self.rewrites, &model);
        let plan = Plan::with_model(&graph, &model, self.precision);
        Ok(Draft { plan, report })
    }

    /// Make a plan ready to run.
    pub(crate) fn load(&mut self, draft: Draft) -> Result<StepId, SessionError> {
        let Draft { plan, report } = draft;
        let mut bindings = Vec::new();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (index, buffer) in plan.buffers.iter().enumerate() {
            let memory = match &buffer.role {
                Role::Temporary { .. } => continue,
                Role::Variable(variable) => {
                    self.variables.memory(&plan.variables[*variable].name)?
                }
                Role::Input(_) | Role::Output(_) => self.executor.allocate(buffer.elements)?,
            };
            bindings.push(Binding {
                buffer: BufferId(index as u32),
                memory,
            });
            let named = |name: &String| Named {
                name: name.clone(),
                memory,
                elements: buffer.elements,
                dtype: buffer.dtype,
            };
            match &buffer.role {
                Role::Input(name) => inputs.push(Given {
                    named: named(name),
                    bounds: plan
                        .bounds
                        .iter()
                        .filter(|bound| bound.input == *name)
                        .cloned()
                        .collect(),
                    given: false,
                }),
                Role::Output(name) => outputs.push(named(name)),
                _ => {}
            }
        }
        let program = self.executor.load(&plan, &bindings)?;
        self.steps.push(Step {
            plan,
            report,
            program,
            inputs,
            outputs,
        });
        Ok(StepId(self.steps.len() - 1))
    }

    /// Let the session know a graph's variables, before any graph that has them is compiled: to
    /// give them values first.
    ///
    /// # Errors
    /// When the graph has errors, disagrees with the session about a variable, or has more than
    /// the device can hold.
    pub fn declare(&mut self, graph: &Graph) -> Result<(), SessionError> {
        let errors = graph.errors();
        if !errors.is_empty() {
            return Err(SessionError::Graph(errors));
        }
        let (graph, _) = expand(graph);
        self.add_variables(&graph)
    }

    /// Give memory and first values to the variables of a graph of primitives that are new.
    fn add_variables(&mut self, graph: &Graph) -> Result<(), SessionError> {
        let packed = self.rewrites != Rewrites::Off;
        let executor = &mut *self.executor;
        self.variables.add(executor, graph, self.seed, packed)
    }

    /// The plan of a step.
    pub fn plan(&self, step: StepId) -> &Plan {
        &self.steps[step.0].plan
    }

    /// What rewriting did to a step's graph.
    pub fn report(&self, step: StepId) -> &Report {
        &self.steps[step.0].report
    }

    /// Give an input its values, row-major; they stay until given again.
    ///
    /// # Errors
    /// When there is no such input, the number or type of the elements is another, or an
    /// index is out of bounds.
    pub fn input<'a>(
        &mut self,
        step: StepId,
        name: &str,
        elements: impl Into<Elements<'a>>,
    ) -> Result<(), SessionError> {
        let elements = elements.into();
        let inputs = &mut self.steps[step.0].inputs;
        let Some(position) = inputs.iter().position(|input| input.named.name == name) else {
            let known = inputs
                .iter()
                .map(|input| input.named.name.clone())
                .collect();
            return Err(SessionError::Unknown {
                what: "input",
                name: name.to_owned(),
                known,
            });
        };
        let input = &mut inputs[position];
        let expected = &input.named;
        let raw: &[u32] = match elements {
            Elements::F32(values) if expected.dtype != DType::U32 => bytemuck::cast_slice(values),
            Elements::U32(values) if expected.dtype == DType::U32 => values,
            _ => &[],
        };
        if raw.len() != expected.elements || (raw.is_empty() && expected.elements > 0) {
            return Err(SessionError::Values {
                name: name.to_owned(),
                expected: format!("{} {}", expected.elements, expected.dtype),
                found: elements.to_string(),
            });
        }
        for bound in &input.bounds {
            let beyond =
                |&value: &u32| value as usize >= bound.bound && Some(value) != bound.except;
            if let Some(position) = raw.iter().position(beyond) {
                return Err(SessionError::Index {
                    input: name.to_owned(),
                    position,
                    value: raw[position],
                    bound: bound.bound,
                    path: bound.path.clone(),
                });
            }
        }
        self.executor.write(expected.memory, raw)?;
        input.given = true;
        Ok(())
    }

    /// Whether a step takes an input of this name.
    pub fn has_input(&self, step: StepId, name: &str) -> bool {
        self.steps[step.0]
            .inputs
            .iter()
            .any(|input| input.named.name == name)
    }

    /// Run a step once.
    ///
    /// # Errors
    /// When an input was never given or the device fails.
    pub fn run(&mut self, step: StepId) -> Result<(), SessionError> {
        self.check_inputs(step)?;
        Ok(self.executor.run(self.steps[step.0].program)?)
    }

    /// Run a step so many times and tell the median time of each kernel, by name in the plan's
    /// order; nothing where the device cannot tell.
    ///
    /// # Errors
    /// When an input was never given or the device fails.
    pub fn profile(
        &mut self,
        step: StepId,
        runs: usize,
    ) -> Result<Vec<(String, Duration)>, SessionError> {
        let mut samples: Vec<Vec<Duration>> = Vec::new();
        for _ in 0..runs.max(1) {
            self.check_inputs(step)?;
            let durations = self.executor.profile(self.steps[step.0].program)?;
            samples.resize(durations.len(), Vec::new());
            for (sample, duration) in samples.iter_mut().zip(durations) {
                sample.push(duration);
            }
        }
        let median = |mut sample: Vec<Duration>| {
            sample.sort_unstable();
            sample.get(sample.len() / 2).copied().unwrap_or_default()
        };
        let names = self.steps[step.0]
            .plan
            .kernels
            .iter()
            .map(|kernel| kernel.name.clone());
        Ok(names.zip(samples.into_iter().map(median)).collect())
    }

    /// Try for at most so long how a step runs faster, and let it. Kernels are timed in the step
    /// itself, with the inputs it was given; variables and outputs are as before, and no result
    /// changes by a bit. What was found is kept for later sessions where the device says
    /// ([`Device::with_cache`]); a device with nothing to choose does nothing.
    ///
    /// # Errors
    /// When an input was never given or the device fails.
    pub fn tune(&mut self, step: StepId, budget: Duration) -> Result<Tuning, SessionError> {
        self.check_inputs(step)?;
        Ok(self.executor.tune(self.steps[step.0].program, budget)?)
    }

    fn check_inputs(&self, step: StepId) -> Result<(), SessionError> {
        let missing = self.steps[step.0].inputs.iter().find(|input| !input.given);
        match missing {
            Some(input) => Err(SessionError::Missing(input.named.name.clone())),
            None => Ok(()),
        }
    }

    /// An output of a step's last run, row-major (integers as floats).
    ///
    /// # Errors
    /// When there is no such output or the device fails.
    pub fn output(&mut self, step: StepId, name: &str) -> Result<Vec<f32>, SessionError> {
        let outputs = &self.steps[step.0].outputs;
        let Some(output) = outputs.iter().find(|output| output.name == name) else {
            let known = outputs.iter().map(|output| output.name.clone()).collect();
            return Err(SessionError::Unknown {
                what: "output",
                name: name.to_owned(),
                known,
            });
        };
        let mut raw = vec![0u32; output.elements];
        self.executor.read(output.memory, &mut raw)?;
        Ok(match output.dtype {
            DType::U32 => raw.into_iter().map(|value| value as f32).collect(),
            _ => raw.into_iter().map(f32::from_bits).collect(),
        })
    }

    /// The variables so far, by name.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.variables.all()
    }

    /// A variable's values, row-major.
    ///
    /// # Errors
    /// When there is no such variable or the device fails.
    pub fn variable(&mut self, name: &str) -> Result<Vec<f32>, SessionError> {
        self.variables.read(&mut *self.executor, name)
    }

    /// Give a variable other values, row-major.
    ///
    /// # Errors
    /// When there is no such variable, the number of values is another, or the device fails.
    pub fn set_variable(&mut self, name: &str, values: &[f32]) -> Result<(), SessionError> {
        self.variables.write(&mut *self.executor, name, values)
    }
}
