//! Contractions where they stand in a training step: with the epilogues that the scheduler gave
//! them, and operands that come from wherever the kernels before have left them.
//!
//! `cargo bench -p meganeura-benches --bench training -- [--threads N] [--bf16] [gpt|mlpbig]` prints, for each
//! shape and direction, the time of the kernel in the step and per cent of the peak of fused
//! multiply-adds measured in the same run: of the kernel, of the product alone on operands that
//! stay in cache as far as they fit, and of that product by the crate `gemm`.

mod llama;
mod products;

use llama::Llama;
use meganeura::ir::{DType, Graph};
use meganeura::ops::expand;
use meganeura::prelude::*;
use meganeura::runtime::Session;
use meganeura::runtime::cpu::{
    Pool,
    gemm::{self, Matrix, Operand, Output, Problem, Target},
};
use meganeura::schedule::kernel::{Action, ContractKernel};
use meganeura::train::{Optimizer, add_updates};
use meganeura_benches::peak;
use products::{Aligned, fastest, theirs};
use std::error::Error;
use std::num::NonZeroUsize;

/// Products below this are not worth a line.
const LEAST_FLOPS: f64 = 1e7;
/// How often a step is run to find the median time of its kernels.
const RUNS: usize = 10;

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

/// A product of a step: how often, and the least of the median times.
struct Product {
    name: String,
    size: [usize; 3],
    strides: [[usize; 2]; 2],
    count: usize,
    seconds: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (threads, others) = meganeura_benches::arguments()?;
    let (flags, chosen): (Vec<String>, Vec<String>) =
        others.into_iter().partition(|other| other == "--bf16");
    let precision = match flags.is_empty() {
        true => Precision::F32,
        false => Precision::BF16,
    };
    let chosen = chosen.first();
    for workload in ["gpt", "mlpbig"] {
        if chosen.is_none_or(|chosen| chosen == workload) {
            run(workload, threads, precision)?;
        }
    }
    Ok(())
}

fn run(workload: &str, threads: NonZeroUsize, precision: Precision) -> Result<(), Box<dyn Error>> {
    let products = in_training(workload, threads, precision)?;
    let pool = Pool::new(threads.get());
    let peak = peak(&pool);
    println!("{workload}, {threads} threads, peak {peak:.0} GFLOP/s; per cent of it:");
    println!(
        "{:>3} {:>16} {:>9} {:>6} {:>6} {:>6}",
        "", "m x n x k", "step, us", "step", "alone", "gemm"
    );
    let (mut flops_of_all, mut seconds_of_all) = (0.0, 0.0);
    for product in products {
        let [m, n, k] = product.size;
        let flops = 2.0 * (m * n * k) as f64 / 1e9;
        let [alone, peer] = alone(&product, &pool, precision);
        let per_cent = |seconds: f64| 100.0 * flops / seconds / peak;
        println!(
            "{:>2}x {:>16} {:9.1} {:6.1} {:6.1} {:6.1}  {}",
            product.count,
            format!("{m}x{n}x{k}"),
            1e6 * product.seconds,
            per_cent(product.seconds),
            per_cent(alone),
            per_cent(peer),
            product.name,
        );
        flops_of_all += flops * product.count as f64;
        seconds_of_all += product.seconds * product.count as f64;
    }
    let per_cent = 100.0 * flops_of_all / seconds_of_all / peak;
    println!(
        "all: {:.2} ms, {per_cent:.1} per cent\n",
        1e3 * seconds_of_all
    );
    Ok(())
}

/// The products of a training step and their times in it.
fn in_training(
    workload: &str,
    threads: NonZeroUsize,
    precision: Precision,
) -> Result<Vec<Product>, Box<dyn Error>> {
    let graph = Graph::new();
    let (batch, input) = match workload {
        "gpt" => {
            let scores = Llama::new().build(&graph, &[("batch", 4), ("time", 256)]);
            let labels = graph.input("label", [4, 256], DType::U32);
            graph.output("loss", scores[0].cross_entropy(labels));
            (1024, "tokens")
        }
        _ => {
            let scores = MlpBig::new().build(&graph, &[("batch", 256)]);
            let labels = graph.input("label", [256], DType::U32);
            graph.output("loss", scores[0].cross_entropy(labels));
            (256, "x")
        }
    };
    let optimizer = AdamW::new(3e-4);
    let (graph, _) = expand(&graph);
    add_updates(&graph, &optimizer);
    let mut session = Session::new(&Device::cpu_with_threads(threads), 0)?;
    session.precision(precision);
    let step = session.compile(&graph)?;
    let numbers: Vec<u32> = (0..batch).map(|i| i * 7 % 10).collect();
    session.input(step, "label", &numbers)?;
    if input == "x" {
        let pixels: Vec<f32> = (0..batch * 784).map(|i| (i % 17) as f32 / 17.0).collect();
        session.input(step, "x", &pixels)?;
    } else {
        session.input(step, "tokens", &numbers)?;
    }
    for (name, value) in optimizer.inputs(1) {
        if session.has_input(step, name) {
            session.input(step, name, &[value])?;
        }
    }
    let times = session.profile(step, RUNS)?;
    let mut products: Vec<Product> = Vec::new();
    for (kernel, (name, time)) in session.plan(step).kernels.iter().zip(times) {
        let Action::Contract(contract) = &kernel.action else {
            continue;
        };
        let (Some(strides), true) = (strides(contract), flops(contract) > LEAST_FLOPS) else {
            continue;
        };
        let name: String = name.replace(|digit: char| digit.is_ascii_digit(), "");
        let size = [contract.rows(), contract.columns(), contract.depth()];
        let seconds = time.as_secs_f64();
        let known = products.iter_mut().find(|product| {
            product.name == name && product.size == size && product.strides == strides
        });
        match known {
            Some(product) => {
                product.count += 1;
                product.seconds = product.seconds.min(seconds);
            }
            None => products.push(Product {
                name,
                size,
                strides,
                count: 1,
                seconds,
            }),
        }
    }
    Ok(products)
}

fn flops(contract: &ContractKernel) -> f64 {
    2.0 * (contract.rows() * contract.columns()) as f64 * contract.depth() as f64
}

/// Dense strides in the order of the operands' axes, if each is a matrix in memory.
fn strides(contract: &ContractKernel) -> Option<[[usize; 2]; 2]> {
    let [m, n, k] = [contract.rows(), contract.columns(), contract.depth()];
    if contract.batch.iter().any(|&size| size > 1) {
        return None;
    }
    let dense =
        |access: &meganeura::schedule::kernel::Access, rows: usize, columns: usize| match access
            .column_stride
        {
            1 => [columns, 1],
            _ => [1, rows],
        };
    let left = dense(contract.left.as_load()?, m, k);
    Some([left, dense(contract.right.as_load()?, k, n)])
}

/// Seconds of the product alone, by ours and by the crate `gemm`.
fn alone(product: &Product, pool: &Pool, precision: Precision) -> [f64; 2] {
    let ([m, n, k], [a_strides, b_strides]) = (product.size, product.strides);
    let (a, b, mut c) = (
        Aligned::new(m * k),
        Aligned::new(k * n),
        Aligned::new(m * n),
    );
    let (a, b, c) = (a.floats(), b.floats(), c.floats_mut());
    let left = Operand::Memory(Matrix::new(a, a_strides));
    let right = Operand::Memory(Matrix::new(b, b_strides));
    let problem = Problem::new(&[], product.size, left, right).expect("the operands fit");
    let problem = problem.with_precision(precision);
    let mut best = [f64::INFINITY; 2];
    for _ in 0..5 {
        let ours = fastest(|| {
            let output = Output::Store(Target::new(c, [n, 1]));
            gemm::gemm(pool, &problem, output).expect("the output fits");
        });
        let peer = fastest(|| theirs(product.size, a, a_strides, b, b_strides, c, pool.threads()));
        best = [best[0].min(ours), best[1].min(peer)];
    }
    best
}
