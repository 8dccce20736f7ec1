//! The scheduler and the plan: what kernels compute is what the graph means.

mod support;

use std::collections::HashMap;

use meganeura::autodiff::gradients;
use meganeura::egraph::{CostModel, Rewrites, optimize};
use meganeura::ir::{
    Array, DType, Domain, Graph, Init, OpDef, Pairs, Pool, Precision, Tensor, VariableKind,
};
use meganeura::layers::{Rope, SelfAttention};
use meganeura::model::{Layer, Settings};
use meganeura::ops;
use meganeura::plan::{Plan, Role};
use meganeura::schedule::kernel::{Action, Kernel, LoopKernel};
use support::interpreter::interpret;
use support::samples::{Random, relative_error, trial};

/// A graph's plan, interpreted, gives what the oracle gives for every output and update.
fn assert_plan_matches(graph: &Graph, values: &HashMap<String, Array>, what: &str) -> Plan {
    let plan = Plan::new(graph);
    let found = interpret(&plan, values);
    let expected = ops::evaluate(graph, values);
    for (name, id) in graph.outputs() {
        let error = relative_error(&found[&name], &expected[id.index()].data);
        assert!(
            error < 1e-6,
            "{what}: output `{name}` is off by {error}\n{plan}"
        );
    }
    let variables = graph.variables();
    for (variable, value) in graph.updates() {
        let (variable, _) = variables.iter().find(|(_, id)| *id == variable).unwrap();
        let error = relative_error(&found[&variable.name], &expected[value.index()].data);
        assert!(
            error < 1e-6,
            "{what}: `{}` is off by {error}\n{plan}",
            variable.name
        );
    }
    plan
}

#[test]
fn every_op_and_its_gradient_is_planned_as_it_means() {
    for def in ops::all() {
        let def: &'static OpDef = def;
        for case in (def.cases)() {
            let graph = Graph::new();
            let (trial, values) = trial(&graph, def, &case);
            graph.output("result", trial.result);
            graph.output("output", trial.output);
            assert!(
                graph.errors().is_empty(),
                "{}: {:?}",
                def.name,
                graph.errors()
            );
            let (graph, images) = ops::expand(&graph);
            let image = |tensor: Tensor<'_>| graph.tensor(images.get(tensor.id()).unwrap());
            if trial.output.dtype() == DType::F32 {
                let sources: Vec<_> = trial
                    .operands
                    .iter()
                    .filter(|operand| operand.dtype() == DType::F32)
                    .map(|operand| image(*operand))
                    .collect();
                let seeds = [(image(trial.output), image(trial.upstream))];
                for (index, gradient) in gradients(&seeds, &sources).into_iter().enumerate() {
                    graph.output(&format!("gradient {index}"), gradient);
                }
            }
            assert!(
                graph.errors().is_empty(),
                "{}: {:?}",
                def.name,
                graph.errors()
            );
            assert_plan_matches(&graph, &values, &format!("{} {case:?}", def.name));
        }
    }
}

/// The only kernel of a plan, a loop.
fn only_loop(plan: &Plan) -> &LoopKernel {
    let [kernel] = &plan.kernels[..] else {
        panic!("one kernel expected\n{plan}");
    };
    match &kernel.action {
        Action::Loop(kernel) => kernel,
        _ => panic!("a loop expected\n{plan}"),
    }
}

#[test]
fn sums_over_what_lies_together_are_long_rows() {
    let graph = Graph::new();
    let x = graph.input("x", [4, 3, 5, 6], DType::F32);
    graph.output("channels", x.exp().sum(&[0, 2, 3]));
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "sums");
    let kernel = only_loop(&plan);
    assert_eq!((&kernel.outer[..], kernel.columns), (&[4, 3][..], 30));

    // Rows that are wanted one by one stay, and what counts once for each row counts as often.
    let graph = Graph::new();
    let x = graph.input("x", [4, 3, 5, 6], DType::F32);
    let y = graph.input("y", [4, 3, 1, 1], DType::F32);
    graph.output("rows", x.sum(&[3]));
    graph.output("repeated", (x.sum(&[3]) * y).sum(&[0, 2]));
    graph.output(
        "once",
        (x + y).sum(&[0, 2, 3]) + y.broadcast([4, 3, 5, 1]).sum(&[0, 2]),
    );
    assert_plan_matches(&graph, &random_leaves(&graph), "rows and sums");
}

#[test]
fn a_whole_put_together_is_filled_and_then_written_piece_by_piece() {
    let graph = Graph::new();
    let x = graph.input("x", [2, 5], DType::F32);
    let y = graph.input("y", [2, 3], DType::F32);
    let joined = graph.concat(&[x, y], 1);
    graph.output("joined", joined);
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "concat");
    assert_eq!(plan.kernels.len(), 2, "two pieces, no fill\n{plan}");
    graph.output("padded", y.pad(&[(1, 0), (0, 2)], 3.0));
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "pad");
    assert_eq!(plan.kernels.len(), 4, "a fill and a piece more\n{plan}");
}

/// The gradient of a ReLU and a pool reads the pool's gradient and the ReLU's result, and
/// writes its own result with a border around it: no mask, no copy, nothing twice.
#[test]
fn what_a_pool_took_is_given_back_in_one_kernel() {
    let graph = Graph::new();
    let x = graph.input("x", [2, 3, 4, 6], DType::F32);
    let upstream = graph.input("upstream", [2, 3, 2, 3], DType::F32);
    let y = x.relu();
    let pooled = y.max_pool(&Pool::of(&[2, 2]));
    graph.output("pooled", pooled);
    let (graph, images) = ops::expand(&graph);
    let image = |tensor: Tensor<'_>| graph.tensor(images.get(tensor.id()).unwrap());
    let (x, y, pooled) = (image(x), image(y), image(pooled));
    let gradient = gradients(&[(pooled, image(upstream))], &[x])[0];
    graph.output("kept", y);
    graph.output("bias", gradient.sum(&[0, 2, 3]));
    let padded = gradient.pad(&[(0, 0), (0, 0), (1, 1), (1, 1)], 0.0);
    let window = padded.window(2, 3, 1, 1).window(3, 3, 1, 1);
    graph.output(
        "window",
        window
            .reshape([2, 3, 24, 9])
            .matmul(graph.constant(1.0).broadcast([9, 2])),
    );
    assert!(graph.errors().is_empty(), "{:?}", graph.errors());
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "unpooling");
    let [_, back, _] = &plan.kernels[..] else {
        panic!("forward, back and a product expected\n{plan}");
    };
    // The pool itself reads the same and needs nothing that is not there, so it is made along.
    let (large, small) = (y.shape().elements(), pooled.shape().elements());
    let bytes = 4 * (large + small + large + 3 + small);
    assert_eq!(plan.kernel_bytes(back), bytes as u64, "{plan}");
}

#[test]
fn updates_happen_at_once() {
    let graph = Graph::new();
    let a = graph.parameter("a", [4], Init::Ones);
    let b = graph.state("b", [4], Init::Zeros);
    graph.update(a, b * 2.0);
    graph.update(b, a + b);
    let c = graph.parameter("c", [4], Init::Ones);
    let d = graph.parameter("d", [4], Init::Ones);
    graph.update(c, d);
    graph.update(d, c);
    graph.output("old", a);
    assert_eq!(graph.variables()[1].0.kind, VariableKind::State);
    let values = ["a", "b", "c", "d"]
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let start = index as f64 * 10.0;
            (
                (*name).to_owned(),
                Array::new([4], vec![start, start + 1.0, start + 2.0, start + 3.0]),
            )
        });
    assert_plan_matches(&graph, &values.collect(), "updates");
}

/// Random values for every leaf of a graph.
fn random_leaves(graph: &Graph) -> HashMap<String, Array> {
    let mut random = Random::new(11);
    let inputs = graph.inputs().into_iter();
    let variables = graph
        .variables()
        .into_iter()
        .map(|(variable, id)| (variable.name, id));
    let leaves = inputs.chain(variables).map(|(name, id)| {
        let ty = graph.tensor(id).ty();
        let domain = if ty.dtype == DType::U32 {
            Domain::Indices(2)
        } else {
            Domain::Uniform(-1.0, 1.0)
        };
        (name, random.array(&ty.shape, domain))
    });
    leaves.collect()
}

/// The graph in primitives, with an update by plain descent for every variable.
fn with_descent(graph: &Graph, loss: Tensor<'_>) -> Graph {
    let (graph, images) = ops::expand(graph);
    let loss = graph.tensor(images.get(loss.id()).expect("an image"));
    let variables = graph.variables();
    let sources: Vec<Tensor<'_>> = variables.iter().map(|(_, id)| graph.tensor(*id)).collect();
    let found = gradients(&[(loss, graph.constant(1.0))], &sources);
    for (variable, gradient) in sources.into_iter().zip(found) {
        graph.update(variable, variable - gradient * 0.1);
    }
    graph
}

#[test]
fn a_weights_update_shares_the_kernel_of_its_gradient() {
    let graph = Graph::new();
    let x = graph.input("x", [6, 20], DType::F32);
    let labels = graph.input("labels", [6], DType::U32);
    let first = graph.parameter("first", [20, 9], Init::Zeros);
    let bias = graph.parameter("bias", [9], Init::Zeros);
    let second = graph.parameter("second", [9, 4], Init::Zeros);
    let hidden = (x.matmul(first) + bias).relu();
    let loss = hidden.matmul(second).cross_entropy(labels);
    graph.output("loss", loss);
    let graph = with_descent(&graph, loss);
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "a small classifier");
    // Forward 2, softmax with its gradient 1, the mean's factor 1, input gradient with that of
    // the bias 1, weight gradients with updates 2, the bias's update 1.
    assert_eq!(plan.kernels.len(), 8, "{plan}");
    let temporaries = plan
        .buffers
        .iter()
        .filter(|buffer| matches!(buffer.role, Role::Temporary { .. }));
    for buffer in temporaries {
        assert!(
            ![180, 36].contains(&buffer.elements),
            "a weight gradient went through memory\n{plan}"
        );
    }
}

#[test]
fn a_norm_forward_and_backward_is_one_kernel_that_moves_what_it_must() {
    let (rows, width) = (24, 16);
    let graph = Graph::new();
    let x = graph.parameter("x", [rows, width], Init::Zeros);
    let weight = graph.parameter("weight", [width], Init::Ones);
    let bias = graph.parameter("bias", [width], Init::Zeros);
    let target = graph.input("target", [rows, width], DType::F32);
    let loss = (x.layer_norm(weight, bias, 1e-5) * target).sum_all();
    graph.output("loss", loss);
    let (graph, images) = ops::expand(&graph);
    let image = |tensor: Tensor<'_>| graph.tensor(images.get(tensor.id()).expect("an image"));
    let sources = [image(x), image(weight), image(bias)];
    let seeds = [(image(loss), graph.constant(1.0))];
    for (index, gradient) in gradients(&seeds, &sources).into_iter().enumerate() {
        graph.output(&format!("gradient {index}"), gradient);
    }
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "a layer norm");
    assert_eq!(plan.kernels.len(), 1, "{plan}");
    // x and target are read, the gradient of x is written, once each; the rest are the
    // weight, the bias, their gradients and the loss.
    assert_eq!(
        plan.bytes_moved() as usize,
        4 * (3 * rows * width + 4 * width + 1)
    );
}

#[test]
fn views_cost_nothing_until_only_a_copy_will_do() {
    let graph = Graph::new();
    let x = graph.input("x", [4, 6], DType::F32);
    graph.output("seen", x.swap_last().exp());
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "a transpose");
    assert_eq!(plan.kernels.len(), 1, "{plan}");

    // Flattened, the transpose has no strides; whoever reads it elementwise needs none.
    graph.output("flat", x.swap_last().reshape([24]).exp());
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "a transpose, flattened");
    assert_eq!(plan.kernels.len(), 1, "{plan}");

    // A contraction wants strides: now there is a copy.
    let row = x.swap_last().reshape([1, 24]);
    graph.output("product", row.matmul(graph.input("w", [24, 3], DType::F32)));
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "a transpose, contracted");
    assert_eq!(plan.kernels.len(), 2, "{plan}");
}

#[test]
fn temporaries_share_the_arena_when_their_lives_do_not_meet() {
    let graph = Graph::new();
    let mut x = graph.input("x", [32, 32], DType::F32);
    let weight = graph.parameter("weight", [32, 32], Init::Ones);
    for _ in 0..10 {
        x = x.matmul(weight).tanh();
    }
    graph.output("y", x);
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "a deep net");
    assert_eq!(plan.kernels.len(), 10, "{plan}");
    assert_eq!(plan.arena_words, 2 * 32 * 32, "{plan}");
    let epilogues = plan
        .kernels
        .iter()
        .filter(|kernel| matches!(kernel.action, Action::Contract(_)));
    assert_eq!(epilogues.count(), 10);
}

#[test]
fn a_residual_block_of_rank_three_is_planned_as_it_means() {
    let graph = Graph::new();
    let x = graph.input("x", [2, 5, 8], DType::F32);
    let scale = graph.parameter("scale", [8], Init::Ones);
    let position = graph.parameter("position", [5, 8], Init::Ones);
    let up = graph.parameter("up", [8, 12], Init::Ones);
    let down = graph.parameter("down", [12, 8], Init::Ones);
    let y = x + position;
    let y = y + y.rms_norm(scale, 1e-5).matmul(up).gelu().matmul(down);
    let loss = y.square().mean_all();
    graph.output("loss", loss);
    let graph = with_descent(&graph, loss);
    assert_plan_matches(&graph, &random_leaves(&graph), "a residual block");
}

#[test]
fn what_is_made_of_leaves_is_computed_where_it_is_read() {
    let graph = Graph::new();
    let x = graph.input("x", [6, 8], DType::F32);
    let weight = graph.parameter("weight", [8, 5], Init::Ones);
    let moment = graph.state("moment", [8, 5], Init::Zeros);
    let mean = graph.input("mean", [8], DType::F32);
    // The scaled input is a prologue, the moment's decay part of the epilogue.
    let y = ((x - mean) * 0.5).matmul(weight);
    let gradient = x.swap_last().matmul(y);
    let next = moment * 0.9 + gradient * 0.1;
    graph.update(moment, next);
    graph.update(weight, weight * 0.99 - next);
    graph.output("y", y);
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "prologue and epilogue");
    assert_eq!(plan.kernels.len(), 2, "{plan}");
}

#[test]
fn a_mask_is_made_again_where_it_is_read() {
    let graph = Graph::new();
    let x = graph.input("x", [6, 8], DType::F32);
    let weight = graph.parameter("weight", [8, 5], Init::Ones);
    let second = graph.parameter("second", [5, 3], Init::Ones);
    let zero = graph.constant(0.0);
    let hidden = x.matmul(weight).maximum(zero);
    let passed = hidden.less_equal(zero);
    graph.output("y", hidden.matmul(second));
    let upstream = graph.input("upstream", [6, 3], DType::F32);
    graph.output(
        "g",
        passed.select(zero, upstream.matmul(second.swap_last())),
    );
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "a mask");
    assert_eq!(plan.kernels.len(), 3, "{plan}");
    let temporaries = plan
        .buffers
        .iter()
        .filter(|buffer| matches!(buffer.role, Role::Temporary { .. }));
    // The hidden layer, and no mask.
    assert_eq!(temporaries.count(), 1, "{plan}");
}

/// Heads side by side, `[2, 3, 4, 5]` as `[2 · 4, 3 · 5]`: no two strides address that.
fn heads(graph: &Graph) -> Tensor<'_> {
    let heads = graph.input("heads", [2, 3, 4, 5], DType::F32);
    heads.transpose(&[0, 2, 1, 3]).reshape([8, 15])
}

fn count_kernels(plan: &Plan) -> [usize; 2] {
    let contractions = plan.kernels.iter();
    let contractions = contractions.filter(|kernel| matches!(kernel.action, Action::Contract(_)));
    let contractions = contractions.count();
    [contractions, plan.kernels.len() - contractions]
}

#[test]
fn a_contraction_reads_what_no_strides_address_where_it_lies() {
    let graph = Graph::new();
    let rows = heads(&graph);
    let weight = graph.input("weight", [15, 6], DType::F32);
    graph.output("forward", rows.matmul(weight));
    let upstream = graph.input("upstream", [8, 6], DType::F32);
    graph.output("weight's gradient", rows.swap_last().matmul(upstream));
    // A batch of products, each with a weight of its own: the batch is cut in two.
    let many = graph.input("many", [3, 1, 4, 5], DType::F32);
    let shared = many.broadcast([3, 2, 4, 5]).reshape([6, 4, 5]);
    let inputs = graph.input("inputs", [6, 7, 4], DType::F32);
    graph.output("batch", inputs.matmul(shared).maximum(graph.constant(0.0)));
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "compound axes");
    assert_eq!(count_kernels(&plan), [3, 0], "{plan}");
}

#[test]
fn who_else_reads_it_has_it_copied() {
    let graph = Graph::new();
    let rows = heads(&graph);
    let weight = graph.input("weight", [15, 6], DType::F32);
    graph.output("forward", rows.matmul(weight));
    graph.output("rows", rows * 2.0);
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "a copy");
    assert_eq!(count_kernels(&plan)[0], 1, "{plan}");

    // Axes that do not nest: 15 is 3 · 5 on the left, 5 · 3 on the right.
    let graph = Graph::new();
    let rows = heads(&graph);
    let other = graph.input("other", [3, 5, 6], DType::F32);
    let other = other.transpose(&[1, 0, 2]).reshape([15, 6]);
    graph.output("product", rows.matmul(other));
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "axes that do not nest");
    assert_eq!(count_kernels(&plan)[0], 1, "{plan}");
}

/// The plan that trains an attention on so many positions.
fn attention_plan(time: usize, score_matrix: bool) -> Plan {
    let layer = SelfAttention {
        heads: 4,
        kv_heads: 2,
        causal: true,
        rope: Rope::interleaved(10_000.0),
        score_matrix,
        ..SelfAttention::from_config(SelfAttention::BASE)
    };
    let graph = Graph::new();
    let x = graph.input("x", [1, time, 64], DType::F32);
    let loss = (x + layer.forward(&graph, &[x])[0]).square().mean_all();
    graph.output("loss", loss);
    Plan::new(&with_descent(&graph, loss))
}

#[test]
fn attentions_memory_grows_with_time_and_not_with_its_square() {
    let elements = |time, score_matrix| attention_plan(time, score_matrix).arena_words as f64;
    let growth = |score_matrix| elements(4096, score_matrix) / elements(512, score_matrix);
    // Eight times the positions.
    assert!(growth(false) < 8.1, "{}", growth(false));
    assert!(growth(true) > 40.0, "{}", growth(true));
}

#[test]
fn an_attention_is_one_kernel_each_way_and_copies_nothing() {
    let plan = attention_plan(32, false);
    let attentions = plan
        .kernels
        .iter()
        .filter(|kernel| matches!(kernel.action, Action::Attention(_)));
    assert_eq!(attentions.count(), 2, "{plan}");
    // Rotations: queries and keys, forward and backward, each straight into one buffer, and
    // their table of angles.
    let loops = plan
        .kernels
        .iter()
        .filter(|kernel| matches!(kernel.action, Action::Loop(_)));
    println!("{plan}");
    assert!(loops.count() <= 9, "{plan}");
}

#[test]
fn rotated_pieces_of_one_whole_are_one_kernel() {
    let graph = Graph::new();
    let [a, b] = ["a", "b"].map(|name| graph.input(name, [3, 5, 2, 8], DType::F32));
    let rotated = [a, b].map(|x| x.rope(1, Pairs::Interleaved, 100.0).reshape([3, 5, 16]));
    let other = graph.input("other", [3, 5, 7], DType::F32);
    let whole = graph.concat(&[rotated[0], rotated[1], other], 2);
    let weight = graph.input("weight", [39, 4], DType::F32);
    graph.output("product", whole.matmul(weight));
    let (graph, _) = ops::expand(&graph);
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "rotated pieces");
    // Sines and cosines, both rotations, a copy of the rest.
    assert_eq!(count_kernels(&plan), [1, 3], "{plan}");
    // Pieces that have nothing in common but their whole stay apart.
    let graph = Graph::new();
    let [a, b] = ["a", "b"].map(|name| graph.input(name, [3, 16], DType::F32).tanh());
    let weight = graph.input("weight", [32, 4], DType::F32);
    graph.output("product", graph.concat(&[a, b], 1).matmul(weight));
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "pieces");
    assert_eq!(count_kernels(&plan), [1, 2], "{plan}");
}

#[test]
fn a_bias_gradient_is_added_up_in_the_product_that_makes_it() {
    let graph = Graph::new();
    let x = graph.input("x", [150, 20], DType::F32);
    let weight = graph.input("weight", [20, 70], DType::F32);
    let product = x.matmul(weight).maximum(graph.constant(0.0));
    graph.output("product", product);
    graph.output("columns", product.sum(&[0]));
    let plan = assert_plan_matches(&graph, &random_leaves(&graph), "sums of columns");
    assert_eq!(count_kernels(&plan), [1, 0], "{plan}");
}

/// How often values of so many elements are read or written.
fn passes_over(plan: &Plan, elements: usize) -> usize {
    let touched = |kernel: &Kernel| -> usize {
        let buffers = kernel.reads().into_iter().chain(kernel.writes());
        buffers
            .filter(|id| plan.buffer(*id).elements == elements)
            .count()
    };
    plan.kernels.iter().map(touched).sum()
}

#[test]
fn a_gated_layer_keeps_no_more_than_it_must() {
    let (rows, width, hidden) = (40, 6, 11);
    let graph = Graph::new();
    let x = graph.parameter("x", [rows, width], Init::Ones);
    let weight = |name, shape: [usize; 2]| graph.parameter(name, shape, Init::Ones);
    let gate = x.matmul(weight("gate", [width, hidden]));
    let up = x.matmul(weight("up", [width, hidden]));
    let y = (gate.silu() * up).matmul(weight("down", [hidden, width]));
    let loss = y.square().mean_all();
    graph.output("loss", loss);
    let graph = with_descent(&graph, loss);
    let (rewritten, _) = optimize(&graph, Rewrites::EGraph, &CostModel::default());
    for graph in [&graph, &rewritten] {
        let plan = assert_plan_matches(graph, &random_leaves(graph), "a gated layer");
        // With g = x·G, u = x·U and h = silu(g)·u: g is written; read, u and h written; h read
        // by the product and by the gradient of its weight; g and u read, their gradients
        // written, and each read twice.
        assert_eq!(
            passes_over(&plan, rows * hidden),
            1 + 3 + 2 + 4 + 4,
            "{plan}"
        );
    }
    // Where arithmetic costs more than memory, everything is kept that is read again.
    let slow = CostModel {
        instruction: 1.0,
        ..CostModel::default()
    };
    let kept = Plan::with_model(&graph, &slow, Precision::F32);
    assert!(passes_over(&kept, rows * hidden) > 14, "{kept}");
    assert!(kept.flops() < Plan::new(&graph).flops());
}
