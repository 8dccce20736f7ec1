//! Every op of the table, on the oracle and on every device, rewritten or not.
//!
//! A new op needs no new test: its block says where it is tried. Gradients are checked with
//! the op in the middle of a graph and a random upstream gradient.

mod support;

use std::collections::HashMap;
use std::path::Path;

use meganeura::autodiff::gradients;
use meganeura::egraph::Rewrites;
use meganeura::interop::safetensors::Tensors;
use meganeura::ir::{
    Array, Attention, Case, Convolution, CrossEntropy, DType, Domain, Graph, Init, OpDef, Pairs,
    Pool, Shape, Tensor, Vjp,
};
use meganeura::ops;
use meganeura::runtime::{Device, Session};
use support::samples::{Random, relative_error, trial};

/// What a device computes may be off by this much, relative to the norm.
const TOLERANCE: f64 = 1e-5;

type Values = HashMap<String, Array>;

/// A case as a graph of primitives with the outputs `result`, `output` and one gradient for
/// each float operand.
fn graph_of(def: &'static OpDef, case: &Case) -> (Graph, Values) {
    let graph = Graph::new();
    let (trial, values) = trial(&graph, def, case);
    graph.output("result", trial.result);
    graph.output("output", trial.output);
    assert!(
        graph.errors().is_empty(),
        "{}: {:?}",
        def.name,
        graph.errors()
    );
    let (graph, images) = ops::expand(&graph);
    let image = |tensor: Tensor<'_>| graph.tensor(images.get(tensor.id()).expect("an image"));
    if trial.output.dtype() == DType::F32 {
        let floats = trial
            .operands
            .iter()
            .filter(|operand| operand.dtype() == DType::F32);
        let sources: Vec<_> = floats.map(|operand| image(*operand)).collect();
        let found = gradients(&[(image(trial.output), image(trial.upstream))], &sources);
        for (index, gradient) in found.into_iter().enumerate() {
            graph.output(&format!("gradient {index}"), gradient);
        }
    }
    assert!(
        graph.errors().is_empty(),
        "{}: {:?}",
        def.name,
        graph.errors()
    );
    (graph, values)
}

/// Run `check` on every case of every op.
fn for_every_case(mut check: impl FnMut(&'static OpDef, &Case)) {
    let mut cases = 0;
    for def in ops::all() {
        for case in (def.cases)() {
            check(def, &case);
            cases += 1;
        }
    }
    assert!(cases > 100, "only {cases} cases");
}

#[test]
fn expansions_mean_what_the_oracle_says() {
    for_every_case(|def, case| {
        let graph = Graph::new();
        let (trial, values) = trial(&graph, def, case);
        let direct = ops::evaluate(&graph, &values)[trial.result.id().index()].clone();
        let (expanded, images) = ops::expand(&graph);
        let image = images.get(trial.result.id()).expect("an image");
        let composed = ops::evaluate(&expanded, &values)[image.index()].clone();
        assert_eq!(
            direct.shape,
            trial.result.shape(),
            "{}: the oracle's shape",
            def.name
        );
        let error = relative_error(&composed.data, &direct.data);
        assert!(error < 1e-9, "{} {case:?}: off by {error}", def.name);
    });
}

/// Whether finite differences can tell the gradient: not at ties, and not of an op that lets
/// none through by intent.
fn differentiable(def: &OpDef, case: &Case) -> bool {
    let ties = case
        .operands
        .iter()
        .any(|(_, domain)| matches!(domain, Domain::Integers(..)));
    !ties && !matches!(def.vjp, Vjp::Zero)
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for_every_case(|def, case| {
        if !differentiable(def, case) {
            return;
        }
        let (graph, values) = graph_of(def, case);
        let outputs: HashMap<String, _> = graph.outputs().into_iter().collect();
        let expected = ops::evaluate(&graph, &values);
        let objective = |values: &Values| -> f64 {
            let output = &ops::evaluate(&graph, values)[outputs["output"].index()];
            output
                .data
                .iter()
                .zip(&values["upstream"].data)
                .map(|(y, g)| y * g)
                .sum()
        };
        let floats = (0..case.operands.len())
            .filter(|&index| !matches!(case.operands[index].1, Domain::Indices(_) | Domain::Truth));
        for (position, operand) in floats.enumerate() {
            let Some(id) = outputs.get(&format!("gradient {position}")) else {
                continue;
            };
            let name = format!("x{operand}");
            let found = &expected[id.index()].data;
            // Up to twelve elements, spread over the operand.
            for element in (0..found.len()).step_by(found.len().div_ceil(12).max(1)) {
                let moved = |by: f64| {
                    let mut values = values.clone();
                    values.get_mut(&name).expect("an operand").data[element] += by;
                    objective(&values)
                };
                let step = 1e-5;
                let numeric = (moved(step) - moved(-step)) / (2.0 * step);
                let error = (numeric - found[element]).abs() / numeric.abs().max(1.0);
                assert!(
                    error < 1e-5,
                    "{} {case:?}: gradient of {name}[{element}] is {}, differences say {numeric}",
                    def.name,
                    found[element]
                );
            }
        }
    });
}

/// A graph's outputs and updates on a device, against the oracle.
fn check_graph(device: &Device, rewrites: Rewrites, graph: &Graph, values: &Values, what: &str) {
    let expected = ops::evaluate(graph, values);
    let mut session = Session::with_rewrites(device, 0, rewrites).expect("the device is there");
    let step = session
        .compile(graph)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    support::give(&mut session, step, graph, values);
    session
        .run(step)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let check = |name: &str, found: Vec<f32>, expected: &Array| {
        let found: Vec<f64> = found.into_iter().map(f64::from).collect();
        let error = relative_error(&found, &expected.data);
        assert!(
            error < TOLERANCE,
            "{what} on {device}, rewrites {rewrites:?}: `{name}` is off by {error}"
        );
    };
    for (name, id) in graph.outputs() {
        check(
            &name,
            session.output(step, &name).expect("an output"),
            &expected[id.index()],
        );
    }
    for (variable, value) in graph.updates() {
        let (variable, _) = graph
            .variables()
            .into_iter()
            .find(|(_, id)| *id == variable)
            .expect("a variable");
        let found = session.variable(&variable.name).expect("a variable");
        check(&variable.name, found, &expected[value.index()]);
    }
}

/// Every case on a device, all outputs against the oracle.
fn check_device(device: &Device, rewrites: Rewrites) {
    for_every_case(|def, case| {
        let (graph, values) = graph_of(def, case);
        check_graph(
            device,
            rewrites,
            &graph,
            &values,
            &format!("{} {case:?}", def.name),
        );
    });
    let (graph, values) = prologue_and_epilogue();
    check_graph(device, rewrites, &graph, &values, "prologue and epilogue");
    let (graph, values) = regions();
    check_graph(device, rewrites, &graph, &values, "regions");
}

/// Slices of what has no memory, pieces of what is computed, a state that reads itself.
fn regions() -> (Graph, Values) {
    let graph = Graph::new();
    let mut random = Random::new(5);
    let mut values = Values::new();
    let mut leaf = |name: &str, dims: &[usize]| {
        let array = random.array(&Shape::from(dims), Domain::Uniform(-1.0, 1.0));
        values.insert(name.to_owned(), array);
        match name {
            "memory" => graph.state(name, dims, Init::Zeros),
            _ => graph.input(name, dims, DType::F32),
        }
    };
    let (x, y, weight, memory) = (
        leaf("x", &[3, 8]),
        leaf("y", &[1, 8]),
        leaf("weight", &[8, 4]),
        leaf("memory", &[4, 8]),
    );
    // One element of a leaf, and of an index, in arithmetic.
    let one = x.slice(0, 2, 1).slice(1, 5, 1).reshape([]);
    let place = graph.index([8, 6], 0).slice_step(0, 1, 3, 2);
    graph.output("one", (one * 2.0 + 1.0) * y);
    graph.output("place", place.cast(DType::F32) * one);
    // A part of what is computed, next to the whole of it.
    let whole = (x * y).tanh();
    graph.output(
        "part",
        whole.slice(0, 0, 2).exp() + whole.slice(1, 1, 1).slice(0, 1, 1),
    );
    graph.output("whole", whole.sum(&[1]));
    // Contractions with parts, pieces of contractions.
    let product = x.slice_step(1, 0, 4, 2).matmul(weight.slice(0, 3, 4));
    let padded = (product + 0.5)
        .relu()
        .pad(&[(1, 2), (0, 3)], f64::NEG_INFINITY);
    graph.output("padded", padded.exp());
    graph.output(
        "joined",
        graph.concat(&[product, x, product.detach() * 2.0, x], 1),
    );
    // What is made of leaves, as a piece.
    graph.output("made", graph.concat(&[(x * 3.0 - y).exp(), y], 0) * 2.0);
    graph.update(memory, graph.concat(&[memory.slice(0, 1, 3), y], 0));
    graph.output("window", memory.window(1, 3, 2, 1).sum(&[2]));
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    (graph, values)
}

/// Contractions whose operands are computed and whose results are updates: what the scheduler
/// makes prologues and epilogues of.
fn prologue_and_epilogue() -> (Graph, Values) {
    let graph = Graph::new();
    let mut random = Random::new(4);
    let mut values = Values::new();
    let mut random_values = |name: &str, dims: &[usize]| {
        values.insert(
            name.to_owned(),
            random.array(&Shape::from(dims), Domain::Uniform(-1.0, 1.0)),
        );
    };
    random_values("x", &[33, 40]);
    random_values("mean", &[40]);
    random_values("weight", &[40, 37]);
    random_values("moment", &[40, 37]);
    let x = graph.input("x", [33, 40], DType::F32);
    let mean = graph.input("mean", [40], DType::F32);
    let weight = graph.parameter("weight", [40, 37], Init::Ones);
    let moment = graph.state("moment", [40, 37], Init::Zeros);
    let y = ((x - mean) * 0.5).matmul(weight).tanh();
    let next = moment * 0.9 + x.swap_last().matmul(y) * 0.1;
    graph.update(moment, next);
    graph.update(weight, weight * 0.99 - next);
    graph.output("y", y);
    (graph, values)
}

#[test]
fn the_cpu_agrees_with_the_oracle() {
    check_device(&Device::cpu(), Rewrites::Off);
}

#[test]
fn the_cpu_agrees_with_the_oracle_after_rewriting() {
    check_device(&Device::cpu(), Rewrites::EGraph);
}

#[test]
fn the_gpu_agrees_with_the_oracle() {
    let Some(device) = support::gpu() else { return };
    check_device(&device, Rewrites::Off);
}

#[test]
fn the_gpu_agrees_with_the_oracle_after_rewriting() {
    let Some(device) = support::gpu() else { return };
    check_device(&device, Rewrites::EGraph);
}

/// One operation that PyTorch computed: which it is, and the names of its operands.
type Reference = (
    &'static str,
    &'static [&'static str],
    for<'g> fn(&[Tensor<'g>]) -> Tensor<'g>,
);

const EPSILON: f64 = 1e-5;

const REFERENCES: &[Reference] = &[
    ("softmax", &["x"], |x| x[0].softmax()),
    ("softmax_rank_3", &["x"], |x| x[0].softmax()),
    ("log_softmax", &["x"], |x| x[0].log_softmax()),
    ("layer_norm", &["x", "weight", "bias"], |x| {
        x[0].layer_norm(x[1], x[2], EPSILON)
    }),
    ("layer_norm_flat", &["x", "weight", "bias"], |x| {
        x[0].layer_norm(x[1], x[2], EPSILON)
    }),
    ("layer_norm_rank_3", &["x", "weight", "bias"], |x| {
        x[0].layer_norm(x[1], x[2], EPSILON)
    }),
    ("rms_norm", &["x", "weight"], |x| {
        x[0].rms_norm(x[1], EPSILON)
    }),
    ("rms_norm_flat", &["x", "weight"], |x| {
        x[0].rms_norm(x[1], EPSILON)
    }),
    ("gelu_tanh", &["x"], |x| x[0].gelu()),
    ("gelu_exact", &["x"], |x| x[0].gelu_exact()),
    ("silu", &["x"], |x| x[0].silu()),
    ("cross_entropy", &["logits", "labels"], |x| {
        x[0].cross_entropy(x[1])
    }),
    ("cross_entropy_large", &["logits", "labels"], |x| {
        x[0].cross_entropy(x[1])
    }),
    ("cross_entropy_rank_3", &["logits", "labels"], |x| {
        x[0].cross_entropy(x[1])
    }),
    ("embedding", &["table", "indices"], |x| x[0].gather(x[1])),
    ("mean_squared_error", &["prediction", "target"], |x| {
        x[0].mean_squared_error(x[1])
    }),
];

/// A convolution along as many axes as the operands have, changed as said.
fn convolution<'g>(x: &[Tensor<'g>], change: impl Fn(&mut Convolution)) -> Tensor<'g> {
    let mut how = Convolution::of(x[0].shape().rank() - 2);
    change(&mut how);
    x[0].convolution(x[1], &how)
}

/// A pool of this size, changed as said.
fn pool(size: &[usize], change: impl Fn(&mut Pool)) -> Pool {
    let mut pool = Pool::of(size);
    change(&mut pool);
    pool
}

const WINDOWS: &[Reference] = &[
    ("conv1d", &["x", "weight"], |x| convolution(x, |_| ())),
    ("conv1d_strided", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.stride = vec![2];
            how.padding = vec![(2, 2)];
            how.dilation = vec![2];
        })
    }),
    ("conv2d", &["x", "weight", "bias"], |x| {
        convolution(x, |how| how.padding = vec![(1, 1), (1, 1)]) + x[2].reshape([4, 1, 1])
    }),
    ("conv2d_strided", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.stride = vec![2, 3];
            how.padding = vec![(0, 0), (2, 2)];
        })
    }),
    ("conv2d_groups", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.padding = vec![(2, 2), (1, 1)];
            how.dilation = vec![2, 1];
            how.groups = 2;
        })
    }),
    ("conv2d_depthwise", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.stride = vec![2, 2];
            how.padding = vec![(1, 1), (1, 1)];
            how.groups = 3;
        })
    }),
    ("conv2d_patches", &["x", "weight"], |x| {
        convolution(x, |how| how.stride = vec![2, 3])
    }),
    ("conv2d_uneven", &["x", "weight"], |x| {
        convolution(x, |how| {
            how.stride = vec![2, 2];
            how.padding = vec![(0, 1), (0, 3)];
        })
    }),
    ("max_pool", &["x"], |x| x[0].max_pool(&Pool::of(&[2, 2]))),
    ("max_pool_ties", &["x"], |x| {
        x[0].max_pool(&Pool::of(&[2, 2]))
    }),
    ("max_pool_overlap", &["x"], |x| {
        x[0].max_pool(&pool(&[3, 3], |pool| {
            pool.stride = vec![2, 2];
            pool.padding = vec![(1, 1), (1, 1)];
            pool.ceil = true;
        }))
    }),
    ("max_pool_dilated", &["x"], |x| {
        x[0].max_pool(&pool(&[3], |pool| {
            pool.stride = vec![2];
            pool.padding = vec![(1, 1)];
            pool.dilation = vec![2];
        }))
    }),
    ("max_pool_large", &["x"], |x| {
        x[0].max_pool(&pool(&[7, 7], |pool| pool.stride = vec![3, 3]))
    }),
    ("average_pool", &["x"], |x| {
        let pool = pool(&[3, 3], |pool| {
            pool.stride = vec![2, 2];
            pool.padding = vec![(1, 1), (1, 1)];
            pool.ceil = true;
        });
        x[0].average_pool(&pool, true)
    }),
    ("average_pool_true", &["x"], |x| {
        let pool = pool(&[3, 2], |pool| {
            pool.stride = vec![2, 2];
            pool.padding = vec![(1, 1), (1, 1)];
            pool.ceil = true;
        });
        x[0].average_pool(&pool, false)
    }),
    ("average_pool_global", &["x"], |x| {
        x[0].average_pool(&Pool::of(&[5, 4]), true)
    }),
    ("pad", &["x"], |x| x[0].pad(&[(0, 3), (1, 2)], 0.5)),
    ("concat", &["a", "b"], |x| {
        x[0].graph().concat(&[x[0], x[1], x[0]], 1)
    }),
];

/// Every operation of the fixtures on a device: result and gradients, row by row.
/// Attention of the operands in the fixture's order.
fn attend<'g>(x: &[Tensor<'g>], how: Attention) -> Tensor<'g> {
    x[0].attention(x[1], x[2], &how, x.get(3).copied())
}

const QKV: &[&str] = &["query", "key", "value"];
const MASKED: &[&str] = &["query", "key", "value", "mask"];
const LABELLED: &[&str] = &["logits", "labels"];

const fn labels(ignore_index: Option<u32>, label_smoothing: f64) -> CrossEntropy {
    CrossEntropy {
        ignore_index,
        label_smoothing,
    }
}

const ATTENTION: &[Reference] = &[
    ("attention", QKV, |x| attend(x, Attention::default())),
    ("attention_causal", QKV, |x| attend(x, Attention::causal())),
    ("attention_offset", QKV, |x| attend(x, Attention::causal())),
    ("attention_window", QKV, |x| {
        let window = Some(3);
        attend(
            x,
            Attention {
                window,
                ..Attention::causal()
            },
        )
    }),
    ("attention_near", QKV, |x| {
        let window = Some(3);
        attend(
            x,
            Attention {
                window,
                ..Attention::default()
            },
        )
    }),
    ("attention_grouped", QKV, |x| {
        let scale = Some(0.3);
        attend(
            x,
            Attention {
                scale,
                ..Attention::causal()
            },
        )
    }),
    ("attention_bias", MASKED, |x| {
        attend(x, Attention::default())
    }),
    ("attention_mask", MASKED, |x| {
        let mask = x[3].cast(DType::Bool);
        attend(&[x[0], x[1], x[2], mask], Attention::default())
    }),
    ("rope_interleaved", &["x"], |x| {
        x[0].rope(2, Pairs::Interleaved, 100.0)
    }),
    ("rope_halves", &["x"], |x| {
        x[0].rope(2, Pairs::Halves, 100.0)
    }),
    ("masked_softmax", &["x", "seen"], |x| {
        x[0].masked_softmax(x[1].cast(DType::Bool))
    }),
    ("cross_entropy_ignoring", LABELLED, |x| {
        x[0].cross_entropy_with(x[1], &labels(Some(1), 0.0))
    }),
    ("cross_entropy_all_ignored", LABELLED, |x| {
        x[0].cross_entropy_with(x[1], &labels(Some(2), 0.0))
    }),
    ("cross_entropy_smoothed", LABELLED, |x| {
        x[0].cross_entropy_with(x[1], &labels(None, 0.1))
    }),
    ("cross_entropy_smoothed_ignoring", LABELLED, |x| {
        x[0].cross_entropy_with(x[1], &labels(Some(1), 0.2))
    }),
    ("cross_entropy_rows", LABELLED, |x| {
        x[0].cross_entropy_rows_with(x[1], &labels(Some(1), 0.2))
    }),
    ("binary_cross_entropy", &["logits", "target"], |x| {
        x[0].binary_cross_entropy(x[1])
    }),
];

fn check_references(device: &Device, rewrites: Rewrites) {
    check_fixture(device, rewrites, "ops", REFERENCES, 0.0);
    check_fixture(device, rewrites, "windows", WINDOWS, 0.0);
    // A query that sees one key has a gradient of 0, of which rounding leaves a trace.
    check_fixture(device, rewrites, "attention", ATTENTION, 1e-2);
}

/// Every case of a fixture, row by row; a row small beside the largest counts as `floor` of it.
fn check_fixture(
    device: &Device,
    rewrites: Rewrites,
    file: &str,
    references: &[Reference],
    floor: f64,
) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let path = folder.join(format!("{file}.safetensors"));
    let fixture = Tensors::load(path).expect("the fixture");
    for (case, operands, build) in references {
        let graph = Graph::new();
        let mut values = Values::new();
        let mut leaf = |name: &str| {
            let array = fixture.get(&format!("{case}/{name}")).expect("an operand");
            let data = match (array.as_f32(), array.as_u32()) {
                (Some(floats), _) => floats.iter().map(|&value| f64::from(value)).collect(),
                (_, Some(integers)) => integers.iter().map(|&value| f64::from(value)).collect(),
                _ => Vec::new(),
            };
            values.insert(name.to_owned(), Array::new(array.shape().clone(), data));
            graph.input(name, array.shape(), array.dtype())
        };
        let inputs: Vec<_> = operands.iter().map(|name| leaf(name)).collect();
        let upstream = leaf("upstream");
        let result = build(&inputs);
        graph.output("out", result);
        let (graph, images) = ops::expand(&graph);
        let image = |tensor: Tensor<'_>| graph.tensor(images.get(tensor.id()).expect("an image"));
        let floats: Vec<_> = operands
            .iter()
            .zip(&inputs)
            .filter(|(_, input)| input.dtype() == DType::F32)
            .collect();
        let sources: Vec<_> = floats.iter().map(|(_, input)| image(**input)).collect();
        let found = gradients(&[(image(result), image(upstream))], &sources);
        for ((name, _), gradient) in floats.iter().zip(found) {
            graph.output(&format!("gradient/{name}"), gradient);
        }
        let mut session = Session::with_rewrites(device, 0, rewrites).expect("the device is there");
        let step = session
            .compile(&graph)
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        support::give(&mut session, step, &graph, &values);
        session.run(step).expect("a run");
        for (name, id) in graph.outputs() {
            let wide = |values: &[f32]| {
                values
                    .iter()
                    .map(|&value| f64::from(value))
                    .collect::<Vec<_>>()
            };
            let found = wide(&session.output(step, &name).expect("an output"));
            let expected = wide(
                fixture
                    .get(&format!("{case}/{name}"))
                    .expect("a result")
                    .as_f32()
                    .expect("floats"),
            );
            let width = graph.tensor(id).shape().last().max(1);
            let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
            let least = floor * expected.chunks(width).map(norm).fold(0.0, f64::max);
            for (row, (found, expected)) in
                found.chunks(width).zip(expected.chunks(width)).enumerate()
            {
                let own = norm(expected).max(1e-3);
                let error = relative_error(found, expected) * own / own.max(least);
                assert!(
                    error < 1e-4,
                    "{case} on {device}, {rewrites:?}: row {row} of {name} is off by {error}"
                );
            }
        }
    }
}

#[test]
fn the_cpu_agrees_with_pytorch() {
    check_references(&Device::cpu(), Rewrites::Off);
    check_references(&Device::cpu(), Rewrites::EGraph);
}

#[test]
fn the_gpu_agrees_with_pytorch() {
    let Some(device) = support::gpu() else { return };
    check_references(&device, Rewrites::Off);
    check_references(&device, Rewrites::EGraph);
}
