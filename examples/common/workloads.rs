//! Models whose plain form is slow: what a person writes down, not what should be computed.
//! The yardstick times them, and the tests of rewriting ask what became of them.

use meganeura::autodiff::gradients;
use meganeura::ir::Treatment;
use meganeura::ops::expand;
use meganeura::prelude::*;
use meganeura::train::{Optimizer, add_updates};

/// x·(W + A·B): a frozen weight, moved by a product of low rank that is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Adapted {
    out: usize,
    rank: usize,
}

#[layer]
impl Layer for Adapted {
    const BASE: Self = Adapted { out: 1, rank: 8 };
    const REQUIRED: &'static [&'static str] = &["out"];

    const fn shape(&self, x: &Shapes) -> Shapes {
        Shapes::one(x.first().with_last(Dim::of(self.out)))
    }

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let (graph, width) = (x.graph(), x.shape().last());
        let frozen = Treatment {
            frozen: true,
            ..Treatment::default()
        };
        let init = Init::KaimingUniform;
        let weight = graph.treated(&frozen, || {
            graph.parameter("weight", [width, self.out], init)
        });
        let down = graph.parameter("down", [width, self.rank], init);
        let up = graph.parameter("up", [self.rank, self.out], init);
        x.matmul(weight + down.matmul(up))
    }
}

/// A feed-forward net whose weights are adapted by products of low rank.
#[derive(Model)]
#[model(
    config(width: usize = 512, rank: usize = 8),
    input(x: [rows, width]),
    output = [rows, width],
)]
struct Lora {
    #[layer(out = width, rank = rank)]
    first: (Adapted, Gelu),
    #[layer(out = width, rank = rank)]
    second: Adapted,
}

/// (Q·Kᵀ)·V / n: attention without the softmax.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unnormalized;

#[layer]
impl Layer for Unnormalized {
    const BASE: Self = Unnormalized;

    fn forward<'g>(&self, q: Tensor<'g>, k: Tensor<'g>, v: Tensor<'g>) -> Tensor<'g> {
        let positions = k.shape().dims()[1] as f64;
        q.matmul(k.swap_last()).matmul(v) / positions
    }
}

#[derive(Model)]
#[model(
    input(q: [heads, time, width], k: [heads, time, width], v: [heads, time, width]),
    output = [heads, time, width],
)]
struct LinearAttention {
    #[layer(from(q, k, v))]
    mix: Unnormalized,
}

/// The mean over all positions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MeanOverTime;

#[layer]
impl Layer for MeanOverTime {
    const BASE: Self = MeanOverTime;

    fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
        let [batch, _, width] = *x.shape().dims() else {
            return x.graph().fail("takes [batch, time, width]");
        };
        x.mean(&[1]).reshape([batch, width])
    }
}

#[derive(Model)]
#[model(
    config(out: usize = 512),
    input(x: [batch, time, width]),
    output = [batch, out],
)]
struct MeanPool {
    #[layer(out = out)]
    project: Linear,
    pool: MeanOverTime,
}

/// A training step of [`Lora`]: the mean squared error to `t`, and the updates.
pub fn lora(rows: usize, width: usize, rank: usize, optimizer: &dyn Optimizer) -> Graph {
    let model = Lora::with(|config| {
        config.width = width;
        config.rank = rank;
    });
    trained(&model, &[("rows", rows)], optimizer)
}

/// [`LinearAttention`] on state, its mean product with `t`, and the gradients of `q`, `k` and
/// `v`.
pub fn linear_attention(heads: usize, time: usize, width: usize) -> Graph {
    let graph = Graph::new();
    let normal = Init::Normal {
        mean: 0.0,
        std: 1.0,
    };
    let shape = [heads, time, width];
    let operands = ["q", "k", "v"].map(|name| graph.state(name, shape, normal));
    let t = graph.input("t", shape, DType::F32);
    let y = LinearAttention::new().forward(&graph, &operands);
    graph.output("loss", (y[0] * t).mean_all());
    with_gradients(&graph)
}

/// A training step of [`MeanPool`].
pub fn mean_pool(
    [batch, time]: [usize; 2],
    [width, out]: [usize; 2],
    optimizer: &dyn Optimizer,
) -> Graph {
    let model = MeanPool::with(|config| config.out = out);
    let dims = [("batch", batch), ("time", time), ("width", width)];
    trained(&model, &dims, optimizer)
}

/// A model that is to put out `t`, with the updates of its parameters.
fn trained<M: Model>(model: &M, dims: &[(&str, usize)], optimizer: &dyn Optimizer) -> Graph {
    let graph = Graph::new();
    let y = model.build(&graph, dims)[0];
    let t = graph.input("t", y.shape(), DType::F32);
    graph.output("loss", y.mean_squared_error(t));
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    let (graph, _) = expand(&graph);
    add_updates(&graph, optimizer);
    graph
}

/// The graph in primitives, with the gradients of its `loss` by all its variables.
pub fn with_gradients(graph: &Graph) -> Graph {
    let (graph, _) = expand(graph);
    let outputs = graph.outputs();
    let Some((_, loss)) = outputs.iter().find(|(name, _)| name == "loss") else {
        return graph;
    };
    let variables = graph.variables();
    let sources: Vec<Tensor<'_>> = variables.iter().map(|(_, id)| graph.tensor(*id)).collect();
    let seeds = [(graph.tensor(*loss), graph.constant(1.0))];
    for ((variable, _), gradient) in variables.iter().zip(gradients(&seeds, &sources)) {
        graph.output(&format!("gradient of {}", variable.name), gradient);
    }
    graph
}
