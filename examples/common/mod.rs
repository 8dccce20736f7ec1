//! What the examples share: flags, and how they end.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use meganeura::data::Dataset;
use meganeura::model::Model;
use meganeura::prelude::*;
use meganeura::train::{History, Optimizer};

/// The flags of every training example.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where to train.
    #[arg(long, default_value = "best", value_parser = ["cpu", "gpu", "best"])]
    pub device: String,
    /// Threads on the CPU; one for each core when not given.
    #[arg(long)]
    pub threads: Option<NonZeroUsize>,
    /// Decides first values, split and order.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Print the first so many losses.
    #[arg(long, default_value_t = 0)]
    pub losses: usize,
    /// Write the trained parameters to this safetensors file.
    #[arg(long)]
    pub save: Option<PathBuf>,
}

/// An error as a person reads it: `Error: …` without quotes and escapes.
pub struct Failure(Box<dyn std::error::Error>);

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(Box::new(error))
    }
}

impl std::fmt::Debug for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What `main` returns.
pub type Outcome = Result<(), Failure>;

impl Arguments {
    /// A trainer on the device asked for, which it names.
    pub fn trainer<M: Model>(
        &self,
        model: M,
        loss: Loss,
        optimizer: impl Optimizer + 'static,
    ) -> Result<Trainer<M>, Failure> {
        let device = match (self.device.as_str(), self.threads) {
            ("cpu", Some(threads)) => Device::cpu_with_threads(threads),
            (name, _) => Device::named(name)?,
        };
        let mut trainer = Trainer::new(model, loss, optimizer, &device, self.seed)?;
        eprintln!(
            "training on {}: {}",
            trainer.session().describe(),
            device.reason()
        );
        Ok(trainer)
    }

    /// Test, save and say how it went.
    pub fn finish<M: Model>(
        &self,
        trainer: &mut Trainer<M>,
        history: &History,
        test: &Dataset,
    ) -> Outcome {
        if self.losses > 0 {
            let losses: Vec<String> = history
                .losses
                .iter()
                .take(self.losses)
                .map(f32::to_string)
                .collect();
            println!("losses: {}", losses.join(" "));
        }
        if let Some(file) = &self.save {
            trainer.save(file)?;
        }
        if history.interrupted {
            eprintln!("interrupted after {} steps", trainer.steps());
        }
        let result = trainer.evaluate(test, 500)?;
        println!("test loss: {:.4}", result.loss);
        println!("test accuracy: {:.4}", result.accuracy.unwrap_or(f64::NAN));
        Ok(())
    }
}
