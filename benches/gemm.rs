//! Our contraction engine beside the crate `gemm` and the measured peak of the hardware.
//!
//! `cargo bench -p meganeura-benches --bench gemm -- [--threads N] [--bf16] [FILTER]…` measures both in turn
//! on the same operands, the fastest of many rounds each (other programs only ever add time),
//! on the shapes that training spends its time in. A row says: GFLOP/s of ours, per cent of
//! the peak, GFLOP/s of `gemm`, and how many times as fast ours is.

mod products;

use meganeura::ir::Precision;
use meganeura::runtime::cpu::{
    Pool,
    gemm::{self, Matrix, Operand, Output, Problem, Target, Tile},
};
use meganeura_benches::peak;
use products::{Aligned, fastest, theirs};
use std::time::{Duration, Instant};

/// Products for one dense layer: forward, input gradient, weight gradient.
const LAYERS: &[(&str, usize, usize, usize)] = &[
    // name, rows, inputs, outputs
    ("mlp", 64, 784, 128),
    ("mlp", 64, 128, 10),
    ("mlpbig", 256, 784, 1024),
    ("mlpbig", 256, 1024, 1024),
    ("mlpbig", 256, 1024, 10),
    ("gpt", 1024, 288, 288),
    ("gpt", 1024, 288, 768),
    ("gpt", 1024, 768, 288),
    ("gpt", 1024, 288, 4096),
];
const SQUARES: &[usize] = &[32, 64, 128, 256, 512, 1024, 2048];

struct Case {
    name: String,
    batch: usize,
    /// m, n, k
    size: [usize; 3],
    a_transposed: bool,
    b_transposed: bool,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: String, batch, size, a_transposed, b_transposed| {
        cases.push(Case {
            name,
            batch,
            size,
            a_transposed,
            b_transposed,
        });
    };
    for &(model, rows, inputs, outputs) in LAYERS {
        let name = |direction| format!("{model} {rows}x{inputs}->{outputs} {direction}");
        case(name("forward"), 1, [rows, outputs, inputs], false, false);
        case(name("input"), 1, [rows, inputs, outputs], false, true);
        case(name("weight"), 1, [inputs, outputs, rows], true, false);
    }
    // Four sequences of six heads.
    case(
        "attention 256x48 scores".into(),
        24,
        [256, 256, 48],
        false,
        true,
    );
    case(
        "attention 256x48 values".into(),
        24,
        [256, 48, 256],
        false,
        false,
    );
    case(
        "attention 256x48 transposed".into(),
        24,
        [256, 48, 256],
        true,
        false,
    );
    for &size in SQUARES {
        case(format!("square {size}"), 1, [size; 3], false, false);
    }
    case("vector 1024".into(), 1, [1, 1024, 1024], false, false);
    case(
        "vector 1024 transposed".into(),
        1,
        [1, 1024, 1024],
        false,
        true,
    );
    cases
}

fn main() {
    let mut threads = vec![1, 2];
    let (mut filters, mut precision) = (Vec::new(), Precision::F32);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {}
            "--bf16" => precision = Precision::BF16,
            "--threads" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                threads = vec![number.expect("--threads takes a number")];
            }
            _ => filters.push(argument),
        }
    }
    for threads in threads {
        run(threads, precision, &filters);
    }
}

fn run(threads: usize, precision: Precision, filters: &[String]) {
    let pool = Pool::new(threads);
    let peak = peak(&pool);
    println!(
        "{}, {threads} threads, peak {peak:.0} GFLOP/s",
        gemm::instruction_set(precision)
    );
    println!(
        "{:36} {:>8} {:>6} {:>8} {:>8} {:>6} {:>9}",
        "", "ours", "%", "tiles", "gemm", "ratio", "ours, us"
    );
    let mut totals: Vec<(&str, f64, f64)> = Vec::new();
    for case in cases() {
        if !filters.is_empty() && !filters.iter().any(|filter| case.name.contains(filter)) {
            continue;
        }
        let [ours, tiles, theirs] = measure(&case, &pool, precision);
        let [m, n, k] = case.size;
        let flops = 2.0 * (case.batch * m * n * k) as f64 / 1e9;
        println!(
            "{:36} {:8.1} {:6.1} {:8.1} {:8.1} {:6.2} {:9.1}",
            case.name,
            flops / ours,
            100.0 * flops / ours / peak,
            flops / tiles,
            flops / theirs,
            theirs / ours,
            1e6 * ours,
        );
        let model = LAYERS
            .iter()
            .find(|layer| case.name.starts_with(&format!("{} ", layer.0)));
        if let Some(&(model, ..)) = model {
            match totals.iter_mut().find(|total| total.0 == model) {
                Some(total) => *total = (model, total.1 + ours, total.2 + theirs),
                None => totals.push((model, ours, theirs)),
            }
        }
    }
    for (model, ours, theirs) in totals {
        println!(
            "{model}: {:.3} ms, gemm {:.3} ms, ratio {:.2}",
            1e3 * ours,
            1e3 * theirs,
            theirs / ours
        );
    }
}

/// Seconds of ours to memory, of ours by tiles, and of the peer.
fn measure(case: &Case, pool: &Pool, precision: Precision) -> [f64; 3] {
    let [m, n, k] = case.size;
    let (a, b) = (
        Aligned::new(case.batch * m * k),
        Aligned::new(case.batch * k * n),
    );
    let mut c = Aligned::new(case.batch * m * n);
    let (a, b, c) = (a.floats(), b.floats(), c.floats_mut());
    let a_strides = if case.a_transposed { [1, m] } else { [k, 1] };
    let b_strides = if case.b_transposed { [1, k] } else { [n, 1] };
    let batch = [case.batch];
    let (a_batch, b_batch, c_batch) = ([m * k], [k * n], [m * n]);
    let problem = Problem::new(
        &batch,
        case.size,
        Operand::Memory(Matrix::new(a, a_strides).batched(&a_batch)),
        Operand::Memory(Matrix::new(b, b_strides).batched(&b_batch)),
    )
    .expect("the operands fit")
    .with_precision(precision);
    let mut best = [f64::INFINITY; 3];
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < 5 || begin.elapsed() < Duration::from_millis(600) {
        best[0] = best[0].min(fastest(|| {
            let target = Target::new(c, [n, 1]).batched(&c_batch);
            gemm::gemm(pool, &problem, Output::Store(target)).expect("the output fits");
        }));
        let to = c.as_mut_ptr() as usize;
        // A bias and an activation, as an epilogue would apply them.
        let epilogue = move |mut tile: Tile<'_>| {
            for i in 0..tile.rows.len() {
                let at = (tile.batch * m + tile.rows.start + i) * n + tile.columns.start;
                let row = tile.row(i);
                // SAFETY: every tile has elements of its own in `c`, which is not used else.
                let to =
                    unsafe { std::slice::from_raw_parts_mut((to as *mut f32).add(at), row.len()) };
                for (to, value) in to.iter_mut().zip(row) {
                    *to = (*value + 1.0).max(0.0);
                }
            }
        };
        best[1] = best[1].min(fastest(|| {
            gemm::gemm(pool, &problem, Output::Tiles(&epilogue)).expect("tiles fit");
        }));
        best[2] = best[2].min(fastest(|| {
            for index in 0..case.batch {
                let (a, b) = (&a[index * m * k..], &b[index * k * n..]);
                theirs(
                    case.size,
                    a,
                    a_strides,
                    b,
                    b_strides,
                    &mut c[index * m * n..],
                    pool.threads(),
                );
            }
        }));
        rounds += 1;
    }
    best
}
