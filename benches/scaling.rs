//! What a training step costs as batch, time and layers grow, as a plot.
//!
//! `cargo bench -p meganeura-benches --bench scaling -- [--threads N] [FILE]` trains a Llama of width
//! 288 for a few steps at each size, prints the fastest step and the memory of each, and draws both
//! into FILE (`docs/scaling.svg` without one), beside straight lines from the first to the last. Then
//! it prints how long deeper ones take to build.

mod llama;

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use llama::Llama;
use meganeura::ir::{DType, Graph};
use meganeura::ops::expand;
use meganeura::prelude::*;
use meganeura::runtime::{Session, StepId};
use meganeura::train::{Optimizer, add_updates};
use plotters::prelude::*;

const VOCABULARY: u32 = 4096;
const STEPS: u64 = 5;

fn optimizer() -> AdamW {
    AdamW::new(3e-4)
}

#[derive(Clone, Copy)]
struct Size {
    batch: usize,
    time: usize,
    layers: usize,
}

struct Cost {
    milliseconds: f64,
    megabytes: f64,
}

/// A session for training at a size, and its step: gradients, rewriting, kernels, plan and first values.
fn build(size: Size, device: &Device) -> Result<(Session, StepId), Box<dyn Error>> {
    let Size {
        batch,
        time,
        layers,
    } = size;
    let model = Llama::with(|config| config.layers = layers);
    let graph = Graph::new();
    let scores = model.build(&graph, &[("batch", batch), ("time", time)])[0];
    let labels = graph.input("label", [batch, time], DType::U32);
    graph.output("loss", scores.cross_entropy(labels));
    let (graph, _) = expand(&graph);
    add_updates(&graph, &optimizer());
    let mut session = Session::new(device, 0)?;
    let step = session.compile(&graph)?;
    Ok((session, step))
}

fn cost(size: Size, device: &Device) -> Result<Cost, Box<dyn Error>> {
    let Size { batch, time, .. } = size;
    let (mut session, step) = build(size, device)?;
    let tokens = (0..(batch * time) as u32).map(|i| i.wrapping_mul(2_654_435_761) % VOCABULARY);
    let tokens: Vec<u32> = tokens.collect();
    session.input(step, "tokens", &tokens)?;
    session.input(step, "label", &tokens)?;
    let mut fastest = f64::INFINITY;
    for count in 1..=STEPS {
        for (name, value) in optimizer().inputs(count) {
            session.input(step, name, &[value])?;
        }
        let begin = Instant::now();
        session.run(step)?;
        fastest = fastest.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Cost {
        milliseconds: fastest,
        megabytes: session.plan(step).peak_bytes() as f64 / 1e6,
    })
}

/// One size grows, the others stay.
struct Series {
    name: &'static str,
    sizes: [usize; 5],
    size: fn(usize) -> Size,
}

const SERIES: [Series; 3] = [
    Series {
        name: "batch",
        sizes: [1, 2, 4, 8, 16],
        size: |batch| Size {
            batch,
            time: 256,
            layers: 2,
        },
    },
    Series {
        name: "time",
        sizes: [64, 128, 256, 512, 1024],
        size: |time| Size {
            batch: 4,
            time,
            layers: 2,
        },
    },
    Series {
        name: "layers",
        sizes: [1, 2, 4, 8, 16],
        size: |layers| Size {
            batch: 4,
            time: 256,
            layers,
        },
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let (threads, others) = meganeura_benches::arguments()?;
    let file = others.into_iter().next().map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scaling.svg")),
        PathBuf::from,
    );
    let device = Device::cpu_with_threads(threads);
    let mut found = Vec::new();
    for series in &SERIES {
        println!("| {} | ms | MB |\n|---|---|---|", series.name);
        let mut costs = Vec::new();
        for size in series.sizes {
            let cost = cost((series.size)(size), &device)?;
            println!(
                "| {size} | {:.1} | {:.1} |",
                cost.milliseconds, cost.megabytes
            );
            costs.push(cost);
        }
        println!();
        found.push(costs);
    }
    draw(&file, &found)?;
    println!("{}", file.display());
    println!("\n| layers | building, s |\n|---|---|");
    for layers in [6, 12, 24, 48] {
        let size = Size {
            batch: 4,
            time: 256,
            layers,
        };
        let begin = Instant::now();
        build(size, &device)?;
        println!("| {layers} | {:.2} |", begin.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Three charts side by side, each over one size.
fn draw(file: &std::path::Path, found: &[Vec<Cost>]) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(file, (960, 300)).into_drawing_area();
    root.fill(&WHITE)?;
    for ((area, series), costs) in root.split_evenly((1, 3)).iter().zip(&SERIES).zip(found) {
        let time: Vec<f64> = costs.iter().map(|cost| cost.milliseconds).collect();
        let memory: Vec<f64> = costs.iter().map(|cost| cost.megabytes).collect();
        let sizes = series.sizes.map(|size| size as f64);
        let most = 1.1 * time[4].max(memory[4]);
        let mut chart = ChartBuilder::on(area)
            .caption(series.name, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(28)
            .y_label_area_size(44)
            .build_cartesian_2d(0.0..sizes[4], 0.0..most)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| format!("{y:.0}"))
            .x_labels(5)
            .draw()?;
        for (values, color, name) in [(&time, BLUE, "ms a step"), (&memory, RED, "MB")] {
            let points = sizes.into_iter().zip(values.iter().copied());
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(2)).point_size(3))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
            // A straight line, to compare with.
            let ends = [(sizes[0], values[0]), (sizes[4], values[4])];
            chart.draw_series(DashedLineSeries::new(ends, 4, 4, BLACK.stroke_width(1)))?;
        }
        chart
            .configure_series_labels()
            .background_style(WHITE)
            .position(SeriesLabelPosition::UpperLeft)
            .draw()?;
    }
    root.present()?;
    Ok(())
}
