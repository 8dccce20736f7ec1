//! Optimizers, as graph: an update is ordinary elementwise work on a parameter, its gradient
//! and its moments, so that it can share a kernel with the gradient it consumes.

use crate::ir::{DType, Graph, Init, Tensor};

/// How parameters follow their gradients.
pub trait Optimizer {
    /// Add to the graph what makes a parameter's next value of its gradient. `name` is the
    /// parameter's path, free to name moments after.
    fn update<'g>(&self, graph: &'g Graph, name: &str, parameter: Tensor<'g>, gradient: Tensor<'g>);

    /// The numbers that change from step to step, by input name; the first step is 1.
    fn inputs(&self, step: u64) -> Vec<(&'static str, f32)>;

    /// Use another learning rate from the next step on.
    fn set_learning_rate(&mut self, learning_rate: f64);

    /// The learning rate in use.
    fn learning_rate(&self) -> f64;
}

const LEARNING_RATE: &str = "optimizer.learning_rate";
const FIRST_CORRECTION: &str = "optimizer.first_correction";
const SECOND_CORRECTION: &str = "optimizer.second_correction";

/// A scalar that the trainer gives at each step; one for the whole graph.
fn scalar<'g>(graph: &'g Graph, name: &str) -> Tensor<'g> {
    let known = graph.inputs().into_iter().find(|(input, _)| input == name);
    match known {
        Some((_, id)) => graph.tensor(id),
        None => graph.input(name, [], DType::F32),
    }
}

/// Stochastic gradient descent, with the conventions of PyTorch: weight decay is added to the
/// gradient, the momentum buffer starts at the first gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// Step size.
    pub learning_rate: f64,
    /// How much of the last direction stays; 0 keeps no buffer.
    pub momentum: f64,
    /// Look ahead along the new direction (Nesterov).
    pub nesterov: bool,
    /// L2 penalty.
    pub weight_decay: f64,
}

impl Sgd {
    /// Plain descent.
    pub fn new(learning_rate: f64) -> Sgd {
        Sgd {
            learning_rate,
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
        }
    }

    /// With momentum.
    pub fn momentum(self, momentum: f64) -> Sgd {
        Sgd { momentum, ..self }
    }
}

impl Optimizer for Sgd {
    fn update<'g>(
        &self,
        graph: &'g Graph,
        name: &str,
        parameter: Tensor<'g>,
        gradient: Tensor<'g>,
    ) {
        let mut direction = gradient;
        if self.weight_decay != 0.0 {
            direction = direction + parameter * self.weight_decay;
        }
        if self.momentum != 0.0 {
            // Zeros times the momentum, plus the first gradient, is the first gradient.
            let buffer = graph.state(&format!("{name}.momentum"), parameter.shape(), Init::Zeros);
            let moved = buffer * self.momentum + direction;
            graph.update(buffer, moved);
            direction = if self.nesterov {
                direction + moved * self.momentum
            } else {
                moved
            };
        }
        graph.update(
            parameter,
            parameter - direction * scalar(graph, LEARNING_RATE),
        );
    }

    fn inputs(&self, _step: u64) -> Vec<(&'static str, f32)> {
        vec![(LEARNING_RATE, self.learning_rate as f32)]
    }

    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.learning_rate = learning_rate;
    }

    fn learning_rate(&self) -> f64 {
        self.learning_rate
    }
}

/// Adam (Kingma and Ba, 2015) with decoupled weight decay (Loshchilov and Hutter, 2019).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Step size.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Each step shrinks parameters by this times the learning rate.
    pub weight_decay: f64,
}

impl AdamW {
    /// With β = (0.9, 0.999), ε = 1e-8 and a weight decay of 0.01.
    pub fn new(learning_rate: f64) -> AdamW {
        AdamW {
            learning_rate,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.01,
        }
    }
}

impl Optimizer for AdamW {
    fn update<'g>(
        &self,
        graph: &'g Graph,
        name: &str,
        parameter: Tensor<'g>,
        gradient: Tensor<'g>,
    ) {
        let moment =
            |which: &str| graph.state(&format!("{name}.{which}"), parameter.shape(), Init::Zeros);
        let (first, second) = (moment("first_moment"), moment("second_moment"));
        let next_first = first * self.beta1 + gradient * (1.0 - self.beta1);
        let next_second = second * self.beta2 + gradient * gradient * (1.0 - self.beta2);
        graph.update(first, next_first);
        graph.update(second, next_second);
        let learning_rate = scalar(graph, LEARNING_RATE);
        // The corrections are 1/(1 − β₁ᵗ) and 1/√(1 − β₂ᵗ).
        let step = learning_rate * scalar(graph, FIRST_CORRECTION);
        let root = next_second.sqrt() * scalar(graph, SECOND_CORRECTION) + self.epsilon;
        let shrunk = parameter * (1.0 - learning_rate * self.weight_decay);
        graph.update(parameter, shrunk - step * next_first / root);
    }

    fn inputs(&self, step: u64) -> Vec<(&'static str, f32)> {
        let bias = |beta: f64| 1.0 - beta.powf(step as f64);
        vec![
            (LEARNING_RATE, self.learning_rate as f32),
            (FIRST_CORRECTION, (1.0 / bias(self.beta1)) as f32),
            (SECOND_CORRECTION, (1.0 / bias(self.beta2).sqrt()) as f32),
        ]
    }

    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.learning_rate = learning_rate;
    }

    fn learning_rate(&self) -> f64 {
        self.learning_rate
    }
}
