//! Layers whose type is chosen at run time.

use super::{Layer, Settings};
use crate::ir::{Graph, Tensor};
use crate::walk::carry::{Rule, Walk, opaque};
use crate::walk::{Carry, Shapes, Value};

/// How a `Box<dyn Layer>` is made.
///
/// ```
/// use meganeura::prelude::*;
///
/// #[derive(Model)]
/// #[model(input(x: [batch, 4]))]
/// struct Net {
///     #[layer(make = || Box::new(Linear { out: 3, bias: true }))]
///     first: Box<dyn Layer>,
///     #[layer(out = 2)]
///     second: Linear,
/// }
///
/// let mut net = Net::new();
/// net.first = Box::new(Relu);
/// let graph = Graph::new();
/// assert_eq!(net.build(&graph, &[("batch", 5)])[0].shape().dims(), [5, 2]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Make {
    /// Makes the layer.
    pub make: fn() -> Box<dyn Layer>,
}

#[diagnostic::do_not_recommend]
impl Settings for Make {
    const BASE: Self = Make {
        // No layers at all: what comes in goes out.
        make: || Box::new(Vec::<Box<dyn Layer>>::new()),
    };
    const REQUIRED: &'static [&'static str] = &["make"];
}

impl<C: Value<Of = Make>, I: Carry> Walk<C, I> for Box<dyn Layer> {
    const OUT: &'static Shapes = &opaque::<C, I>(usize::MAX);
}

/// A layer of any type. What it puts out is known when the graph is built.
#[diagnostic::do_not_recommend]
impl Layer for Box<dyn Layer> {
    type Config = Make;
    type Rule<C: Value<Of = Make>, I: Carry> = Rule<Self, C, I>;

    fn from_config(config: Make) -> Self {
        (config.make)()
    }

    fn shape(&self, inputs: &Shapes) -> Shapes {
        (**self).shape(inputs)
    }

    fn output_names(&self) -> &'static [&'static str] {
        (**self).output_names()
    }

    fn forward<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        (**self).forward(graph, inputs)
    }
}

impl std::fmt::Debug for dyn Layer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("dyn Layer")
    }
}
