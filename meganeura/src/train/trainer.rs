use std::path::Path;
use std::time::Duration;

use super::{Loss, Optimizer, TrainError, bind, budget};
use crate::autodiff::{gradients, recompute};
use crate::data::{Batch, Dataset, Values};
use crate::interop::safetensors::Tensors;
use crate::ir::{Graph, Precision, Tensor, VariableKind};
use crate::model::Model;
use crate::ops::expand;
use crate::plan::Plan;
use crate::runtime::{Device, Session, SessionError, StepId, Tuning};

/// A model on its way from first values to trained ones.
pub struct Trainer<M: Model> {
    model: M,
    loss: Loss,
    optimizer: Box<dyn Optimizer>,
    session: Session,
    seed: u64,
    steps: u64,
    epochs: u64,
    memory_budget: Option<u64>,
    /// Compiled graphs by the free dims of the inputs.
    training: Vec<(Dims, StepId)>,
    evaluating: Vec<(Dims, StepId)>,
}

type Dims = Vec<(&'static str, usize)>;

/// How well a model does on a data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// The mean loss over all rows.
    pub loss: f64,
    /// The share of labels that score highest, for losses that know classes.
    pub accuracy: Option<f64>,
    /// Rows seen.
    pub rows: usize,
}

impl<M: Model> Trainer<M> {
    /// A trainer on a device; `seed` decides the first values and the order of batches.
    ///
    /// # Errors
    /// When the device is not there.
    pub fn new(
        model: M,
        loss: Loss,
        optimizer: impl Optimizer + 'static,
        device: &Device,
        seed: u64,
    ) -> Result<Trainer<M>, TrainError> {
        Ok(Trainer {
            model,
            loss,
            optimizer: Box::new(optimizer),
            session: Session::new(device, seed)?,
            seed,
            steps: 0,
            epochs: 0,
            memory_budget: None,
            training: Vec::new(),
            evaluating: Vec::new(),
        })
    }

    /// The seed it was made with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of training steps so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The session that holds the parameters.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The optimizer, to change its learning rate.
    pub fn optimizer(&mut self) -> &mut dyn Optimizer {
        &mut *self.optimizer
    }

    /// Let a training step have no more than so many bytes: parameters, moments, inputs and what
    /// it leaves between its kernels, as [`Plan::peak_bytes`] counts
    /// them. Layers are computed again for the backward pass instead of kept until that
    /// holds, those first that take the least time for what they save. The numbers stay the same.
    /// It counts for batches of a size not seen before, so it is best said before the first step.
    pub fn memory_budget(&mut self, bytes: u64) {
        self.memory_budget = Some(bytes);
    }

    /// Multiply matrices this precisely: with [`Precision::BF16`], operands are rounded, which
    /// makes a training step faster where the processor has instructions for it and hardly changes
    /// the loss. Parameters and moments remain 32-bit floats. It counts for batches of a size not
    /// seen before, so it is best said before the first step.
    pub fn precision(&mut self, precision: Precision) {
        self.session.precision(precision);
    }

    /// Count another epoch: 0, 1, 2 …
    pub(super) fn next_epoch(&mut self) -> u64 {
        self.epochs += 1;
        self.epochs - 1
    }

    /// One step on one batch; gives the loss before the update.
    ///
    /// # Errors
    /// When the batch does not fit the model, the step does not fit the memory budget, the loss is
    /// not finite, or the device fails.
    pub fn step(&mut self, batch: &Batch) -> Result<f32, TrainError> {
        let step = self.training_step(batch)?;
        self.give(step, batch)?;
        self.steps += 1;
        self.count(step, self.steps)?;
        self.session.run(step)?;
        let loss = self.session.output(step, "loss")?[0];
        if !loss.is_finite() {
            let learning_rate = self.optimizer.learning_rate();
            return Err(TrainError::NotFinite {
                loss,
                step: self.steps,
                learning_rate,
            });
        }
        Ok(loss)
    }

    /// Try for at most so long how a training step on a batch of this size runs faster, and let it
    /// ([`Session::tune`]). Parameters are as before, and no result changes by a bit.
    ///
    /// # Errors
    /// When the batch does not fit the model or the device fails.
    pub fn tune(&mut self, batch: &Batch, budget: Duration) -> Result<Tuning, TrainError> {
        let step = self.training_step(batch)?;
        self.give(step, batch)?;
        self.count(step, self.steps + 1)?;
        Ok(self.session.tune(step, budget)?)
    }

    /// The plan of a training step on a batch of this size: its kernels, and the memory it takes.
    ///
    /// # Errors
    /// When the batch does not fit the model, or the step the memory budget.
    pub fn plan(&mut self, batch: &Batch) -> Result<&Plan, TrainError> {
        let step = self.training_step(batch)?;
        Ok(self.session.plan(step))
    }

    /// Loss and accuracy on a data set, a batch of so many rows at a time.
    ///
    /// # Errors
    /// When the data does not fit the model or the device fails.
    pub fn evaluate(&mut self, data: &Dataset, batch: usize) -> Result<Evaluation, TrainError> {
        let (mut loss, mut hits, mut labels, mut rows) = (0.0, 0, 0, 0);
        let (mut batches, mut batch) = (data.batches(batch)?, Batch::default());
        while batches.next_into(&mut batch) {
            let step = self.evaluation_step(&batch)?;
            self.give(step, &batch)?;
            self.session.run(step)?;
            loss += f64::from(self.session.output(step, "loss")?[0]) * batch.rows() as f64;
            rows += batch.rows();
            if self.loss.is_classification() {
                let scores = self.session.output(step, "output")?;
                let expected = batch
                    .get(&self.loss.targets()[0].0)
                    .and_then(|array| array.as_u32())
                    .unwrap_or(&[]);
                labels += expected.len();
                hits += count_hits(&scores, expected);
            }
        }
        let accuracy = (labels > 0).then(|| hits as f64 / labels as f64);
        Ok(Evaluation {
            loss: loss / rows.max(1) as f64,
            accuracy,
            rows,
        })
    }

    /// The model's first output for a batch, row-major.
    ///
    /// # Errors
    /// When the batch does not fit the model or the device fails.
    pub fn predict(&mut self, batch: &Batch) -> Result<Vec<f32>, TrainError> {
        let step = self.evaluation_step(batch)?;
        self.give(step, batch)?;
        self.session.run(step)?;
        Ok(self.session.output(step, "output")?)
    }

    /// Write the parameters and what else belongs to the model to a safetensors file, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&mut self, file: impl AsRef<Path>) -> Result<(), TrainError> {
        let parameters: Vec<_> = self
            .session
            .variables()
            .filter(|variable| variable.kind != VariableKind::State)
            .cloned()
            .collect();
        let mut tensors = Tensors::default();
        for parameter in parameters {
            let values = self.session.variable(&parameter.name)?;
            let array = crate::data::HostArray::new(parameter.shape, values)?;
            tensors.insert(parameter.name, array);
        }
        Ok(tensors.save(file)?)
    }

    /// Give a step the fields of a batch that it takes.
    fn give(&mut self, step: StepId, batch: &Batch) -> Result<(), SessionError> {
        for (name, array) in batch.fields().filter(|(name, _)| !name.is_empty()) {
            if self.session.has_input(step, name) {
                match array.values() {
                    Values::F32(values) => self.session.input(step, name, values)?,
                    Values::U32(values) => self.session.input(step, name, values)?,
                }
            }
        }
        Ok(())
    }

    /// Give the optimizer's inputs what they are in a training step, counted from one.
    fn count(&mut self, step: StepId, count: u64) -> Result<(), SessionError> {
        for (name, value) in self.optimizer.inputs(count) {
            if self.session.has_input(step, name) {
                self.session.input(step, name, &[value])?;
            }
        }
        Ok(())
    }

    fn training_step(&mut self, batch: &Batch) -> Result<StepId, TrainError> {
        let dims = bind::free_dims(&self.model.inputs(), batch)?;
        if let Some((_, step)) = self.training.iter().find(|(known, _)| *known == dims) {
            return Ok(*step);
        }
        let graph = Graph::training();
        self.forward(&graph, &dims, batch)?;
        let (graph, _) = expand(&graph);
        let forward = graph.nodes().len();
        add_updates(&graph, &*self.optimizer);
        let step = match self.memory_budget {
            None => self.session.compile(&recompute(graph, forward))?,
            Some(budget) => {
                let draft = budget::within(&mut self.session, &graph, forward, budget)?;
                self.session.load(draft)?
            }
        };
        self.training.push((dims, step));
        Ok(step)
    }

    fn evaluation_step(&mut self, batch: &Batch) -> Result<StepId, TrainError> {
        let dims = bind::free_dims(&self.model.inputs(), batch)?;
        if let Some((_, step)) = self.evaluating.iter().find(|(known, _)| *known == dims) {
            return Ok(*step);
        }
        let graph = Graph::new();
        let outputs = self.forward(&graph, &dims, batch)?;
        if let Some(output) = outputs.first() {
            graph.output("output", *output);
        }
        let step = self.session.compile(&graph)?;
        self.evaluating.push((dims, step));
        Ok(step)
    }

    /// The model and its loss in a graph; errors of the graph are left in it.
    fn forward<'g>(
        &self,
        graph: &'g Graph,
        dims: &Dims,
        batch: &Batch,
    ) -> Result<Vec<Tensor<'g>>, TrainError> {
        let outputs = self.model.build(graph, dims);
        let mut targets = Vec::new();
        for (name, dtype) in self.loss.targets() {
            let Some(field) = batch.get(name).filter(|field| field.dtype() == *dtype) else {
                return Err(TrainError::Mismatch(format!(
                    "the loss needs a field `{name}` of {dtype}, which the data set does not have"
                )));
            };
            targets.push(graph.input(name, field.shape(), *dtype));
        }
        let loss = self.loss.build(graph, &outputs, &targets);
        graph.output("loss", loss);
        let errors = graph.errors();
        if errors.is_empty() {
            Ok(outputs)
        } else {
            Err(SessionError::Graph(errors).into())
        }
    }
}

/// Add to a graph of primitives the optimizer's updates of all its parameters, by the
/// gradients of the output named `loss`.
pub fn add_updates(graph: &Graph, optimizer: &dyn Optimizer) {
    let outputs = graph.outputs();
    let Some((_, loss)) = outputs.iter().find(|(name, _)| name == "loss") else {
        return;
    };
    let variables = graph.variables();
    let parameters = variables
        .iter()
        .filter(|(variable, _)| variable.kind == VariableKind::Parameter);
    let (names, sources): (Vec<&str>, Vec<Tensor<'_>>) = parameters
        .map(|(variable, id)| (variable.name.as_str(), graph.tensor(*id)))
        .unzip();
    let seed = graph.constant(1.0);
    let found = gradients(&[(graph.tensor(*loss), seed)], &sources);
    for ((name, parameter), gradient) in names.into_iter().zip(sources).zip(found) {
        optimizer.update(graph, name, parameter, gradient);
    }
}

/// How many rows of scores are highest at their label.
fn count_hits(scores: &[f32], labels: &[u32]) -> usize {
    let classes = scores.len().checked_div(labels.len()).unwrap_or(0).max(1);
    let best = |row: &[f32]| {
        let mut best = 0;
        for (class, score) in row.iter().enumerate() {
            if *score > row[best] {
                best = class;
            }
        }
        best
    };
    scores
        .chunks(classes)
        .zip(labels)
        .filter(|(row, label)| best(row) == **label as usize)
        .count()
}
