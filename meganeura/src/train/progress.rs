//! What a person sees of an epoch: a bar on a terminal, a line when piped.

use std::io::IsTerminal;

use super::Epoch;

/// The display of one epoch.
pub(super) struct Progress {
    #[cfg(feature = "progress")]
    bar: Option<indicatif::ProgressBar>,
    shown: bool,
}

impl Progress {
    /// Of an epoch of so many steps; hidden when not `shown`.
    pub(super) fn new(shown: bool, epoch: usize, epochs: usize, steps: usize) -> Progress {
        #[cfg(feature = "progress")]
        {
            let bar = (shown && std::io::stderr().is_terminal()).then(|| {
                let bar = indicatif::ProgressBar::new(steps as u64);
                if let Ok(style) = indicatif::ProgressStyle::with_template(
                    "{prefix} {bar:32} {pos}/{len}  {msg}  {per_sec}  {eta} left",
                ) {
                    bar.set_style(style);
                }
                bar.set_prefix(format!("epoch {epoch}/{epochs}"));
                bar
            });
            Progress { bar, shown }
        }
        #[cfg(not(feature = "progress"))]
        {
            let _ = (epoch, epochs, steps, std::io::stderr().is_terminal());
            Progress { shown }
        }
    }

    /// A step is done.
    pub(super) fn step(&self, loss: f32) {
        #[cfg(feature = "progress")]
        if let Some(bar) = &self.bar {
            bar.set_message(format!("loss {loss:.4}"));
            bar.inc(1);
        }
        let _ = loss;
    }

    /// The epoch is over.
    pub(super) fn finish(self, epoch: &Epoch, epochs: usize) {
        #[cfg(feature = "progress")]
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.shown {
            eprintln!("epoch {}/{epochs}  {epoch}", epoch.number);
        }
    }
}
