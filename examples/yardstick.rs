//! The workloads that are timed against other frameworks; prints one JSON line.
//!
//! `cargo run --release --example yardstick -- mlp --threads 2`

#[path = "common/workloads.rs"]
mod workloads;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use meganeura::egraph::{CostModel, Rewrites, optimize};
use meganeura::ir::random::Stream;
use meganeura::ir::{DType, Graph, Init, Shape, VariableKind};
use meganeura::ops::expand;
use meganeura::prelude::*;
use meganeura::runtime::{Session, SessionError, StepId, Tuning};
use meganeura::train::Optimizer;

#[derive(Model)]
#[model(input(x: [batch, 784]), output = [batch, 10])]
struct Mlp {
    #[layer(out = 128)]
    hidden: (Linear, Relu),
    #[layer(out = 10)]
    scores: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 784]), output = [batch, 10])]
struct MlpBig {
    #[layer(out = 1024)]
    first: (Linear, Relu),
    #[layer(out = 1024)]
    second: (Linear, Relu),
    #[layer(out = 10)]
    scores: Linear,
}

#[derive(Model)]
#[model(input(x: [batch, 1, 28, 28]), output = [batch, 10])]
struct Cnn {
    #[layer(out = 32, kernel = 3, padding = 1)]
    first: Conv2d,
    halve: (Relu, MaxPool2d),
    #[layer(out = 64, kernel = 3, padding = 1)]
    second: Conv2d,
    quarter: (Relu, MaxPool2d, Flatten),
    #[layer(out = 128)]
    hidden: (Linear, Relu),
    #[layer(out = 10)]
    scores: Linear,
}

#[derive(Model)]
#[model(input(x: [rows, 768]), output = [rows, 768])]
struct Norms {
    layer: LayerNorm,
    rms: RmsNorm,
}

/// One decoder block of a small Llama.
#[derive(Model)]
#[model(config(width: usize = 288, heads: usize = 6, hidden: usize = 768),
        input(x: [batch, time, width]))]
struct Block {
    #[layer(residual, heads = heads, causal = true, rope = Rope::interleaved(10_000.0))]
    attention: PreNorm<SelfAttention>,
    #[layer(residual, hidden = hidden)]
    mlp: PreNorm<SwiGlu>,
}

#[derive(Model)]
#[model(input(tokens: [batch, time] as u32), output = [batch, time, 4096])]
struct Gpt {
    #[layer(rows = 4096, width = 288)]
    embed: Embedding,
    #[layer(repeat(6))]
    blocks: Vec<Block>,
    norm: RmsNorm,
    #[layer(out = 4096, bias = false)]
    scores: Linear,
}

/// What to train.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Workload {
    /// 784-128-10, batch 64, SGD.
    Mlp,
    /// 784-1024-1024-10, batch 256, AdamW.
    Mlpbig,
    /// Two 3×3 convolutions with pools, 3136-128-10, batch 64, AdamW.
    Cnn,
    /// A Llama of 6 layers of width 288, 4 × 256 tokens of 4096, AdamW.
    Gpt,
    /// LayerNorm and RMSNorm, forward and backward, 4096 × 768.
    Norms,
    /// Two layers x·(W + A·B) of width 512 and rank 8, batch 512, A and B trained by AdamW.
    Lora,
    /// (Q·Kᵀ)·V, forward and backward, 8 heads of 512 × 64.
    LinearAttention,
    /// The mean over 128 positions of x·W + b, batch 16, 256-512, SGD.
    MeanPool,
}

/// Which rewriting the graph goes through.
#[derive(Clone, Copy, ValueEnum)]
enum Rewriting {
    Off,
    Greedy,
    Egraph,
}

/// What products round their operands to.
#[derive(Clone, Copy, ValueEnum)]
enum Operands {
    F32,
    Bf16,
}

/// Time a training step.
#[derive(Parser)]
struct Arguments {
    workload: Workload,
    /// Where to train.
    #[arg(long, default_value = "cpu", value_parser = ["cpu", "gpu", "best"])]
    device: String,
    /// Threads on the CPU.
    #[arg(long, default_value = "2")]
    threads: NonZeroUsize,
    /// Steps in each of the five timed blocks.
    #[arg(long, default_value_t = 0)]
    steps: usize,
    /// How the graph is rewritten.
    #[arg(long, value_enum, default_value = "egraph")]
    rewrites: Rewriting,
    /// What products round their operands to.
    #[arg(long, value_enum, default_value = "f32")]
    dtype: Operands,
    /// Print the plan and how long each kernel takes, too.
    #[arg(long)]
    plan: bool,
    /// Search so many seconds for a faster way to run the step, before it is timed.
    #[arg(long, default_value_t = 0.0)]
    tune: f64,
    /// Print so many losses and nothing else, from parameters that start as in
    /// `tests/fixtures/language_model.py`.
    #[arg(long, default_value_t = 0)]
    losses: usize,
    /// Write a page to this file that shows the graph before and after rewriting.
    #[arg(long)]
    html: Option<std::path::PathBuf>,
}

/// A graph that trains, with the values of its inputs.
struct Setup {
    graph: Graph,
    inputs: Vec<(&'static str, Values)>,
    optimizer: Option<Box<dyn Optimizer>>,
    steps: usize,
}

enum Values {
    Floats(Vec<f32>),
    Labels(Vec<u32>),
}

fn main() -> Result<(), SessionError> {
    let arguments = Arguments::parse();
    let device = match arguments.device.as_str() {
        "cpu" => Device::cpu_with_threads(arguments.threads),
        name => Device::named(name)?,
    };
    let rewrites = match arguments.rewrites {
        Rewriting::Off => Rewrites::Off,
        Rewriting::Greedy => Rewrites::Greedy,
        Rewriting::Egraph => Rewrites::EGraph,
    };
    let precision = match arguments.dtype {
        Operands::F32 => Precision::F32,
        Operands::Bf16 => Precision::BF16,
    };
    let begin = Instant::now();
    let Setup {
        graph,
        inputs,
        optimizer,
        steps,
    } = match arguments.workload {
        Workload::Mlp => classifier(&Mlp::new(), 64, Sgd::new(0.01), 500),
        Workload::Mlpbig => classifier(&MlpBig::new(), 256, AdamW::new(1e-3), 60),
        Workload::Cnn => classifier(&Cnn::new(), 64, AdamW::new(1e-3), 60),
        Workload::Gpt => language_model(),
        Workload::Norms => norms(),
        Workload::Lora => {
            let optimizer = AdamW::new(1e-3);
            let graph = workloads::lora(512, 512, 8, &optimizer);
            plain(graph, Some(Box::new(optimizer)), 60)
        }
        Workload::LinearAttention => plain(workloads::linear_attention(8, 512, 64), None, 60),
        Workload::MeanPool => {
            let optimizer = Sgd::new(0.01);
            let graph = workloads::mean_pool([16, 128], [256, 512], &optimizer);
            plain(graph, Some(Box::new(optimizer)), 60)
        }
    };
    if let Some(file) = &arguments.html {
        let title = format!("{:?}", arguments.workload).to_lowercase();
        write_page(file, &title, &graph, rewrites);
    }
    let mut session = Session::with_rewrites(&device, 0, rewrites)?;
    session.precision(precision);
    let step = session.compile(&graph)?;
    let build_ms = begin.elapsed().as_secs_f64() * 1e3;
    for (name, values) in &inputs {
        match values {
            Values::Floats(values) => session.input(step, name, values)?,
            Values::Labels(values) => session.input(step, name, values)?,
        }
    }
    let steps = if arguments.steps > 0 {
        arguments.steps
    } else {
        steps
    };
    let mut runner = Runner {
        session,
        step,
        optimizer,
        count: 0,
    };
    if arguments.tune > 0.0 {
        let budget = Duration::try_from_secs_f64(arguments.tune).unwrap_or_default();
        eprintln!("{}", runner.tune(budget)?);
    }
    if arguments.losses > 0 {
        return runner.print_losses(arguments.losses);
    }
    let timing = measure(&mut runner, steps)?;
    let Runner { session, .. } = &mut runner;
    if arguments.plan {
        eprintln!("{}", session.plan(step));
        for (name, duration) in session.profile(step, 20)? {
            eprintln!("{:>10.1} µs  {name}", duration.as_secs_f64() * 1e6);
        }
    }
    let parameters: usize = session
        .variables()
        .filter(|variable| variable.kind == VariableKind::Parameter)
        .map(|variable| variable.shape.elements())
        .sum();
    let plan = session.plan(step);
    println!(
        "{{\"engine\": \"meganeura\", \"workload\": \"{}\", \"dtype\": \"{precision}\", \"ms_per_step\": {:.4}, \
         \"ms_min\": {:.4}, \"loss_first\": {:.4}, \"loss_last\": {:.4}, \"threads\": {}, \"params\": {parameters}, \
         \"build_ms\": {build_ms:.1}, \"egraph_ms\": {:.1}, \"kernels\": {}, \"bytes_moved\": {}, \"flops\": {}, \
         \"peak_bytes\": {}}}",
        arguments
            .workload
            .to_possible_value()
            .map_or(String::new(), |value| value.get_name().to_owned()),
        timing.median,
        timing.fastest,
        timing.first,
        timing.last,
        arguments.threads,
        session.report(step).milliseconds,
        plan.kernels.len(),
        plan.bytes_moved(),
        plan.flops(),
        plan.peak_bytes(),
    );
    Ok(())
}

/// Write what rewriting makes of a graph to a file.
fn write_page(file: &std::path::Path, title: &str, graph: &Graph, rewrites: Rewrites) {
    let model = CostModel::default();
    let (given, _) = optimize(graph, Rewrites::Off, &model);
    let (result, report) = optimize(graph, rewrites, &model);
    let page = report.to_html(title, &given, &result);
    match std::fs::write(file, page) {
        Ok(()) => eprint!("{report}"),
        Err(error) => eprintln!("cannot write {}: {error}", file.display()),
    }
}

struct Runner {
    session: Session,
    step: StepId,
    optimizer: Option<Box<dyn Optimizer>>,
    count: u64,
}

impl Runner {
    fn run(&mut self) -> Result<(), SessionError> {
        self.count += 1;
        self.count_for_optimizer()?;
        self.session.run(self.step)
    }

    /// Let the step be as fast as can be found in a while.
    fn tune(&mut self, budget: Duration) -> Result<Tuning, SessionError> {
        self.count_for_optimizer()?;
        self.session.tune(self.step, budget)
    }

    /// Give the optimizer's inputs what they are at this count.
    fn count_for_optimizer(&mut self) -> Result<(), SessionError> {
        if let Some(optimizer) = &self.optimizer {
            for (name, value) in optimizer.inputs(self.count) {
                if self.session.has_input(self.step, name) {
                    self.session.input(self.step, name, &[value])?;
                }
            }
        }
        Ok(())
    }

    /// Train from parameters that come of their names, as the reference program has them.
    fn print_losses(&mut self, count: usize) -> Result<(), SessionError> {
        let parameters: Vec<(String, Shape)> = self
            .session
            .variables()
            .filter(|variable| variable.kind == VariableKind::Parameter)
            .map(|variable| (variable.name.clone(), variable.shape.clone()))
            .collect();
        for (name, shape) in parameters {
            let mut values = vec![0.0; shape.elements()];
            Stream::named(0, &name).fill_uniform(&mut values);
            for value in &mut values {
                let spread = *value * 2.0 - 1.0;
                *value = match shape.dims() {
                    [_] => spread * 0.25 + 1.0,
                    _ if name.starts_with("embed") => spread,
                    dims => spread * (1.0 / (dims[0] as f64).sqrt()) as f32,
                };
            }
            self.session.set_variable(&name, &values)?;
        }
        for _ in 0..count {
            self.run()?;
            print!("{:.6} ", self.loss()?);
        }
        println!();
        Ok(())
    }

    fn loss(&mut self) -> Result<f32, SessionError> {
        Ok(self.session.output(self.step, "loss")?[0])
    }
}

struct Timing {
    median: f64,
    fastest: f64,
    first: f32,
    last: f32,
}

/// Five blocks of steps after a warm-up.
fn measure(runner: &mut Runner, steps: usize) -> Result<Timing, SessionError> {
    runner.run()?;
    let first = runner.loss()?;
    for _ in 0..(steps / 10).max(3) {
        runner.run()?;
    }
    let mut last = runner.loss()?;
    let mut blocks = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        for _ in 0..steps {
            runner.run()?;
        }
        last = runner.loss()?;
        blocks.push(begin.elapsed().as_secs_f64() * 1e3 / steps as f64);
    }
    blocks.sort_by(f64::total_cmp);
    Ok(Timing {
        median: blocks[2],
        fastest: blocks[0],
        first,
        last,
    })
}

fn uniform(name: &str, count: usize) -> Values {
    let mut values = vec![0.0; count];
    Stream::named(0, name).fill_uniform(&mut values);
    Values::Floats(values)
}

fn normal(name: &str, count: usize) -> Vec<f32> {
    let mut values = vec![0.0; count];
    Stream::named(0, name).fill_normal(&mut values);
    values
}

fn below(name: &str, count: usize, bound: u64) -> Values {
    let stream = Stream::named(0, name);
    Values::Labels(
        (0..count as u64)
            .map(|row| stream.below(row, bound) as u32)
            .collect(),
    )
}

/// Images of noise and random labels, as the peers have them.
fn classifier<M: Model>(
    model: &M,
    batch: usize,
    optimizer: impl Optimizer + 'static,
    steps: usize,
) -> Setup {
    let graph = Graph::new();
    let scores = model.build(&graph, &[("batch", batch)]);
    let labels = graph.input("label", [batch], DType::U32);
    graph.output("loss", scores[0].cross_entropy(labels));
    let inputs = vec![
        ("x", uniform("x", batch * 784)),
        ("label", below("labels", batch, 10)),
    ];
    trained(&graph, inputs, optimizer, steps)
}

/// Random tokens and, to be predicted for each, random others.
fn language_model() -> Setup {
    let (batch, time, vocabulary) = (4, 256, 4096);
    let graph = Graph::new();
    let scores = Gpt::new().build(&graph, &[("batch", batch), ("time", time)]);
    let labels = graph.input("label", [batch, time], DType::U32);
    graph.output("loss", scores[0].cross_entropy(labels));
    let inputs = vec![
        ("tokens", below("tokens", batch * time, vocabulary)),
        ("label", below("labels", batch * time, vocabulary)),
    ];
    trained(&graph, inputs, AdamW::new(3e-4), 15)
}

/// A graph whose output `loss` an optimizer makes small.
fn trained(
    graph: &Graph,
    inputs: Vec<(&'static str, Values)>,
    optimizer: impl Optimizer + 'static,
    steps: usize,
) -> Setup {
    let (graph, _) = expand(graph);
    meganeura::train::add_updates(&graph, &optimizer);
    Setup {
        graph,
        inputs,
        optimizer: Some(Box::new(optimizer)),
        steps,
    }
}

/// The mean of norms · t, and its gradients with respect to x and all weights.
fn norms() -> Setup {
    let (rows, width) = (4096, 768);
    let graph = Graph::new();
    let x = graph.state(
        "x",
        [rows, width],
        Init::Normal {
            mean: 0.0,
            std: 1.0,
        },
    );
    let t = graph.input("t", [rows, width], DType::F32);
    let y = Norms::new().forward(&graph, &[x]);
    let loss = (y[0] * t).mean_all();
    graph.output("loss", loss);
    let graph = workloads::with_gradients(&graph);
    let inputs = vec![("t", Values::Floats(normal("t", rows * width)))];
    Setup {
        graph,
        inputs,
        optimizer: None,
        steps: 60,
    }
}

/// A graph that only needs numbers for its inputs.
fn plain(graph: Graph, optimizer: Option<Box<dyn Optimizer>>, steps: usize) -> Setup {
    let given = graph.inputs().into_iter().filter_map(|(name, id)| {
        let elements = graph.tensor(id).shape().elements();
        let name = ["x", "t"].into_iter().find(|known| *known == name)?;
        Some((name, Values::Floats(normal(name, elements))))
    });
    let inputs = given.collect();
    Setup {
        graph,
        inputs,
        optimizer,
        steps,
    }
}
