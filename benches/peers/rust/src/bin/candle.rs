//! The benchmark's workloads in candle, on the CPU.

use std::error::Error;

use candle_core::{D, DType, Device, Module, Result, Tensor, Var};
use candle_nn::{
    AdamW, Conv2d, Conv2dConfig, Embedding, Linear, Optimizer, ParamsAdamW, SGD, loss, ops,
    rotary_emb,
};
// Candle multiplies with this crate; naming it turns its fastest kernels on.
use gemm as _;
use meganeura_peers::{Arguments, Task, Workload, measure};

const CPU: Device = Device::Cpu;
const EPSILON: f32 = 1e-5;

/// The variables of a model, in the order they are made.
#[derive(Default)]
struct Variables(Vec<Var>);

impl Variables {
    fn keep(&mut self, variable: Var) -> Tensor {
        let tensor = variable.as_tensor().clone();
        self.0.push(variable);
        tensor
    }

    fn ones(&mut self, width: usize) -> Result<Tensor> {
        Ok(self.keep(Var::ones(width, DType::F32, &CPU)?))
    }

    /// Uniform within one over the root of the inputs' number.
    fn uniform(&mut self, shape: &[usize], inputs: usize) -> Result<Tensor> {
        let bound = 1.0 / (inputs as f32).sqrt();
        Ok(self.keep(Var::rand(-bound, bound, shape, &CPU)?))
    }

    fn linear(&mut self, inputs: usize, outputs: usize, bias: bool) -> Result<Linear> {
        let weight = self.uniform(&[outputs, inputs], inputs)?;
        let bias = match bias {
            true => Some(self.uniform(&[outputs], inputs)?),
            false => None,
        };
        Ok(Linear::new(weight, bias))
    }

    fn convolution(&mut self, inputs: usize, outputs: usize) -> Result<Conv2d> {
        let weight = self.uniform(&[outputs, inputs, 3, 3], inputs * 9)?;
        let bias = self.uniform(&[outputs], inputs * 9)?;
        let config = Conv2dConfig {
            padding: 1,
            ..Conv2dConfig::default()
        };
        Ok(Conv2d::new(weight, Some(bias), config))
    }

    fn adamw(&self, rate: f64) -> Result<Update> {
        let settings = ParamsAdamW {
            lr: rate,
            ..ParamsAdamW::default()
        };
        Ok(Update::AdamW(AdamW::new(self.0.clone(), settings)?))
    }
}

enum Update {
    None,
    Sgd(SGD),
    AdamW(AdamW),
}

type Loss = Box<dyn Fn() -> Result<Tensor>>;

/// Labels below a bound.
fn labels(count: usize, bound: u32) -> Result<Tensor> {
    let drawn = Tensor::rand(0f32, bound as f32, count, &CPU)?.floor()?;
    drawn.clamp(0f32, (bound - 1) as f32)?.to_dtype(DType::U32)
}

fn classifier(inputs: Tensor, model: impl Fn(&Tensor) -> Result<Tensor> + 'static) -> Result<Loss> {
    let labels = labels(inputs.dim(0)?, 10)?;
    Ok(Box::new(move || {
        loss::cross_entropy(&model(&inputs)?, &labels)
    }))
}

fn mlp(variables: &mut Variables) -> Result<(Loss, Update)> {
    let hidden = variables.linear(784, 128, true)?;
    let scores = variables.linear(128, 10, true)?;
    let inputs = Tensor::rand(0f32, 1f32, (64, 784), &CPU)?;
    let loss = classifier(inputs, move |x| scores.forward(&hidden.forward(x)?.relu()?))?;
    Ok((loss, Update::Sgd(SGD::new(variables.0.clone(), 0.01)?)))
}

fn mlpbig(variables: &mut Variables) -> Result<(Loss, Update)> {
    let first = variables.linear(784, 1024, true)?;
    let second = variables.linear(1024, 1024, true)?;
    let scores = variables.linear(1024, 10, true)?;
    let inputs = Tensor::rand(0f32, 1f32, (256, 784), &CPU)?;
    let loss = classifier(inputs, move |x| {
        scores.forward(&second.forward(&first.forward(x)?.relu()?)?.relu()?)
    })?;
    Ok((loss, variables.adamw(1e-3)?))
}

fn cnn(variables: &mut Variables) -> Result<(Loss, Update)> {
    let first = variables.convolution(1, 32)?;
    let second = variables.convolution(32, 64)?;
    let hidden = variables.linear(3136, 128, true)?;
    let scores = variables.linear(128, 10, true)?;
    let inputs = Tensor::rand(0f32, 1f32, (64, 1, 28, 28), &CPU)?;
    let loss = classifier(inputs, move |x| {
        let x = first.forward(x)?.relu()?.max_pool2d(2)?;
        let x = second.forward(&x)?.relu()?.max_pool2d(2)?;
        scores.forward(&hidden.forward(&x.flatten_from(1)?)?.relu()?)
    })?;
    Ok((loss, variables.adamw(1e-3)?))
}

// Candle's fused norms, softmax and rotations have no gradient: these are the ones that do.
fn rms_norm(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    ops::rms_norm_slow(x, weight, EPSILON)
}

/// Sizes of the language model.
const WIDTH: usize = 288;
const HEADS: usize = 6;
const HIDDEN: usize = 768;
const TIME: usize = 256;
const BATCH: usize = 4;
const VOCABULARY: usize = 4096;

/// What all blocks share: rotations, and what hides later positions.
struct Positions {
    cosines: Tensor,
    sines: Tensor,
    mask: Tensor,
}

impl Positions {
    fn new() -> Result<Positions> {
        let half = WIDTH / HEADS / 2;
        let frequency = |pair: usize| 10000f32.powf(-(pair as f32) / half as f32);
        let angles: Vec<f32> = (0..TIME)
            .flat_map(|time| (0..half).map(move |pair| time as f32 * frequency(pair)))
            .collect();
        let angles = Tensor::from_vec(angles, (TIME, half), &CPU)?;
        let hidden = |from, to| if to > from { f32::NEG_INFINITY } else { 0.0 };
        let mask: Vec<f32> = (0..TIME)
            .flat_map(|from| (0..TIME).map(move |to| hidden(from, to)))
            .collect();
        Ok(Positions {
            cosines: angles.cos()?,
            sines: angles.sin()?,
            mask: Tensor::from_vec(mask, (TIME, TIME), &CPU)?,
        })
    }
}

struct Block {
    attention_norm: Tensor,
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    mlp_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new(variables: &mut Variables) -> Result<Block> {
        Ok(Block {
            attention_norm: variables.ones(WIDTH)?,
            query: variables.linear(WIDTH, WIDTH, false)?,
            key: variables.linear(WIDTH, WIDTH, false)?,
            value: variables.linear(WIDTH, WIDTH, false)?,
            out: variables.linear(WIDTH, WIDTH, false)?,
            mlp_norm: variables.ones(WIDTH)?,
            gate: variables.linear(WIDTH, HIDDEN, false)?,
            up: variables.linear(WIDTH, HIDDEN, false)?,
            down: variables.linear(HIDDEN, WIDTH, false)?,
        })
    }

    fn attend(&self, x: &Tensor, positions: &Positions) -> Result<Tensor> {
        let (batch, time, width) = x.dims3()?;
        let head = width / HEADS;
        let heads = |linear: &Linear| {
            let split = linear.forward(x)?.reshape((batch, time, HEADS, head))?;
            split.transpose(1, 2)?.contiguous()
        };
        let rotate = |x: Tensor| rotary_emb::rope_i_slow(&x, &positions.cosines, &positions.sines);
        let query = (rotate(heads(&self.query)?)? * (1.0 / (head as f64).sqrt()))?;
        let key = rotate(heads(&self.key)?)?;
        let scores = query.matmul(&key.t()?)?.broadcast_add(&positions.mask)?;
        let mixed = ops::softmax(&scores, D::Minus1)?.matmul(&heads(&self.value)?)?;
        self.out
            .forward(&mixed.transpose(1, 2)?.reshape((batch, time, width))?)
    }

    fn forward(&self, x: &Tensor, positions: &Positions) -> Result<Tensor> {
        let x = (x + self.attend(&rms_norm(x, &self.attention_norm)?, positions)?)?;
        let normed = rms_norm(&x, &self.mlp_norm)?;
        let hidden = (self.gate.forward(&normed)?.silu()? * self.up.forward(&normed)?)?;
        &x + self.down.forward(&hidden)?
    }
}

fn gpt(variables: &mut Variables) -> Result<(Loss, Update)> {
    let table = variables.keep(Var::randn(0f32, 1f32, (VOCABULARY, WIDTH), &CPU)?);
    let embedding = Embedding::new(table, WIDTH);
    let blocks = (0..6)
        .map(|_| Block::new(variables))
        .collect::<Result<Vec<_>>>()?;
    let norm = variables.ones(WIDTH)?;
    let logits = variables.linear(WIDTH, VOCABULARY, false)?;
    let positions = Positions::new()?;
    let tokens = labels(BATCH * TIME, VOCABULARY as u32)?.reshape((BATCH, TIME))?;
    let targets = labels(BATCH * TIME, VOCABULARY as u32)?;
    let loss = move || {
        let mut x = embedding.forward(&tokens)?;
        for block in &blocks {
            x = block.forward(&x, &positions)?;
        }
        let scores = logits.forward(&rms_norm(&x, &norm)?)?;
        loss::cross_entropy(&scores.flatten(0, 1)?, &targets)
    };
    Ok((Box::new(loss), variables.adamw(3e-4)?))
}

fn norms(variables: &mut Variables) -> Result<(Loss, Update)> {
    let (scale, rms_scale) = (variables.ones(768)?, variables.ones(768)?);
    let shift = variables.keep(Var::zeros(768, DType::F32, &CPU)?);
    let x = variables.keep(Var::randn(0f32, 1f32, (4096, 768), &CPU)?);
    let weights = Tensor::randn(0f32, 1f32, (4096, 768), &CPU)?;
    let loss = move || {
        let normed = ops::layer_norm_slow(&x, &scale, &shift, EPSILON)?;
        (rms_norm(&normed, &rms_scale)? * &weights)?.mean_all()
    };
    Ok((Box::new(loss), Update::None))
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments = Arguments::read();
    let mut variables = Variables::default();
    let (loss, mut update) = match arguments.workload {
        Workload::Mlp => mlp(&mut variables)?,
        Workload::Mlpbig => mlpbig(&mut variables)?,
        Workload::Cnn => cnn(&mut variables)?,
        Workload::Gpt => gpt(&mut variables)?,
        Workload::Norms => norms(&mut variables)?,
    };
    let step = move || {
        let loss = loss()?;
        let gradients = loss.backward()?;
        match &mut update {
            Update::None => drop(std::hint::black_box(gradients)),
            Update::Sgd(sgd) => sgd.step(&gradients)?,
            Update::AdamW(adamw) => adamw.step(&gradients)?,
        }
        Ok(loss)
    };
    let task = Task {
        step: Box::new(step),
        read: |loss: Tensor| Ok(loss.to_scalar::<f32>()?),
        parameters: variables
            .0
            .iter()
            .map(|variable| variable.elem_count())
            .sum(),
    };
    measure("candle", &arguments, task)
}
