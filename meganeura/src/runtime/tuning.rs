use std::fmt;
use std::path::PathBuf;

/// What [`Session::tune`](super::Session::tune) has found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tuning {
    /// Kernels that do better with another choice now.
    pub found: Vec<Tuned>,
    /// How often the step ran.
    pub runs: usize,
    /// Choices that were tried, beside those in use.
    pub tried: usize,
    /// The share of the time that a whole step takes now.
    pub step: f64,
    /// The file that keeps what was found.
    pub file: Option<PathBuf>,
    /// What went wrong with it.
    pub notes: Vec<String>,
}

impl Default for Tuning {
    /// Nothing was tried.
    fn default() -> Tuning {
        Tuning {
            found: Vec::new(),
            runs: 0,
            tried: 0,
            step: 1.0,
            file: None,
            notes: Vec::new(),
        }
    }
}

/// Kernels that do better with another choice.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tuned {
    /// The first of them.
    pub kernel: String,
    /// How many they are.
    pub count: usize,
    /// What the choice depends on: sizes, how operands lie, what is done with the result.
    pub key: String,
    /// The choice before.
    pub from: String,
    /// The choice now.
    pub to: String,
    /// The share of the time that they take now.
    pub ratio: f64,
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuning { runs, tried, .. } = self;
        write!(
            f,
            "{tried} choices tried in {runs} runs, {} better",
            self.found.len()
        )?;
        if !self.found.is_empty() {
            write!(f, "; a step takes {:.3} of its time", self.step)?;
        }
        if let Some(file) = &self.file {
            write!(f, "; kept in {}", file.display())?;
        }
        for found in &self.found {
            let Tuned { kernel, count, .. } = found;
            write!(f, "\n{:6.3} {count} x {kernel}: {}", found.ratio, found.key)?;
            write!(f, "\n       from {}\n       to   {}", found.from, found.to)?;
        }
        for note in &self.notes {
            write!(f, "\n{note}")?;
        }
        Ok(())
    }
}
