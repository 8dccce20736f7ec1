//! Training steps: forward, backward and update in one graph.

use meganeura::autodiff::gradients;
use meganeura::egraph::{CostModel, Rewrites, optimize};
use meganeura::ir::{DType, Graph, Init, Tensor};
use meganeura::ops::expand;
use meganeura::plan::Plan;

use super::support::{Fill, check};
use super::workload_models::with_gradients;

/// x·W + b
fn linear<'g>(name: &str, x: Tensor<'g>, to: usize) -> Tensor<'g> {
    let graph = x.graph();
    graph.scoped(name, || {
        let from = x.shape().last();
        let weight = graph.parameter("weight", [from, to], Init::XavierUniform);
        let bias = graph.parameter("bias", [to], Init::Zeros);
        x.matmul(weight) + bias
    })
}

fn norm<'g>(name: &str, x: Tensor<'g>) -> Tensor<'g> {
    let graph = x.graph();
    graph.scoped(name, || {
        let weight = graph.parameter("weight", [x.shape().last()], Init::Ones);
        let bias = graph.parameter("bias", [x.shape().last()], Init::Zeros);
        x.layer_norm(weight, bias, 1e-5)
    })
}

/// The graph, whose first output is the loss, as primitives with an AdamW update of every
/// parameter.
fn trained(graph: &Graph) -> Graph {
    let (result, images) = expand(graph);
    let image = |id| result.tensor(images.get(id).expect("an image"));
    let loss = image(graph.outputs()[0].1);
    let parameters: Vec<(String, Tensor<'_>)> = graph
        .variables()
        .into_iter()
        .map(|(variable, id)| (variable.name, image(id)))
        .collect();
    let sources: Vec<Tensor<'_>> = parameters.iter().map(|p| p.1).collect();
    let found = gradients(&[(loss, result.constant(1.0))], &sources);
    let scalar = |name| result.input(name, [], DType::F32);
    let (rate, first, second) = (scalar("rate"), scalar("first"), scalar("second"));
    for ((name, p), g) in parameters.into_iter().zip(found) {
        let layer = name
            .rsplit_once('.')
            .map_or("", |(layer, _)| layer)
            .to_owned();
        result.scoped(&layer, || {
            let leaf = name.rsplit('.').next().unwrap_or("");
            let state =
                |what: &str| result.state(&format!("{leaf}.{what}"), p.shape(), Init::Zeros);
            let (m, v) = (state("first"), state("second"));
            let new_m = m * 0.9 + g * 0.1;
            let new_v = v * 0.999 + g * g * 0.001;
            let step = (new_m * first) / ((new_v * second * second).sqrt() + 1e-8);
            result.update(m, new_m);
            result.update(v, new_v);
            result.update(p, p * (1.0 - rate * 0.01) - step * rate);
        });
    }
    assert!(result.errors().is_empty(), "{:?}", result.errors());
    result
}

/// A classifier's training step.
pub fn mlp(batch: usize, sizes: &[usize], classes: usize) -> Graph {
    let graph = Graph::new();
    let mut x = graph.input("x", [batch, sizes[0]], DType::F32);
    let labels = graph.input("labels", [batch], DType::U32);
    for (index, &size) in sizes[1..].iter().enumerate() {
        x = linear(&format!("layers.{index}"), x, size).relu();
    }
    let loss = linear("head", x, classes).cross_entropy(labels);
    graph.output("loss", loss);
    trained(&graph)
}

/// Pre-norm attention with one causal mask, and a feed-forward part.
fn block<'g>(x: Tensor<'g>, heads: usize) -> Tensor<'g> {
    let graph = x.graph();
    let [batch, time, width] = *x.shape().dims() else {
        return graph.fail("needs three axes");
    };
    let attended = graph.scoped("attention", || {
        let y = norm("norm", x);
        let split = |name: &str| {
            linear(name, y, width)
                .reshape([batch, time, heads, width / heads])
                .transpose(&[0, 2, 1, 3])
        };
        let (q, k, v) = (split("query"), split("key"), split("value"));
        let scores = q.matmul(k.swap_last()) * (1.0 / ((width / heads) as f64).sqrt());
        let (row, column) = (graph.index([time, time], 0), graph.index([time, time], 1));
        let masked = column.less_equal(row).select(scores, graph.constant(-1e9));
        let mixed = masked.softmax().matmul(v).transpose(&[0, 2, 1, 3]);
        linear("output", mixed.reshape([batch, time, width]), width)
    });
    let x = x + attended;
    let fed = graph.scoped("feed", || {
        let y = linear("up", norm("norm", x), 4 * width).gelu();
        linear("down", y, width)
    });
    x + fed
}

/// A small language model's training step.
pub fn gpt(blocks: usize, batch: usize, time: usize, width: usize, vocabulary: usize) -> Graph {
    let graph = Graph::new();
    let tokens = graph.input("tokens", [batch, time], DType::U32);
    let labels = graph.input("labels", [batch, time], DType::U32);
    let mut x = graph.scoped("embedding", || {
        let table = graph.parameter("table", [vocabulary, width], Init::Ones);
        let places = graph.parameter("places", [time, width], Init::Ones);
        table.gather(tokens) + places
    });
    for index in 0..blocks {
        x = graph.scoped(&format!("blocks.{index}"), || block(x, 2));
    }
    let loss = linear("head", norm("norm", x), vocabulary).cross_entropy(labels);
    graph.output("loss", loss);
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    trained(&graph)
}

/// LayerNorm and RMSNorm in a row, with the gradients of their weights and of x.
pub fn norms(rows: usize, width: usize) -> Graph {
    let graph = Graph::new();
    let x = graph.state("x", [rows, width], Init::Zeros);
    let t = graph.input("t", [rows, width], DType::F32);
    let y = norm("layer", x);
    let y = graph.scoped("rms", || {
        y.rms_norm(graph.parameter("weight", [width], Init::Ones), 1e-5)
    });
    graph.output("loss", (y * t).mean_all());
    with_gradients(&graph)
}

#[test]
fn a_training_step_stays_equal() {
    let fills = [Fill::Uniform(0.1, 1.5)];
    check("mlp", &mlp(3, &[4, 5], 3), 3, &fills, 3);
    check("gpt", &gpt(2, 2, 3, 4, 5), 3, &fills, 3);
}

/// What the scheduler makes of the graphs, as a table.
#[test]
fn plans_are_no_worse() {
    let module = |build: for<'g> fn(Tensor<'g>) -> Tensor<'g>| {
        let graph = Graph::new();
        let x = graph.input("x", [512, 768], DType::F32);
        let w = graph.parameter("w", [768], Init::Ones);
        let y = build(x * w);
        let loss = (y * y.detach()).mean_all();
        graph.output("loss", loss);
        trained(&graph)
    };
    for (name, graph) in [
        ("softmax", module(|x| x.softmax())),
        ("layer norm", module(|x| norm("norm", x))),
        ("gelu", module(|x| x.gelu())),
        ("mlp", mlp(64, &[784, 256], 10)),
        ("mlp 3", mlp(256, &[784, 512, 512], 10)),
        ("gpt 2", gpt(2, 4, 64, 128, 512)),
    ] {
        let mut plans = Vec::new();
        for rewrites in [Rewrites::Off, Rewrites::Greedy, Rewrites::EGraph] {
            let (optimized, report) = optimize(&graph, rewrites, &CostModel::default());
            let plan = Plan::new(&optimized);
            plans.push((plan.kernels.len(), plan.bytes_moved(), plan.flops()));
            println!(
                "{name:12} {rewrites:?}: {} kernels, {:.2} MB, {:.1} Mflop, estimate {:.0} us",
                plan.kernels.len(),
                plan.bytes_moved() as f64 / 1e6,
                plan.flops() as f64 / 1e6,
                report.cost_after / 1e3,
            );
        }
        let (off, found) = (plans[0], plans[2]);
        // A coefficient moved to a sum over rows may cost a tiny kernel.
        assert!(found.0 <= off.0 + 2, "{name}: {found:?} and {off:?}");
        assert!(
            found.1 <= off.1 + off.1 / 50,
            "{name}: {found:?} and {off:?}"
        );
        assert!(found.2 < off.2, "{name}: {found:?} and {off:?}");
    }
}

/// Layers of equal structure cost their optimization once.
#[test]
fn depth_costs_no_saturation() {
    let model = CostModel::default();
    let mut regions = Vec::new();
    for (name, graph) in [
        ("mlp 784-256-10", mlp(64, &[784, 256], 10)),
        ("gpt 2", gpt(2, 4, 64, 128, 512)),
        ("gpt 6", gpt(6, 4, 64, 128, 512)),
        ("gpt 12", gpt(12, 4, 64, 128, 512)),
        ("gpt 48", gpt(48, 4, 64, 128, 512)),
    ] {
        for rewrites in [Rewrites::Greedy, Rewrites::EGraph] {
            let (optimized, report) = optimize(&graph, rewrites, &model);
            println!(
                "== {name} {rewrites:?}: {} nodes\n{report}",
                graph.nodes().len()
            );
            println!(
                "{:?}\n{:?}",
                model.estimate(&graph),
                model.estimate(&optimized)
            );
            if rewrites == Rewrites::EGraph {
                regions.push(report.regions);
            }
        }
    }
    assert!(
        regions[2..].iter().all(|count| *count == regions[2]),
        "{regions:?}"
    );
}
