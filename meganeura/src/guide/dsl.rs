//! The model language: a model is a struct.
//!
//! A struct's fields describe layers. `#[derive(Model)]` gives it a constructor and the code that builds
//! its graph, and lets the compiler check the shapes.
//!
//! ```
//! use meganeura::prelude::*;
//!
//! /// 64 pixels → 10 class scores.
//! #[derive(Model)]
//! #[model(input(pixels: [batch, 64]), output = [batch, 10])]
//! struct Digits {
//!     #[layer(out = 128)]
//!     hidden: (Linear, Relu),
//!     #[layer(out = 10)]
//!     scores: Linear,
//! }
//!
//! let model = Digits::new();
//! let graph = Graph::new();
//! let scores = model.build(&graph, &[("batch", 32)]);
//! assert_eq!(scores[0].shape().dims(), [32, 10]);
//! println!("{}", model.summary(&[("batch", 32)]).unwrap());
//! ```
//!
//! Read it as a pipeline. `input(...)` names what flows in. **Fields run in order, and each takes what
//! the field before it puts out.** `output` says what must come out in the end. `batch` is a free dim: it
//! gets its number when the graph is built. The width that comes into a layer is never written down; it
//! is whatever flows in. A tuple is a sequence, and its settings go to its first layer.
//!
//! The model owns no numbers. Parameters belong to whoever runs it, and are named by the path of fields
//! that leads to them: `hidden.0.weight`, `scores.bias`.
//!
//! # Settings and words
//!
//! There are two kinds of things in `#[layer(...)]`, and they never clash:
//!
//! - **`name = value` is a setting of the layer**, a field of its description. `out = 128` sets
//!   [`Linear::out`](crate::layers::Linear::out). Which settings there are is the layer's business; the
//!   language knows none of them, so a layer of yours is no less than one of ours.
//! - **`word` and `word(...)` belong to the language.** There are eleven:
//!
//! | word | meaning |
//! |---|---|
//! | `from(a, b)` | takes these values: inputs, earlier fields, outputs of fields like `split.0` or `encoder.memory` |
//! | `residual` | adds what flows in to what comes out |
//! | `add(x)` | adds `x` to what comes out |
//! | `repeat(n)` | on a `Vec<L>`: `n` of them in a row |
//! | `when(condition)` | on an `Option<L>`: there or not; where it is not, the input goes through |
//! | `tie(field)` | uses the parameters of an earlier field |
//! | `rename("h.{i}")` | stands under this path instead of the field's name; `""` for none; see [names](#names) |
//! | `freeze` | its parameters are kept, not trained |
//! | `init(KaimingNormal)` | its weights start like this; any [`Init`](crate::ir::Init), and `Kaiming` and `Xavier` for short |
//! | `recompute` | what is computed inside is computed again in the backward pass instead of kept; in a repetition, element by element |
//! | `skip` | the field is no layer; it starts as its type's `Default` |
//!
//! ```
//! # use meganeura::prelude::*;
//! #[derive(Model)]
//! #[model(input(x: [batch, 16]), output = [batch, 16])]
//! struct Branches {
//!     #[layer(residual, out = 16)]
//!     first: PreNorm<Linear>,
//!     #[layer(out = 16)]
//!     left: (Linear, Gelu),
//!     #[layer(from(first), out = 16, add(left))]
//!     right: Linear,
//!     #[layer(from(left, right))]
//!     product: Multiply,
//!     #[layer(skip)]
//!     note: String,
//! }
//! # assert!(Branches::new().summary(&[("batch", 1)]).is_ok());
//! ```
//!
//! # Settings of a model
//!
//! `config(...)` lists what a model can be asked for. The names can be used in the settings of its fields
//! and in shapes. Used as a field, the model is set like any other layer:
//!
//! ```
//! use meganeura::prelude::*;
//!
//! #[derive(Model)]
//! #[model(config(width: usize = 288, hidden: usize = 768), input(x: [batch, time, width]))]
//! struct Block {
//!     #[layer(residual, out = width)]
//!     mix: PreNorm<Linear>,
//!     #[layer(residual, hidden = hidden)]
//!     mlp: PreNorm<SwiGlu>,
//! }
//!
//! #[derive(Model)]
//! #[model(
//!     config(vocab: usize = 4096, width: usize = 288, hidden: usize = 768, depth: usize = 6),
//!     input(tokens: [batch, time] as u32),
//!     output = [batch, time, vocab],
//! )]
//! struct Gpt {
//!     #[layer(rows = vocab, width = width)]
//!     embed: Embedding,
//!     #[layer(repeat(depth), width = width, hidden = hidden)]
//!     blocks: Vec<Block>,
//!     norm: RmsNorm,
//!     #[layer(tie(embed))]
//!     logits: Unembedding,
//! }
//!
//! // `new` takes what has no default (here nothing), `with` changes the rest.
//! let small = Gpt::with(|config| {
//!     config.depth = 2;
//!     config.width = 32;
//! });
//! assert_eq!(small.blocks.len(), 2);
//! let logits = &small.summary(&[("batch", 1), ("time", 8)]).unwrap();
//! assert_eq!(logits.rows.last().unwrap().outputs[0].dims(), [1, 8, 4096]);
//! ```
//!
//! A setting is a constant expression over literals, constants, const generics and names from `config`.
//! A value that is known only at run time enters through `config`, by `new` or `with`. A name without a
//! default is required: the reader hears so where it is forgotten.
//!
//! ```compile_fail
//! # use meganeura::prelude::*;
//! #[derive(Model)]
//! #[model(config(width: usize), input(x: [batch, width]))]
//! struct Block {
//!     #[layer(out = width)]
//!     inner: Linear,
//! }
//!
//! #[derive(Model)]
//! #[model(input(x: [batch, 64]))]
//! struct Net {
//!     block: Block, // layer `block` needs `width`: write `#[layer(width = ...)]`
//! }
//! ```
//!
//! # Shapes
//!
//! In a shape, a lowercase name is free unless it is in `config`; UPPERCASE names are constants or const
//! generics. The same name means the same size everywhere in one model. Constants can be added to a free
//! dim, taken from it, and multiplied with it: `2 * time - 1`. A shape is one of `f32` unless it says
//! `as u32` or `as bool`. An input without a shape takes anything.
//!
//! The shapes are checked by `cargo check`, field by field, and the error stands at the field:
//!
//! ```compile_fail
//! # use meganeura::prelude::*;
//! #[derive(Model)]
//! #[model(input(x: [batch, time, 288]))]
//! struct Net {
//!     #[layer(residual, out = 256)]
//!     narrow: Linear, // layer `narrow` is residual but turns [batch, time, 288] (`x`) into [batch, time, 256]
//! }
//! ```
//!
//! After a mistake nothing is known of what flows on, so one mistake gives one error. A generic model is
//! checked where it is used; [`check!`](macro@crate::check) checks a model with given settings anywhere:
//!
//! ```
//! # use meganeura::prelude::*;
//! #[derive(Model)]
//! #[model(config(width: usize), input(x: [batch, width]), output = [batch, width])]
//! struct Narrowing<A: Layer> {
//!     #[layer(out = width / 2)]
//!     down: Linear,
//!     activation: A,
//!     #[layer(out = width, add(x))]
//!     up: Linear,
//! }
//!
//! check!(Narrowing<Gelu> { width: 64 });
//! check!(Narrowing<(Tanh, Relu)> { width: 32 });
//! ```
//!
//! When the graph is built the same rules run once more on the numbers, since a description can be
//! changed before. What is wrong is then in [`Graph::errors`](crate::ir::Graph::errors), in the same words
//! and with the same path:
//!
//! ```
//! # use meganeura::prelude::*;
//! # #[derive(Model)]
//! # #[model(input(pixels: [batch, 64]), output = [batch, 10])]
//! # struct Digits {
//! #     #[layer(out = 128)]
//! #     hidden: (Linear, Relu),
//! #     #[layer(out = 10)]
//! #     scores: Linear,
//! # }
//! let mut digits = Digits::new();
//! digits.scores.out = 11;
//! let graph = Graph::new();
//! digits.build(&graph, &[("batch", 32)]);
//! assert_eq!(
//!     graph.errors()[0].to_string(),
//!     "puts out [32, 11] (`scores`) but declares output = [32, 10]"
//! );
//! ```
//!
//! # Several inputs and outputs
//!
//! With several inputs the first field says which it takes. Outputs are named, and a parent takes them by
//! name:
//!
//! ```
//! # use meganeura::prelude::*;
//! #[derive(Model)]
//! #[model(
//!     input(source: [batch, n] as u32, target: [batch, m] as u32),
//!     output(logits: [batch, m, 50], memory = encoded),
//! )]
//! struct Translate {
//!     #[layer(from(source), rows = 50, width = 8)]
//!     source_embed: Embedding,
//!     #[layer(residual, out = 8)]
//!     encoded: PreNorm<Linear>,
//!     #[layer(from(target), rows = 50, width = 8)]
//!     target_embed: Embedding,
//!     #[layer(out = 50)]
//!     logits: Linear,
//! }
//!
//! #[derive(Model)]
//! #[model(input(a: [batch, n] as u32, b: [batch, m] as u32))]
//! struct Probe {
//!     #[layer(from(a, b))]
//!     translate: Translate,
//!     #[layer(from(translate.memory), out = 3)]
//!     probe: Linear,
//! }
//! # assert!(Probe::new().summary(&[("batch", 2), ("n", 3), ("m", 4)]).is_ok());
//! ```
//!
//! # Generics, wrappers and choices
//!
//! Models can be generic over layers and numbers. A wrapper hands its whole configuration on: this is all
//! of [`PreNorm`](crate::layers::PreNorm).
//!
//! ```
//! # use meganeura::prelude::*;
//! #[derive(Model)]
//! #[model(config = L::Config, input(x))]
//! struct PreNorm<L: Layer> {
//!     norm: RmsNorm,
//!     #[layer(..config)]
//!     inner: L,
//! }
//! ```
//!
//! An enum is a choice at run time. Each variant holds one layer, the first is the default, and for each
//! there is a function that chooses it in a setting:
//!
//! ```
//! use meganeura::prelude::*;
//!
//! #[derive(Model, Clone, Copy, Debug, PartialEq)]
//! enum Activation {
//!     Relu(Relu),
//!     Gelu(Gelu),
//! }
//!
//! #[derive(Model)]
//! #[model(input(x: [batch, 8]))]
//! struct Mlp {
//!     #[layer(out = 16)]
//!     up: Linear,
//!     #[layer(..Activation::gelu(Gelu::tanh()))]
//!     activation: Activation,
//! }
//!
//! let mut mlp = Mlp::new();
//! assert_eq!(mlp.activation, Activation::Gelu(Gelu::tanh()));
//! mlp.activation = Activation::Relu(Relu);
//! ```
//!
//! Where even the type is chosen at run time, a field can be a `Box<dyn Layer>`; see
//! [`Make`](crate::model::Make).
//!
//! # Names
//!
//! A parameter's name is the path of fields to it. `rename` puts another path in the place of a field's
//! name, so that a checkpoint of another program fits. On a repetition, `{i}` stands for the number of
//! each element. Inside one it stands for the number of the element that the field is in, and the path
//! takes the place of everything from the repetition on:
//!
//! ```
//! # use meganeura::prelude::*;
//! #[derive(Model)]
//! #[model(config(width: usize), input(x: [batch, width]))]
//! struct Block {
//!     #[layer(out = width, rename("model.layers.{i}.mlp.up_proj"))]
//!     up: Linear,
//! }
//!
//! #[derive(Model)]
//! #[model(input(x: [batch, 4]))]
//! struct Net {
//!     #[layer(repeat(2), width = 4)]
//!     blocks: Vec<Block>,
//!     #[layer(out = 4, rename("heads.{i}.out"))]
//!     heads: [Linear; 2],
//! }
//!
//! let graph = Graph::new();
//! Net::new().build(&graph, &[("batch", 1)]);
//! let names: Vec<String> = graph.variables().into_iter().map(|(variable, _)| variable.name).collect();
//! assert_eq!(names[2], "model.layers.1.mlp.up_proj.weight");
//! assert_eq!(names[4], "heads.0.out.weight");
//! ```
//!
//! Where the names of a library layer's own parameters differ,
//! [`Convention`](crate::interop::weights::Convention) translates them when a file is
//! [loaded](crate::interop::safetensors::Tensors::load_into) or written.
//!
//! # Training and evaluation
//!
//! [`BatchNorm`](crate::layers::BatchNorm) and [`Dropout`](crate::layers::Dropout) do something else in
//! training than otherwise. Which it is belongs to the graph, not to the model: a layer asks
//! [`Graph::is_training`](crate::ir::Graph::is_training). [`Graph::new`](crate::ir::Graph::new) is for
//! evaluation, [`Graph::training`](crate::ir::Graph::training) for training; a
//! [`Trainer`](crate::train::Trainer) makes both for one model.
//!
//! # Layers of your own
//!
//! A leaf layer is a plain struct and one `impl` block under `#[layer]`. `BASE` is what it is like when
//! nothing is set, `REQUIRED` names the settings that must be set, `forward` builds the graph for the
//! tensors that flow in, and `shape` says what comes out:
//!
//! ```
//! use meganeura::prelude::*;
//!
//! /// Multiplies by a trained matrix from both sides: x ↦ xᵀ·W·x.
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! struct Quadratic {
//!     scale: f32,
//! }
//!
//! #[layer]
//! impl Layer for Quadratic {
//!     const BASE: Self = Quadratic { scale: 1.0 };
//!     const REQUIRED: &'static [&'static str] = &["scale"];
//!
//!     const fn shape(&self, x: &Shapes) -> Shapes {
//!         let x = x.first();
//!         if x.rank_differs(2) {
//!             return Shapes::fail(Message::new("takes [batch, width], but is given ").dims(&x));
//!         }
//!         Shapes::one(x.with_last(Dim::of(1)))
//!     }
//!
//!     fn forward<'g>(&self, x: Tensor<'g>) -> Tensor<'g> {
//!         let width = x.shape().last();
//!         let weight = x.graph().parameter("weight", [width, width], Init::XavierUniform);
//!         (x.matmul(weight) * x).sum(&[1]) * f64::from(self.scale)
//!     }
//! }
//!
//! #[derive(Model)]
//! #[model(input(x: [batch, 4]), output = [batch, 1])]
//! struct Net {
//!     #[layer(scale = 0.5)]
//!     quadratic: Quadratic,
//! }
//! # assert!(Net::new().summary(&[("batch", 2)]).is_ok());
//! ```
//!
//! `shape` is a `const fn`, since it runs in the compiler. It returns shapes or a sentence and never
//! panics; [`walk`](crate::walk) tells what it can say. Without a `shape` the layer is opaque: what it puts
//! out is unknown until something declares it. `forward` takes one tensor for each value that flows in and
//! returns one, a tuple, an array or a `Vec`. Where their number varies it is written as in the trait, with
//! the graph and a slice.
//!
//! # The rest
//!
//! - Descriptions are plain data. Derive `Clone`, `Debug`, `PartialEq` (and with the feature `serde`
//!   `Serialize` and `Deserialize`) on a model as you like; change any field before building.
//! - `#[model(crate = path)]`, `#[layer(crate = path)]` and `check!(crate = path, ...)` serve those who know
//!   this crate by another name.
//! - Tuple structs work; their fields are named `0`, `1`, ….
//! - Lifetimes and unions are errors: a model owns its layers.
