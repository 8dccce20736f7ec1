//! Training as PyTorch does it: losses, gradients and parameters against values it computed.

#[path = "train/budget.rs"]
mod budget;
#[path = "train/language_model.rs"]
mod language_model;
#[path = "train/memory.rs"]
mod memory;
#[path = "train/precision.rs"]
mod precision;
#[path = "train/storage.rs"]
mod storage;
mod support;

use std::collections::HashMap;
use std::path::Path;

use meganeura::autodiff::gradients;
use meganeura::data::{Batch, Dataset, Field};
use meganeura::interop::safetensors::Tensors;
use meganeura::ir::{Array, CrossEntropy, DType, Graph, VariableKind};
use meganeura::ops;
use meganeura::prelude::*;
use meganeura::runtime::Session;
use meganeura::train::{Optimizer, TrainError};
use support::samples::relative_error;

#[derive(Model)]
#[model(input(features: [batch, 12]), output = [batch, 5])]
struct LayerNormMlp {
    input_norm: LayerNorm,
    #[layer(out = 16)]
    hidden: (Linear, Gelu),
    hidden_norm: LayerNorm,
    #[layer(out = 16)]
    deep: (Linear, Gelu),
    deep_norm: LayerNorm,
    #[layer(out = 5)]
    scores: Linear,
}

/// The fixture has the tanh form of GELU; descriptions are plain data, so say so.
fn layer_norm_mlp() -> LayerNormMlp {
    let mut model = LayerNormMlp::new();
    model.hidden.1 = Gelu::tanh();
    model.deep.1 = Gelu::tanh();
    model
}

#[derive(Model)]
#[model(input(features: [batch, 12]), output = [batch, 5])]
struct RmsNormMlp {
    input_norm: RmsNorm,
    #[layer(out = 16)]
    hidden: (Linear, Silu),
    hidden_norm: RmsNorm,
    #[layer(out = 16)]
    deep: (Linear, Silu),
    deep_norm: RmsNorm,
    #[layer(out = 5)]
    scores: Linear,
}

/// The yardstick's convolutional network.
#[derive(Model)]
#[model(input(x: [batch, 1, 28, 28]), output = [batch, 10])]
struct Cnn {
    #[layer(out = 32, kernel = 3, padding = 1)]
    first: Conv2d,
    halve: (Relu, MaxPool2d),
    #[layer(out = 64, kernel = 3, padding = 1)]
    second: Conv2d,
    quarter: (Relu, MaxPool2d, Flatten),
    #[layer(out = 128)]
    hidden: Linear,
    active: Relu,
    #[layer(out = 10)]
    scores: Linear,
}

/// Numbers below 2²⁴ that look like none in particular, as the fixture's script makes them.
fn hashed(seed: u32, count: usize) -> impl Iterator<Item = u32> {
    let from = seed.wrapping_mul(2_891_336_453).wrapping_add(1);
    (0..count as u32).map(move |place| {
        let mut h = place.wrapping_mul(747_796_405).wrapping_add(from);
        h = (h ^ (h >> 16)).wrapping_mul(0x7FEB_352D);
        h = (h ^ (h >> 15)).wrapping_mul(0x846C_A68B);
        (h ^ (h >> 16)) >> 8
    })
}

fn unit(number: u32) -> f64 {
    f64::from(number) / f64::from(1u32 << 24)
}

fn a_cnn_trains_like_pytorch(device: &Device) {
    let loss = Loss::cross_entropy("label");
    let mut trainer = Trainer::new(Cnn::new(), loss, AdamW::new(1e-3), device, 0);
    let trainer = trainer.as_mut().expect("a trainer");
    let batch = |step: u32| {
        let pixels = hashed(100 + step, 8 * 784).map(|number| unit(number) as f32);
        let labels = hashed(200 + step, 8).map(|number| number % 10);
        Dataset::new([
            Field::new("x", [1, 28, 28], pixels.collect::<Vec<f32>>()),
            Field::new("label", [], labels.collect::<Vec<u32>>()),
        ])
        .expect("a batch")
    };
    // The session knows its variables once a step was compiled.
    trainer.evaluate(&batch(0), 8).expect("an evaluation");
    let inputs = [9, 9, 288, 288, 3136, 3136, 128, 128];
    let paths = ["first", "second", "hidden", "scores"];
    let names = paths
        .iter()
        .flat_map(|path| ["weight", "bias"].map(|name| format!("{path}.{name}")));
    for (seed, (name, inputs)) in names.zip(inputs).enumerate() {
        let count = trainer
            .session()
            .variable(&name)
            .expect("a parameter")
            .len();
        let bound = f64::from(inputs).powf(-0.5);
        let values =
            hashed(seed as u32, count).map(|number| ((2.0 * unit(number) - 1.0) * bound) as f32);
        let values: Vec<f32> = values.collect();
        trainer
            .session()
            .set_variable(&name, &values)
            .expect("a parameter");
    }
    let reference = fixture("cnn");
    for (step, expected) in floats(&reference, "losses").iter().enumerate() {
        let history = trainer.fit(&batch(step as u32), &Fit::epochs(1).batch(8).quiet());
        let found = history.expect("a step").losses[0];
        assert!(
            (found - expected).abs() < 1e-3,
            "step {step} on {device}: {found}, PyTorch has {expected}"
        );
    }
}

#[test]
fn a_cnn_on_the_cpu_trains_like_pytorch() {
    a_cnn_trains_like_pytorch(&Device::cpu());
}

#[test]
fn a_cnn_on_the_gpu_trains_like_pytorch() {
    let Some(device) = support::gpu() else { return };
    a_cnn_trains_like_pytorch(&device);
}

fn fixture(name: &str) -> Tensors {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    Tensors::load(folder.join(format!("{name}.safetensors"))).expect("a fixture")
}

fn floats<'t>(tensors: &'t Tensors, name: &str) -> &'t [f32] {
    tensors
        .get(name)
        .expect("a tensor of the fixture")
        .as_f32()
        .expect("floats")
}

fn close(found: &[f32], expected: &[f32], what: &str) {
    let wide = |values: &[f32]| {
        values
            .iter()
            .map(|&value| f64::from(value))
            .collect::<Vec<_>>()
    };
    let error = relative_error(&wide(found), &wide(expected));
    assert!(
        error < 1e-4,
        "{what} is off by {error}: {found:?}, PyTorch has {expected:?}"
    );
}

fn batch(reference: &Tensors) -> (Dataset, Batch) {
    let labels = reference
        .u32("input/labels", &[8])
        .expect("labels")
        .to_vec();
    let data = Dataset::new([
        Field::new(
            "features",
            [12],
            floats(reference, "input/features").to_vec(),
        ),
        Field::new("label", [], labels),
    ])
    .expect("a data set");
    let batch = data.batches(8).expect("batches").next().expect("one batch");
    (data, batch)
}

fn trainer<M: Model>(
    model: M,
    reference: &Tensors,
    optimizer: impl Optimizer + 'static,
    device: &Device,
    batch: &Batch,
) -> Trainer<M> {
    let mut trainer =
        Trainer::new(model, Loss::cross_entropy("label"), optimizer, device, 0).expect("a trainer");
    // The first prediction makes the variables; then they get the reference's values.
    trainer.predict(batch).expect("a prediction");
    let names: Vec<String> = trainer
        .session()
        .variables()
        .map(|variable| variable.name.clone())
        .collect();
    assert_eq!(
        names.len(),
        reference
            .iter()
            .filter(|(name, _)| name.starts_with("parameter/"))
            .count()
    );
    for name in names {
        trainer
            .session()
            .set_variable(&name, floats(reference, &format!("parameter/{name}")))
            .expect("a parameter");
    }
    trainer
}

fn ten_steps<M: Model>(
    model: M,
    name: &str,
    kind: &str,
    optimizer: impl Optimizer + 'static,
    device: &Device,
) {
    let reference = fixture(name);
    let (_, batch) = batch(&reference);
    let mut trainer = trainer(model, &reference, optimizer, device, &batch);
    close(
        &trainer.predict(&batch).expect("logits"),
        floats(&reference, "output/logits"),
        "the output",
    );
    let losses: Vec<f32> = (0..10)
        .map(|_| trainer.step(&batch).expect("a step"))
        .collect();
    close(
        &losses,
        floats(&reference, &format!("{kind}/losses")),
        &format!("{name} {kind}: losses"),
    );
    let parameters: Vec<String> = trainer
        .session()
        .variables()
        .filter(|variable| variable.kind == VariableKind::Parameter)
        .map(|variable| variable.name.clone())
        .collect();
    for path in parameters {
        let found = trainer.session().variable(&path).expect("a parameter");
        close(
            &found,
            floats(&reference, &format!("{kind}/parameter/{path}")),
            &format!("{name} {kind}: {path}"),
        );
    }
}

fn adamw() -> AdamW {
    AdamW::new(1e-2)
}

fn trains_like_pytorch(device: &Device) {
    let sgd = || Sgd::new(0.1).momentum(0.9);
    ten_steps(layer_norm_mlp(), "layer_norm_mlp", "sgd", sgd(), device);
    ten_steps(layer_norm_mlp(), "layer_norm_mlp", "adamw", adamw(), device);
    ten_steps(RmsNormMlp::new(), "rms_norm_mlp", "sgd", sgd(), device);
    ten_steps(RmsNormMlp::new(), "rms_norm_mlp", "adamw", adamw(), device);
}

#[test]
fn the_cpu_trains_like_pytorch() {
    trains_like_pytorch(&Device::cpu());
}

#[test]
fn the_gpu_trains_like_pytorch() {
    let Some(device) = support::gpu() else { return };
    trains_like_pytorch(&device);
}

/// All gradients of the loss, and of 3 · loss − ½ · mean(logits), whose upstream is not 1.
fn gradients_match<M: Model>(model: &M, name: &str, device: &Device) {
    let reference = fixture(name);
    let graph = Graph::new();
    let logits = model.build(&graph, &[("batch", 8)])[0];
    let labels = graph.input("label", [8], DType::U32);
    let loss = logits.cross_entropy(labels);
    let weighted = loss * 3.0 - logits.mean_all() * 0.5;
    graph.output("loss", loss);
    graph.output("weighted", weighted);
    let (graph, images) = ops::expand(&graph);
    let variables = graph.variables();
    let sources: Vec<_> = variables.iter().map(|(_, id)| graph.tensor(*id)).collect();
    for (prefix, root) in [("gradient/", loss), ("upstream/gradient/", weighted)] {
        let root = graph.tensor(images.get(root.id()).expect("an image"));
        let found = gradients(&[(root, graph.constant(1.0))], &sources);
        for ((variable, _), gradient) in variables.iter().zip(found) {
            graph.output(&format!("{prefix}{}", variable.name), gradient);
        }
    }
    let mut session = Session::new(device, 0).expect("a session");
    let step = session.compile(&graph).expect("a step");
    let mut values: HashMap<String, Array> = HashMap::new();
    let mut insert = |name: &str, data: Vec<f64>| {
        values.insert(name.to_owned(), Array::new([data.len()], data));
    };
    let wide = |name: &str| {
        floats(&reference, name)
            .iter()
            .map(|&x| f64::from(x))
            .collect::<Vec<_>>()
    };
    insert("features", wide("input/features"));
    let labels = reference.u32("input/labels", &[8]).expect("labels");
    insert(
        "label",
        labels.iter().map(|&label| f64::from(label)).collect(),
    );
    for (variable, _) in &variables {
        insert(
            &variable.name,
            wide(&format!("parameter/{}", variable.name)),
        );
    }
    support::give(&mut session, step, &graph, &values);
    session.run(step).expect("a run");
    close(
        &session.output(step, "loss").expect("a loss"),
        floats(&reference, "output/loss"),
        "the loss",
    );
    close(
        &session.output(step, "weighted").expect("a loss"),
        floats(&reference, "upstream/loss"),
        "the sum",
    );
    for (variable, _) in &variables {
        for prefix in ["gradient/", "upstream/gradient/"] {
            let path = format!("{prefix}{}", variable.name);
            close(
                &session.output(step, &path).expect("a gradient"),
                floats(&reference, &path),
                &path,
            );
        }
    }
}

#[test]
fn the_cpu_has_pytorchs_gradients() {
    gradients_match(&layer_norm_mlp(), "layer_norm_mlp", &Device::cpu());
    gradients_match(&RmsNormMlp::new(), "rms_norm_mlp", &Device::cpu());
}

#[test]
fn the_gpu_has_pytorchs_gradients() {
    let Some(device) = support::gpu() else { return };
    gradients_match(&layer_norm_mlp(), "layer_norm_mlp", &device);
    gradients_match(&RmsNormMlp::new(), "rms_norm_mlp", &device);
}

fn small_data(rows: usize) -> Dataset {
    let values = (0..rows * 12)
        .map(|i| (i as f32 * 0.37).sin())
        .collect::<Vec<f32>>();
    let labels = (0..rows).map(|row| row as u32 % 5).collect::<Vec<u32>>();
    Dataset::new([
        Field::new("features", [12], values),
        Field::new("label", [], labels),
    ])
    .expect("a data set")
}

fn small_trainer(learning_rate: f64) -> Trainer<RmsNormMlp> {
    let loss = Loss::cross_entropy("label");
    Trainer::new(
        RmsNormMlp::new(),
        loss,
        Sgd::new(learning_rate),
        &Device::cpu(),
        3,
    )
    .expect("a trainer")
}

#[test]
fn the_last_partial_batch_is_used_and_weighted_by_its_size() {
    let mut trainer = small_trainer(0.0);
    let data = small_data(10);
    let history = trainer
        .fit(&data, &Fit::epochs(1).batch(4).quiet())
        .expect("training");
    assert_eq!((history.losses.len(), history.epochs[0].rows), (3, 10));
    // At a learning rate of 0 the epoch's mean is the loss of all rows at once.
    let whole = trainer.evaluate(&data, 10).expect("an evaluation");
    assert!(
        (history.epochs[0].loss - whole.loss).abs() < 1e-6,
        "{history:?} {whole:?}"
    );
    let parts = trainer.evaluate(&data, 3).expect("an evaluation");
    assert!((parts.loss - whole.loss).abs() < 1e-6);
    assert_eq!(parts.accuracy, whole.accuracy);
}

#[test]
fn the_same_seed_trains_the_same_for_any_number_of_threads() {
    let losses = |device: &Device| {
        let loss = Loss::cross_entropy("label");
        let mut trainer =
            Trainer::new(RmsNormMlp::new(), loss, AdamW::new(0.01), device, 5).expect("a trainer");
        trainer
            .fit(&small_data(50), &Fit::epochs(3).batch(16).quiet())
            .expect("training")
            .losses
    };
    let threads =
        |count| Device::cpu_with_threads(std::num::NonZeroUsize::new(count).expect("not zero"));
    assert_eq!(losses(&threads(1)), losses(&threads(2)));
}

fn message(result: Result<impl Sized, TrainError>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn what_a_user_can_do_wrong_is_said() {
    let data = small_data(8);
    let fit = Fit::epochs(1).quiet();

    let renamed = data
        .clone()
        .rename("features", "pixels")
        .expect("a data set");
    let said = message(small_trainer(0.1).fit(&renamed, &fit));
    assert!(
        said.contains("`features`")
            && said.contains("`pixels`")
            && said.contains("Dataset::rename"),
        "{said}"
    );

    let reshaped = data
        .clone()
        .reshape("features", [3, 4])
        .expect("a data set");
    let said = message(small_trainer(0.1).fit(&reshaped, &fit));
    assert!(
        said.contains("[8, 3, 4]") && said.contains("Dataset::reshape"),
        "{said}"
    );

    let unlabelled = data.clone().rename("label", "class").expect("a data set");
    let said = message(small_trainer(0.1).fit(&unlabelled, &fit));
    assert!(said.contains("field `label`"), "{said}");

    let mut values = vec![0.5; 24];
    values[17] = f32::NAN;
    let broken = Dataset::new([
        Field::new("features", [12], values),
        Field::new("label", [], vec![0u32, 1]),
    ]);
    let said = message(small_trainer(0.1).fit(&broken.expect("a data set"), &fit));
    assert!(said.contains("`features` holds NaN in row 1"), "{said}");

    let wild = Dataset::new([
        Field::new("features", [12], vec![0.5; 12]),
        Field::new("label", [], vec![9u32]),
    ]);
    let said = message(small_trainer(0.1).fit(&wild.expect("a data set"), &fit));
    assert!(
        said.contains("`label` holds 9 at position 0") && said.contains("0 to 4"),
        "{said}"
    );

    let said = message(small_trainer(f64::INFINITY).fit(&data, &Fit::epochs(3).quiet()));
    assert!(said.contains("learning rate"), "{said}");

    let said = message(small_trainer(0.1).fit(&data, &Fit::epochs(1).batch(0).quiet()));
    assert!(said.contains("batch of 0"), "{said}");

    let missing = Path::new("no/such/folder/model.safetensors");
    let said = message(small_trainer(0.1).fit(&data, &Fit::epochs(1).quiet().keep(missing)));
    assert!(said.contains("no/such/folder"), "{said}");
    assert!(!missing.exists());
}

#[test]
fn annealing_ends_at_zero_and_gives_the_learning_rate_back() {
    let mut trainer = small_trainer(0.1);
    let data = small_data(40);
    trainer
        .fit(&data, &Fit::epochs(2).batch(8).anneal().quiet())
        .expect("training");
    assert_eq!(trainer.optimizer().learning_rate(), 0.1);
    // Half a cosine's mean is half of its start: ten steps of plain descent on the same
    // batches at a constant rate move about twice as far.
    let start = small_trainer(0.1);
    let moved = |mut from: Trainer<RmsNormMlp>, to: &mut Trainer<RmsNormMlp>| {
        from.evaluate(&data, 8).expect("an evaluation");
        let name = "scores.bias";
        let (a, b) = (
            from.session().variable(name).expect("a"),
            to.session().variable(name).expect("b"),
        );
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f32>()
    };
    let annealed = moved(start, &mut trainer);
    let mut constant = small_trainer(0.1);
    constant
        .fit(&data, &Fit::epochs(2).batch(8).quiet())
        .expect("training");
    let full = moved(small_trainer(0.1), &mut constant);
    assert!((0.3..0.9).contains(&(annealed / full)), "{annealed} {full}");
}

#[test]
fn a_profile_names_every_kernel_and_changes_no_result() {
    let graph = Graph::new();
    let x = graph.input("x", [4, 6], DType::F32);
    let weight = graph.parameter("weight", [6, 3], Init::Ones);
    graph.output("y", x.matmul(weight).softmax());
    let mut session = Session::new(&Device::cpu(), 0).expect("a session");
    let step = session.compile(&graph).expect("a step");
    assert!(session.profile(step, 1).is_err(), "an input is missing");
    session.input(step, "x", &[0.5; 24]).expect("an input");
    let profile = session.profile(step, 3).expect("a profile");
    let names: Vec<&str> = profile.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<&str> = session
        .plan(step)
        .kernels
        .iter()
        .map(|kernel| kernel.name.as_str())
        .collect();
    assert_eq!(names, expected);
    close(
        &session.output(step, "y").expect("an output"),
        &[1.0 / 3.0; 12],
        "softmax of equals",
    );
}

#[test]
fn a_label_to_ignore_may_lie_outside_and_others_may_not() {
    let ignored = (-100i32) as u32;
    let graph = Graph::new();
    let scores = graph.input("scores", [3, 4], DType::F32);
    let labels = graph.input("label", [3], DType::U32);
    let how = CrossEntropy {
        ignore_index: Some(ignored),
        ..CrossEntropy::default()
    };
    graph.output("loss", scores.cross_entropy_with(labels, &how));
    for device in [Some(Device::cpu()), support::gpu()].into_iter().flatten() {
        let mut session = Session::new(&device, 0).expect("a session");
        let step = session.compile(&graph).expect("a step");
        session
            .input(step, "scores", &[0.0; 12])
            .expect("the scores");
        let mut loss = |labels: &[u32; 3]| {
            session.input(step, "label", labels).expect("labels");
            session.run(step).expect("a run");
            session.output(step, "loss").expect("a loss")[0]
        };
        assert!((loss(&[1, ignored, 3]) - 4f32.ln()).abs() < 1e-6);
        assert_eq!(loss(&[ignored; 3]), 0.0);
        assert!(session.input(step, "label", &[1, 4, 3]).is_err());
    }
}
