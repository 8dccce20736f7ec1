//! What the peers share: the command line, the clock and the line of JSON.

use std::error::Error;
use std::time::Instant;

use clap::{Parser, ValueEnum};

/// What is trained; the sizes stand in each peer's program and in `torch_peer.py`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    Mlp,
    Mlpbig,
    Cnn,
    Gpt,
    Norms,
}

impl Workload {
    /// Steps in a timed block, about as long for every workload.
    fn steps(self) -> usize {
        match self {
            Workload::Mlp => 500,
            Workload::Gpt => 15,
            _ => 60,
        }
    }
}

/// Time a training step.
#[derive(Parser)]
pub struct Arguments {
    pub workload: Workload,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Steps in each of the five timed blocks; 0 lets the workload choose.
    #[arg(long, default_value_t = 0)]
    steps: usize,
}

impl Arguments {
    /// Reads the command line and sets the number of threads, before any thread is started.
    pub fn read() -> Arguments {
        let arguments = Arguments::parse();
        // SAFETY: the program has one thread yet.
        unsafe { std::env::set_var("RAYON_NUM_THREADS", arguments.threads.to_string()) };
        arguments
    }
}

/// A training step under the clock.
pub struct Task<L> {
    /// One step; its loss.
    pub step: Box<dyn FnMut() -> Result<L, Box<dyn Error>>>,
    /// Waits for a loss and reads it.
    pub read: fn(L) -> Result<f32, Box<dyn Error>>,
    pub parameters: usize,
}

/// Runs five timed blocks after a warm-up and prints their median and the best.
pub fn measure<L>(
    engine: &str,
    arguments: &Arguments,
    mut task: Task<L>,
) -> Result<(), Box<dyn Error>> {
    let steps = match arguments.steps {
        0 => arguments.workload.steps(),
        steps => steps,
    };
    let first = (task.read)((task.step)()?)?;
    let mut last = first;
    for _ in 0..(steps / 10).max(3) {
        last = (task.read)((task.step)()?)?;
    }
    let mut blocks = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        for _ in 1..steps {
            (task.step)()?;
        }
        last = (task.read)((task.step)()?)?;
        blocks.push(begin.elapsed().as_secs_f64() * 1e3 / steps as f64);
    }
    blocks.sort_by(f64::total_cmp);
    let workload = arguments
        .workload
        .to_possible_value()
        .expect("a named value");
    println!(
        "{{\"engine\":\"{engine}\",\"workload\":\"{}\",\"dtype\":\"f32\",\"ms_per_step\":{:.4},\
         \"ms_min\":{:.4},\"loss_first\":{first:.4},\"loss_last\":{last:.4},\"threads\":{},\
         \"params\":{}}}",
        workload.get_name(),
        blocks[2],
        blocks[0],
        arguments.threads,
        task.parameters,
    );
    Ok(())
}
