//! What `#[derive(Model)]` targets: layers, models, and what describes them.
//!
//! A [`Layer`] is a plain description (`Linear { out: 128, bias: true }`) that knows how to build its
//! part of a graph. It owns no numbers: parameters belong to the session and are named by the path of
//! fields that leads to them. A [`Model`] is a layer with named inputs.
//!
//! A layer of your own is one `impl` under [`macro@crate::layer`]:
//!
//! ```
//! use meganeura::prelude::*;
//!
//! /// Multiplies by a number.
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! struct Scale {
//!     by: f32,
//! }
//!
//! #[layer]
//! impl Layer for Scale {
//!     const BASE: Self = Scale { by: 1.0 };
//!
//!     const fn shape(&self, x: &Shapes) -> Shapes {
//!         x.same()
//!     }
//!
//!     fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
//!         x * f64::from(self.by)
//!     }
//! }
//!
//! #[derive(Model)]
//! #[model(input(x: [batch, 4]), output = [batch, 4])]
//! struct Halved {
//!     #[layer(by = 0.5)]
//!     half: Scale,
//! }
//!
//! let graph = Graph::new();
//! let outputs = Halved::new().build(&graph, &[("batch", 2)]);
//! assert_eq!(outputs[0].shape().dims(), [2, 4]);
//! ```

mod build;
mod compose;
mod opaque;
mod run;
mod summary;

pub use opaque::Make;
pub use run::{Flow, Run};
pub use summary::{Row, Summary};

use crate::ir::{Graph, GraphError, Tensor};
use crate::walk::{Carry, Shapes, TensorSpec, Value};

/// What `#[layer(setting = value)]` sets: the configuration of a layer.
///
/// Plain data with a value to start from. For a leaf layer it is the layer itself; for a derived model
/// it holds what stands in `config(...)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the configuration of a layer",
    label = "not a configuration",
    note = "`config = ...` takes the configuration of another layer: `config = L::Config`"
)]
pub trait Settings: Copy + 'static {
    /// All settings as they are when nobody sets them.
    const BASE: Self;
    /// The settings that somebody must set.
    const REQUIRED: &'static [&'static str] = &[];

    #[doc(hidden)]
    fn copied(&self) -> Option<Self> {
        Some(*self)
    }
}

/// The configuration type of a layer.
pub type ConfigOf<L> = <L as Layer>::Config;

/// Anything that maps tensors to tensors and owns parameters.
///
/// Do not implement it by hand: put [`#[layer]`](macro@crate::layer) on the `impl` block of a leaf
/// layer, and derive [`Model`](macro@crate::Model) for a composition of layers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer",
    label = "not a layer",
    note = "mark a field that is no layer with `#[layer(skip)]`; make a layer of your own type with `#[layer] impl Layer for ...`, or derive `Model` for it"
)]
pub trait Layer: 'static {
    /// What `#[layer(setting = value)]` sets.
    type Config: Settings
    where
        Self: Sized;

    /// The shape rule, as a function from what carries a configuration and what carries the inputs'
    /// shapes to what carries the outputs' shapes.
    type Rule<C: Value<Of = Self::Config>, I: Carry>: Carry
    where
        Self: Sized;

    /// The layer with this configuration.
    fn from_config(config: Self::Config) -> Self
    where
        Self: Sized;

    /// The configuration, if the layer still knows it: a leaf layer does, a model has only its
    /// fields.
    fn config(&self) -> Option<Self::Config>
    where
        Self: Sized,
    {
        None
    }

    /// The shape rule on numbers, as it runs when a graph is built.
    fn shape(&self, inputs: &Shapes) -> Shapes {
        let _ = inputs;
        Shapes::UNKNOWN
    }

    /// The names of what is put out, where they have names.
    fn output_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// The name of the layer's type.
    fn kind(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// Builds the layer's part of the graph.
    fn forward<'g>(&self, graph: &'g Graph, inputs: &[Tensor<'g>]) -> Vec<Tensor<'g>>;
}

/// A layer as a part of a model: all that generated code asks of a field's type.
///
/// It stands for [`Layer`], so that a type that is none gives one error, without a list of all layers
/// there are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer",
    label = "not a layer",
    note = "mark a field that is no layer with `#[layer(skip)]`; make a layer of your own type with `#[layer] impl Layer for ...`, or derive `Model` for it"
)]
#[doc(hidden)]
pub trait Part: Sized {
    /// [`Layer::Config`]
    type Config: Settings;
    /// [`Layer::Rule`]
    type Rule<C: Value<Of = Self::Config>, I: Carry>: Carry;
    /// [`Layer::from_config`]
    fn from_config(config: Self::Config) -> Self;
    /// [`Layer::config`]
    fn config(&self) -> Option<Self::Config>;
    /// As one of any type.
    fn as_dyn(&self) -> &dyn Layer;
}

#[diagnostic::do_not_recommend]
impl<L: Layer> Part for L {
    type Config = L::Config;
    type Rule<C: Value<Of = L::Config>, I: Carry> = L::Rule<C, I>;

    fn from_config(config: L::Config) -> L {
        L::from_config(config)
    }

    fn config(&self) -> Option<L::Config> {
        Layer::config(self)
    }

    fn as_dyn(&self) -> &dyn Layer {
        self
    }
}

/// A layer with named inputs, of which a session can make a graph by itself.
///
/// Derived for structs and enums with [`#[derive(Model)]`](macro@crate::Model).
pub trait Model: Layer + Sized {
    /// The inputs as declared; names from `config(...)` stand for themselves, like free names.
    const INPUTS: &'static [TensorSpec];

    /// The outputs as declared; empty when the model does not say what it puts out.
    const OUTPUTS: &'static [TensorSpec];

    /// The names from `config(...)` that shapes of inputs and outputs use.
    const SETTINGS: &'static [&'static str] = &[];

    /// The inputs with the sizes that this description fixes.
    fn inputs(&self) -> Vec<TensorSpec> {
        self.inputs_with(&[])
    }

    /// The outputs with the sizes that this description fixes.
    fn outputs(&self) -> Vec<TensorSpec> {
        self.outputs_with(&[])
    }

    /// The inputs, with numbers for settings that the description does not keep.
    fn inputs_with(&self, sizes: &[(&str, usize)]) -> Vec<TensorSpec> {
        let _ = sizes;
        Self::INPUTS.to_vec()
    }

    /// The outputs, with numbers for settings that the description does not keep.
    fn outputs_with(&self, sizes: &[(&str, usize)]) -> Vec<TensorSpec> {
        let _ = sizes;
        Self::OUTPUTS.to_vec()
    }

    /// Builds the model into `graph` with inputs of its own, given a number for every free dim:
    ///
    /// ```
    /// use meganeura::prelude::*;
    ///
    /// #[derive(Model)]
    /// #[model(input(pixels: [batch, 64]), output = [batch, 10])]
    /// struct Digits {
    ///     #[layer(out = 128)]
    ///     hidden: (Linear, Relu),
    ///     #[layer(out = 10)]
    ///     scores: Linear,
    /// }
    ///
    /// let graph = Graph::new();
    /// let scores = Digits::new().build(&graph, &[("batch", 32)]);
    /// assert_eq!(scores[0].shape().dims(), [32, 10]);
    ///
    /// let graph = Graph::new();
    /// Digits::new().build(&graph, &[]);
    /// assert_eq!(
    ///     graph.errors()[0].to_string(),
    ///     "the free dim `batch` has no number: bind it, as in &[(\"batch\", 32)]"
    /// );
    /// ```
    ///
    /// What goes wrong is in [`Graph::errors`], with the path of the layer.
    fn build<'g>(&self, graph: &'g Graph, dims: &[(&str, usize)]) -> Vec<Tensor<'g>> {
        build::build(self, graph, dims)
    }

    /// A table of all layers, what they put out, and how many parameters they have:
    ///
    /// ```
    /// # use meganeura::prelude::*;
    /// # #[derive(Model)]
    /// # #[model(input(pixels: [batch, 64]), output = [batch, 10])]
    /// # struct Digits {
    /// #     #[layer(out = 128)]
    /// #     hidden: (Linear, Relu),
    /// #     #[layer(out = 10)]
    /// #     scores: Linear,
    /// # }
    /// let summary = Digits::new().summary(&[("batch", 32)]).unwrap();
    /// assert_eq!(summary.parameters(), 9610);
    /// assert_eq!(
    ///     summary.to_string(),
    ///     "\
    /// layer       type            puts out   parameters  bytes
    /// hidden      (Linear, Relu)  [32, 128]        8320  33280
    ///   hidden.0  Linear          [32, 128]        8320  33280
    ///   hidden.1  Relu            [32, 128]           0      0
    /// scores      Linear          [32, 10]         1290   5160
    /// total                                        9610  38440
    /// "
    /// );
    /// ```
    ///
    /// # Errors
    /// All that goes wrong when the graph is built.
    fn summary(&self, dims: &[(&str, usize)]) -> Result<Summary, Vec<GraphError>> {
        let graph = Graph::new();
        self.build(&graph, dims);
        match graph.errors() {
            errors if errors.is_empty() => Ok(Summary::new(&graph)),
            errors => Err(errors),
        }
    }
}

/// Parameters of another layer may serve this one: `#[layer(tie(embed))]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot share the parameters of `{Source}`",
    label = "cannot be tied to this field",
    note = "a layer can be tied to one of the same type, or to one for which it implements `Tie`"
)]
pub trait Tie<Source: Layer>: Layer + Sized {
    /// The configuration that follows from that of the source.
    type Tied<C: Value<Of = Source::Config>>: Value<Of = Self::Config>;

    /// The configuration that follows from that of the source.
    fn tie(source: Source::Config) -> Self::Config;
}

/// Layers of one type can share their parameters.
impl<L: Layer> Tie<L> for L {
    type Tied<C: Value<Of = L::Config>> = C;

    fn tie(source: L::Config) -> L::Config {
        source
    }
}

/// The configuration of several layers in a row: what `repeat(n)` sets on a `Vec`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetition<T> {
    /// How many there are.
    pub count: usize,
    /// What each of them is like.
    pub each: T,
}

#[diagnostic::do_not_recommend]
impl<T: Settings> Settings for Repetition<T> {
    const BASE: Self = Repetition {
        count: 0,
        each: T::BASE,
    };
    const REQUIRED: &'static [&'static str] = T::REQUIRED;
}

#[diagnostic::do_not_recommend]
impl<T: Settings> Settings for Option<T> {
    const BASE: Self = Some(T::BASE);
    const REQUIRED: &'static [&'static str] = T::REQUIRED;
}
