//! Operands for the conformance suite, from each op's own cases.

use std::collections::HashMap;

use meganeura::ir::{Array, Case, DType, Domain, Graph, OpDef, Shape, Tensor};

/// A small generator: the numbers only have to be spread out and the same every time.
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1))
    }

    /// Uniform in 0..1.
    pub fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
    }

    /// An array with elements of a domain, each exact in single precision.
    pub fn array(&mut self, shape: &Shape, domain: Domain) -> Array {
        Array::from_fn(shape, |_| match domain {
            Domain::Uniform(low, high) => f64::from((low + (high - low) * self.unit()) as f32),
            Domain::Integers(low, high) => {
                f64::from(low) + self.below((high - low + 1) as usize) as f64
            }
            Domain::Indices(bound) => self.below(bound as usize) as f64,
            Domain::Truth => self.below(2) as f64,
        })
    }
}

/// The element type that a domain stands for.
pub fn dtype(domain: Domain) -> DType {
    match domain {
        Domain::Indices(_) => DType::U32,
        Domain::Truth => DType::Bool,
        _ => DType::F32,
    }
}

/// One op applied in the middle of a graph: `output` is the op's result mixed with another
/// input, so that the upstream gradient of the op is not 1, and `upstream` is that of the
/// output.
pub struct Trial<'g> {
    /// What the op is applied to, as inputs of the graph.
    pub operands: Vec<Tensor<'g>>,
    /// The op's own result.
    pub result: Tensor<'g>,
    /// What the graph goes on with.
    pub output: Tensor<'g>,
    /// A random gradient of the output.
    pub upstream: Tensor<'g>,
}

/// Build the trial of a case; the values of its inputs come with it.
pub fn trial<'g>(
    graph: &'g Graph,
    def: &'static OpDef,
    case: &Case,
) -> (Trial<'g>, HashMap<String, Array>) {
    let mut random = Random::new(def.name.len() as u64 * 131 + case.operands.len() as u64);
    let mut values = HashMap::new();
    let mut operands = Vec::new();
    for (index, (shape, domain)) in case.operands.iter().enumerate() {
        let name = format!("x{index}");
        operands.push(graph.input(&name, shape, dtype(*domain)));
        values.insert(name, random.array(shape, *domain));
    }
    let result = graph.apply(def, case.attributes.clone(), &operands);
    let shape = result.shape();
    let mut output = result;
    let upstream = graph.input("upstream", &shape, DType::F32);
    values.insert(
        "upstream".to_owned(),
        random.array(&shape, Domain::Uniform(-2.0, 2.0)),
    );
    if result.dtype() == DType::F32 {
        let factor = graph.input("factor", &shape, DType::F32);
        values.insert(
            "factor".to_owned(),
            random.array(&shape, Domain::Uniform(0.5, 1.5)),
        );
        output = result * factor * -1.5;
    }
    (
        Trial {
            operands,
            result,
            output,
            upstream,
        },
        values,
    )
}

/// ‖a − b‖ / ‖b‖, or ‖a − b‖ where b is all but 0; infinite when one is NaN and not the other.
pub fn relative_error(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let mut difference = 0.0;
    for (a, b) in a.iter().zip(b) {
        if a.is_nan() != b.is_nan() {
            return f64::INFINITY;
        }
        if a != b && !a.is_nan() {
            difference += (a - b).powi(2);
        }
    }
    let norm = b
        .iter()
        .filter(|b| b.is_finite())
        .map(|b| b * b)
        .sum::<f64>()
        .sqrt();
    difference.sqrt() / norm.max(1e-3)
}
