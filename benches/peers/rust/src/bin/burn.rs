//! The benchmark's workloads in Burn, on its CPU backend.

use std::error::Error;

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig, PaddingConfig2d,
    RmsNorm, RmsNormConfig,
};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::activation::{relu, silu};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Distribution, Int, Tensor};
use meganeura_peers::{Arguments, Task, Workload, measure};

type Step = Task<Tensor<1>>;

fn uniform<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(0.0, 1.0), device)
}

fn normal(shape: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

/// Labels below a bound.
fn labels(count: usize, bound: i64, device: &Device) -> Tensor<1, Int> {
    let drawn = Tensor::<1>::random([count], Distribution::Uniform(0.0, bound as f64), device);
    drawn.floor().clamp(0.0, (bound - 1) as f64).int()
}

fn linear(inputs: usize, outputs: usize, bias: bool, device: &Device) -> Linear {
    LinearConfig::new(inputs, outputs)
        .with_bias(bias)
        .init(device)
}

/// PyTorch's settings of AdamW.
fn adamw() -> ModuleOptimizer {
    let config = AdamWConfig::new()
        .with_epsilon(1e-8)
        .with_weight_decay(0.01);
    config.init()
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    fn new(widths: &[usize], device: &Device) -> Mlp {
        let pairs = widths.windows(2);
        let layers = pairs.map(|pair| linear(pair[0], pair[1], true, device));
        Mlp {
            layers: layers.collect(),
        }
    }

    fn forward(&self, mut x: Tensor<2>) -> Tensor<2> {
        for (index, layer) in self.layers.iter().enumerate() {
            x = layer.forward(if index == 0 { x } else { relu(x) });
        }
        x
    }
}

#[derive(Module, Debug)]
struct Cnn {
    first: Conv2d,
    second: Conv2d,
    pool: MaxPool2d,
    head: Mlp,
}

impl Cnn {
    fn new(device: &Device) -> Cnn {
        let convolution = |inputs, outputs| {
            let config = Conv2dConfig::new([inputs, outputs], [3, 3]);
            config
                .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
                .init(device)
        };
        Cnn {
            first: convolution(1, 32),
            second: convolution(32, 64),
            pool: MaxPool2dConfig::new([2, 2]).init(),
            head: Mlp::new(&[3136, 128, 10], device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = self.pool.forward(relu(self.first.forward(x)));
        let x = self.pool.forward(relu(self.second.forward(x)));
        self.head.forward(x.flatten(1, 3))
    }
}

/// Sizes of the language model.
const WIDTH: usize = 288;
const HEADS: usize = 6;
const HIDDEN: usize = 768;
const TIME: usize = 256;
const BATCH: usize = 4;
const VOCABULARY: usize = 4096;

/// Rotations of neighbouring pairs; Burn's own go through a product and take longer.
#[derive(Clone)]
struct Rotation {
    cosines: Tensor<5>,
    sines: Tensor<5>,
}

impl Rotation {
    fn new(device: &Device) -> Rotation {
        let half = WIDTH / HEADS / 2;
        let along = |count: usize| Tensor::<1, Int>::arange(0..count as i64, device).float();
        let exponent = along(half).mul_scalar(-(10000f64.ln()) / half as f64);
        let angles = along(TIME).reshape([TIME, 1]) * exponent.exp().reshape([1, half]);
        let shape = [1, 1, TIME, half, 1];
        Rotation {
            cosines: angles.clone().cos().reshape(shape),
            sines: angles.sin().reshape(shape),
        }
    }

    fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let shape @ [batch, heads, time, head] = x.dims();
        let pairs: Tensor<5> = x.reshape([batch, heads, time, head / 2, 2]);
        let (even, odd) = (pairs.clone().narrow(4, 0, 1), pairs.narrow(4, 1, 1));
        let (cosines, sines) = (self.cosines.clone(), self.sines.clone());
        let first = even.clone() * cosines.clone() - odd.clone() * sines.clone();
        let second = even * sines + odd * cosines;
        Tensor::cat(vec![first, second], 4).reshape(shape)
    }
}

#[derive(Module, Debug)]
struct Block {
    attention_norm: RmsNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    mlp_norm: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(device: &Device) -> Block {
        let norm = || RmsNormConfig::new(WIDTH).init(device);
        let square = || linear(WIDTH, WIDTH, false, device);
        Block {
            attention_norm: norm(),
            query: square(),
            key: square(),
            value: square(),
            out: square(),
            mlp_norm: norm(),
            gate: linear(WIDTH, HIDDEN, false, device),
            up: linear(WIDTH, HIDDEN, false, device),
            down: linear(HIDDEN, WIDTH, false, device),
        }
    }

    fn attend(&self, x: Tensor<3>, rotation: &Rotation) -> Tensor<3> {
        let [batch, time, width] = x.dims();
        let heads = |linear: &Linear| {
            let split = linear.forward(x.clone());
            split
                .reshape([batch, time, HEADS, width / HEADS])
                .swap_dims(1, 2)
        };
        let query = rotation.apply(heads(&self.query));
        let key = rotation.apply(heads(&self.key));
        let options = AttentionModuleOptions {
            is_causal: true,
            ..AttentionModuleOptions::default()
        };
        let mixed = attention(query, key, heads(&self.value), None, None, options);
        self.out
            .forward(mixed.swap_dims(1, 2).reshape([batch, time, width]))
    }

    fn forward(&self, x: Tensor<3>, rotation: &Rotation) -> Tensor<3> {
        let x = x.clone() + self.attend(self.attention_norm.forward(x), rotation);
        let normed = self.mlp_norm.forward(x.clone());
        let hidden = silu(self.gate.forward(normed.clone())) * self.up.forward(normed);
        x + self.down.forward(hidden)
    }
}

#[derive(Module, Debug)]
struct Gpt {
    embedding: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
    logits: Linear,
}

impl Gpt {
    fn new(device: &Device) -> Gpt {
        Gpt {
            embedding: EmbeddingConfig::new(VOCABULARY, WIDTH).init(device),
            blocks: (0..6).map(|_| Block::new(device)).collect(),
            norm: RmsNormConfig::new(WIDTH).init(device),
            logits: linear(WIDTH, VOCABULARY, false, device),
        }
    }

    fn forward(&self, tokens: Tensor<2, Int>, rotation: &Rotation) -> Tensor<2> {
        let mut x = self.embedding.forward(tokens);
        for block in &self.blocks {
            x = block.forward(x, rotation);
        }
        self.logits.forward(self.norm.forward(x)).flatten(0, 1)
    }
}

#[derive(Module, Debug)]
struct Norms {
    layer: LayerNorm,
    rms: RmsNorm,
}

fn read(loss: Tensor<1>) -> Result<f32, Box<dyn Error>> {
    Ok(loss.into_scalar::<f32>())
}

/// A model that an optimizer improves.
fn training<M: Module + 'static>(
    model: M,
    rate: f64,
    mut optimizer: ModuleOptimizer,
    loss: impl Fn(&M) -> Tensor<1> + 'static,
) -> Step {
    let parameters = model.num_params();
    let mut kept = Some(model);
    let step = move || {
        let model = kept.take().ok_or("the step before failed")?;
        let loss = loss(&model);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        kept = Some(optimizer.step(rate, model, gradients));
        Ok(loss.detach())
    };
    Task {
        step: Box::new(step),
        read,
        parameters,
    }
}

/// A training step on a batch with ten classes.
fn classifier<M: Module + 'static, const D: usize>(
    model: M,
    shape: [usize; D],
    rate: f64,
    optimizer: ModuleOptimizer,
    forward: fn(&M, Tensor<D>) -> Tensor<2>,
    device: &Device,
) -> Step {
    let (inputs, labels) = (uniform(shape, device), labels(shape[0], 10, device));
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    training(model, rate, optimizer, move |model| {
        cross_entropy.forward(forward(model, inputs.clone()), labels.clone())
    })
}

fn gpt(device: &Device) -> Step {
    let tokens = labels(BATCH * TIME, VOCABULARY as i64, device).reshape([BATCH, TIME]);
    let targets = labels(BATCH * TIME, VOCABULARY as i64, device);
    let rotation = Rotation::new(device);
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    training(Gpt::new(device), 3e-4, adamw(), move |model| {
        cross_entropy.forward(model.forward(tokens.clone(), &rotation), targets.clone())
    })
}

fn norms(device: &Device) -> Step {
    let model = Norms {
        layer: LayerNormConfig::new(768).init(device),
        rms: RmsNormConfig::new(768).init(device),
    };
    let (inputs, weights) = (normal([4096, 768], device), normal([4096, 768], device));
    let parameters = model.num_params();
    let step = move || {
        let x = inputs.clone().detach().require_grad();
        let normed = model.rms.forward(model.layer.forward(x.clone()));
        let loss = (normed * weights.clone()).mean();
        let gradients = loss.backward();
        let of_inputs = x.grad(&gradients);
        std::hint::black_box((of_inputs, GradientsParams::from_grads(gradients, &model)));
        Ok(loss.detach())
    };
    Task {
        step: Box::new(step),
        read,
        parameters,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read();
    let device = Device::flex().autodiff();
    let device = &device;
    let task = match arguments.workload {
        Workload::Mlp => {
            let model = Mlp::new(&[784, 128, 10], device);
            let sgd = SgdConfig::new().init();
            classifier(model, [64, 784], 0.01, sgd, Mlp::forward, device)
        }
        Workload::Mlpbig => {
            let model = Mlp::new(&[784, 1024, 1024, 10], device);
            classifier(model, [256, 784], 1e-3, adamw(), Mlp::forward, device)
        }
        Workload::Cnn => {
            let model = Cnn::new(device);
            classifier(model, [64, 1, 28, 28], 1e-3, adamw(), Cnn::forward, device)
        }
        Workload::Gpt => gpt(device),
        Workload::Norms => norms(device),
    };
    measure("burn", &arguments, task)
}
