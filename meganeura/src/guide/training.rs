//! # Training
//!
//! A [`Trainer`](crate::train::Trainer) takes a model, a loss, an optimizer and a device:
//!
//! ```
//! use meganeura::data::{Dataset, Field};
//! use meganeura::prelude::*;
//!
//! #[derive(Model)]
//! #[model(input(x: [batch, 2]), output = [batch, 2])]
//! struct Quadrant {
//!     #[layer(out = 16)]
//!     hidden: (Linear, Tanh),
//!     #[layer(out = 2)]
//!     scores: Linear,
//! }
//!
//! // Points on a circle; the class says whether both coordinates have one sign.
//! let angle = |i: usize| i as f32 * 0.1;
//! let points = (0..200).flat_map(|i| [angle(i).cos(), angle(i).sin()]).collect::<Vec<f32>>();
//! let classes = (0..200).map(|i| u32::from(angle(i).cos() * angle(i).sin() > 0.0)).collect::<Vec<u32>>();
//! let data = Dataset::new([Field::new("x", [2], points), Field::new("class", [], classes)])?;
//! let (train, test) = data.split(0.25, 7)?;
//!
//! let loss = Loss::cross_entropy("class");
//! let mut trainer = Trainer::new(Quadrant::new(), loss, AdamW::new(0.02), &Device::cpu(), 7)?;
//! let history = trainer.fit(&train, &Fit::epochs(60).batch(16).quiet())?;
//! assert!(history.epochs[59].loss < 0.2 * history.epochs[0].loss);
//! assert!(trainer.evaluate(&test, 50)?.accuracy.unwrap() > 0.9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Fields of the data set are named after the model's inputs; what the loss needs is a field,
//! too. The last, smaller batch of an epoch is used like the others. The same seed gives the
//! same first values and the same order of batches on every device, and the CPU gives the
//! same numbers for any number of threads.
//!
//! ## Optimizers
//!
//! [`Sgd`](crate::train::Sgd) and [`AdamW`](crate::train::AdamW) add their updates to the graph
//! of the step, so that a weight's gradient, its moments and its new value are one kernel.
//! Their fields are public: `AdamW { weight_decay: 0.1, ..AdamW::new(1e-3) }`. The learning
//! rate may change between steps:
//!
//! ```
//! # use meganeura::prelude::*;
//! # #[derive(Model)]
//! # #[model(input(x: [batch, 2]), output = [batch, 2])]
//! # struct Small { #[layer(out = 2)] scores: Linear }
//! # let loss = Loss::mean_squared_error("target");
//! # let mut trainer = Trainer::new(Small::new(), loss, Sgd::new(0.1), &Device::cpu(), 0)?;
//! trainer.optimizer().set_learning_rate(0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Tuning
//!
//! How products are computed (what is copied, how they are cut among threads) follows rules that know
//! a processor only roughly. A trainer that is to run for long may first look for what is faster on
//! this one, for a time that is said:
//!
//! ```
//! # use meganeura::data::{Batch, Dataset, Field};
//! # use meganeura::prelude::*;
//! # use std::time::Duration;
//! # #[derive(Model)]
//! # #[model(input(x: [batch, 2]), output = [batch, 2])]
//! # struct Small { #[layer(out = 2)] scores: Linear }
//! # let data = Dataset::new([Field::new("x", [2], vec![0.5; 8]), Field::new("target", [2], vec![1.0; 8])])?;
//! # let loss = Loss::mean_squared_error("target");
//! # let device = Device::cpu().with_cache(meganeura::runtime::Cache::Off);
//! # let mut trainer = Trainer::new(Small::new(), loss, Sgd::new(0.1), &device, 0)?;
//! let mut batch = Batch::default();
//! data.batches(4)?.next_into(&mut batch);
//! let tuning = trainer.tune(&batch, Duration::from_millis(20))?;
//! println!("{tuning}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Parameters are not touched, and results stay the same to the last bit. What was found is kept in the
//! user's cache directory and used by every later session for the same shapes on the same device;
//! the environment variable `MEGANEURA_CACHE` names another directory, or says `off`.
//!
//! ## A memory budget
//!
//! What the forward pass leaves for the backward pass often takes more memory than the parameters.
//! A trainer can be told how much a step may take, parameters and inputs included. Layers are then
//! computed again when their gradient arrives, as few as suffice, those first that take the least
//! time for what they save; the numbers are the same. If nothing suffices, the error says what the
//! least is that a step needs. The attribute `recompute` marks layers by hand.
//!
//! ```
//! # use meganeura::data::{Dataset, Field};
//! # use meganeura::prelude::*;
//! # #[derive(Model)]
//! # #[model(input(x: [batch, 8]), output = [batch, 8])]
//! # struct Deep { #[layer(repeat(6), out = 8)] layers: Vec<(Linear, Gelu)> }
//! # let data = Dataset::new([Field::new("x", [8], vec![0.1; 8 * 512]), Field::new("t", [8], vec![0.2; 8 * 512])])?;
//! # let batch = data.batches(512)?.next().ok_or("no batch")?;
//! # let trainer = || Trainer::new(Deep::new(), Loss::mean_squared_error("t"), Sgd::new(0.1), &Device::cpu(), 0);
//! let mut free = trainer()?;
//! let peak = free.plan(&batch)?.peak_bytes();
//!
//! let mut bound = trainer()?;
//! bound.memory_budget(peak * 9 / 10);
//! assert!(bound.plan(&batch)?.peak_bytes() <= peak * 9 / 10);
//! assert_eq!(bound.step(&batch)?, free.step(&batch)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Mixed precision
//!
//! With [`Precision::BF16`](crate::ir::Precision::BF16) products round their operands to bfloat16 and
//! add up in floats, which processors with instructions for it (AVX-512 BF16) do twice as fast.
//! Parameters, moments, sums, norms and losses remain floats, no loss needs scaling, and the loss
//! of a language model stays within one per cent of what it is without (that of a model that learns
//! noise by heart does not). Small products are not rounded. Large activations and gradients are kept
//! as bfloat16, too: on the CPU that halves the memory they take.
//!
//! ```
//! # use meganeura::data::{Dataset, Field};
//! # use meganeura::prelude::*;
//! # #[derive(Model)]
//! # #[model(input(x: [batch, 32]), output = [batch, 32])]
//! # struct Wide { #[layer(out = 64)] hidden: (Linear, Gelu), #[layer(out = 32)] out: Linear }
//! # let values = |step: f32| (0..32 * 64).map(|i| (i as f32 * step).sin()).collect::<Vec<f32>>();
//! # let data = Dataset::new([Field::new("x", [32], values(0.7)), Field::new("t", [32], values(0.3))])?;
//! # let batch = data.batches(64)?.next().ok_or("no batch")?;
//! # let trainer = || Trainer::new(Wide::new(), Loss::mean_squared_error("t"), AdamW::new(1e-2), &Device::cpu(), 0);
//! let mut exact = trainer()?;
//! let mut rounded = trainer()?;
//! rounded.precision(Precision::BF16);
//! for _ in 0..10 {
//!     let (expected, found) = (exact.step(&batch)?, rounded.step(&batch)?);
//!     assert!((found - expected).abs() < 0.01 * expected);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## A loss of your own
//!
//! ```
//! use meganeura::prelude::*;
//!
//! // The mean of |output − target|.
//! let loss = Loss::custom(&[("target", DType::F32)], |_, outputs, targets| {
//!     (outputs[0] - targets[0]).abs().mean_all()
//! });
//! # let _ = loss;
//! ```
//!
//! ## Below the trainer
//!
//! A [`Session`](crate::runtime::Session) compiles any graph and keeps its variables;
//! [`Session::plan`](crate::runtime::Session::plan) prints the kernels with their bytes and
//! FLOPs, [`Session::report`](crate::runtime::Session::report) what rewriting did:
//!
//! ```
//! use meganeura::prelude::*;
//! use meganeura::runtime::Session;
//!
//! let graph = Graph::new();
//! let x = graph.input("x", [64, 32], DType::F32);
//! let weight = graph.parameter("weight", [32], Init::Ones);
//! graph.output("y", x.rms_norm(weight, 1e-5).silu());
//!
//! let mut session = Session::new(&Device::cpu(), 0)?;
//! let step = session.compile(&graph)?;
//! assert_eq!(session.plan(step).kernels.len(), 1);
//! println!("{}\n{}", session.plan(step), session.report(step));
//! # Ok::<(), meganeura::runtime::SessionError>(())
//! ```
