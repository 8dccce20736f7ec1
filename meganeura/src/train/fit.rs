use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::{TrainError, Trainer, interrupt};
use crate::data::{Batch, Dataset};
use crate::model::Model;

/// How to go through a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    epochs: usize,
    batch: usize,
    quiet: bool,
    anneal: bool,
    keep: Option<PathBuf>,
}

impl Fit {
    /// So many times through the data, 64 rows at a time, with progress on standard error.
    pub fn epochs(epochs: usize) -> Fit {
        Fit {
            epochs,
            batch: 64,
            quiet: false,
            anneal: false,
            keep: None,
        }
    }

    /// So many rows at a time.
    pub fn batch(self, batch: usize) -> Fit {
        Fit { batch, ..self }
    }

    /// Without progress.
    pub fn quiet(self) -> Fit {
        Fit {
            quiet: true,
            ..self
        }
    }

    /// Let the learning rate fall to 0 over all epochs, along half a cosine (Loshchilov and
    /// Hutter, 2017). Afterwards it is what it was.
    #[must_use]
    pub fn anneal(self) -> Fit {
        Fit {
            anneal: true,
            ..self
        }
    }

    /// Write the parameters to this safetensors file at the end, also when interrupted.
    pub fn keep(self, file: impl Into<PathBuf>) -> Fit {
        Fit {
            keep: Some(file.into()),
            ..self
        }
    }
}

/// One time through the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// Counted from 1.
    pub number: usize,
    /// The mean loss of its batches, weighted by their rows.
    pub loss: f64,
    /// Rows seen.
    pub rows: usize,
    /// How long it took.
    pub duration: Duration,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.duration.as_secs_f64();
        write!(
            f,
            "loss {:.4}  {:.0} rows/s",
            self.loss,
            self.rows as f64 / seconds.max(1e-9)
        )
    }
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The epochs that were completed, and the one that was broken off.
    pub epochs: Vec<Epoch>,
    /// The loss of every step.
    pub losses: Vec<f32>,
    /// Whether Ctrl-C ended it early.
    pub interrupted: bool,
}

impl<M: Model> Trainer<M> {
    /// Train on a data set. Ctrl-C ends it after the running step, with all that was learned
    /// kept; a second one ends the process.
    ///
    /// # Errors
    /// When the data does not fit the model or holds NaN, the loss is not finite any more,
    /// the device fails, or the file asked for cannot be written.
    pub fn fit(&mut self, data: &Dataset, fit: &Fit) -> Result<History, TrainError> {
        check_finite(data)?;
        interrupt::listen();
        let learning_rate = self.optimizer().learning_rate();
        let mut history = History::default();
        let outcome = self.all_epochs(data, fit, learning_rate, &mut history);
        self.optimizer().set_learning_rate(learning_rate);
        outcome?;
        if let Some(file) = &fit.keep {
            self.save(file)?;
        }
        Ok(history)
    }

    fn all_epochs(
        &mut self,
        data: &Dataset,
        fit: &Fit,
        learning_rate: f64,
        history: &mut History,
    ) -> Result<(), TrainError> {
        for number in 1..=fit.epochs {
            let epoch = self.epoch(data, fit, number, learning_rate, history)?;
            history.epochs.push(epoch);
            if history.interrupted {
                break;
            }
        }
        Ok(())
    }

    fn epoch(
        &mut self,
        data: &Dataset,
        fit: &Fit,
        number: usize,
        learning_rate: f64,
        history: &mut History,
    ) -> Result<Epoch, TrainError> {
        let begin = Instant::now();
        let mut batches = data
            .batches(fit.batch)?
            .shuffled(self.seed(), self.next_epoch());
        let progress = Progress::new(
            !fit.quiet,
            number,
            fit.epochs,
            data.rows().div_ceil(fit.batch),
        );
        let (mut batch, mut sum, mut rows) = (Batch::default(), 0.0, 0);
        let steps = fit.epochs * data.rows().div_ceil(fit.batch);
        while !history.interrupted && batches.next_into(&mut batch) {
            if fit.anneal {
                let done = history.losses.len() as f64 / steps as f64;
                let share = (1.0 + (std::f64::consts::PI * done).cos()) / 2.0;
                self.optimizer().set_learning_rate(learning_rate * share);
            }
            let loss = self.step(&batch)?;
            history.losses.push(loss);
            sum += f64::from(loss) * batch.rows() as f64;
            rows += batch.rows();
            progress.step(loss);
            history.interrupted = interrupt::wanted();
        }
        let epoch = Epoch {
            number,
            loss: sum / rows.max(1) as f64,
            rows,
            duration: begin.elapsed(),
        };
        progress.finish(&epoch, fit.epochs);
        Ok(epoch)
    }
}

/// NaN in, NaN out: better said before the first step than after it.
fn check_finite(data: &Dataset) -> Result<(), TrainError> {
    let mut batch = Batch::default();
    let mut batches = data.batches(1024)?;
    let mut before = 0;
    while batches.next_into(&mut batch) {
        for (name, array) in batch.fields() {
            let values = array.as_f32().unwrap_or(&[]);
            if let Some(position) = values.iter().position(|value| !value.is_finite()) {
                let row = before + position / (values.len() / batch.rows()).max(1);
                return Err(TrainError::Mismatch(format!(
                    "field `{name}` holds {} in row {row}: clean the data before training on it",
                    values[position]
                )));
            }
        }
        before += batch.rows();
    }
    Ok(())
}
