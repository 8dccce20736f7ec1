//! Checkpoints of other programs in our models, and ours in theirs.

use super::fixture;
use meganeura::data::HostArray;
use meganeura::interop::safetensors::Tensors;
use meganeura::interop::weights::{Convention, WeightsError};
use meganeura::prelude::*;
use meganeura::runtime::Session;

#[derive(Model)]
#[model(config(width: usize = 8, heads: usize = 2, hidden: usize = 12), input(x: [batch, time, width]))]
struct Block {
    #[layer(residual, heads = heads, kv_heads = heads / 2, causal = true, rope = Rope::halves(10_000.0))]
    attention: PreNorm<SelfAttention>,
    #[layer(residual, hidden = hidden)]
    mlp: PreNorm<SwiGlu>,
}

/// As PyTorch has it, with one linear layer for the scores.
#[derive(Model)]
#[model(
    config(vocab: usize = 11, width: usize = 8, depth: usize = 2),
    input(tokens: [batch, time] as u32),
    output = [batch, time, vocab],
)]
struct Llama {
    #[layer(rows = vocab, width = width, rename("model.embed_tokens"))]
    embed: Embedding,
    #[layer(repeat(depth), width = width, rename("model.layers"))]
    blocks: Vec<Block>,
    #[layer(rename("model.norm"))]
    norm: RmsNorm,
    #[layer(out = vocab, bias = false, rename("lm_head"))]
    scores: Linear,
}

/// The names of what is inside a block.
fn llama() -> Convention {
    let block = "model.layers.{i}";
    let names = [
        ("attention.norm", "input_layernorm"),
        ("attention.inner.query", "self_attn.q_proj"),
        ("attention.inner.key", "self_attn.k_proj"),
        ("attention.inner.value", "self_attn.v_proj"),
        ("attention.inner.out", "self_attn.o_proj"),
        ("mlp.norm", "post_attention_layernorm"),
        ("mlp.inner.gate", "mlp.gate_proj"),
        ("mlp.inner.up", "mlp.up_proj"),
        ("mlp.inner.down", "mlp.down_proj"),
    ];
    names
        .iter()
        .fold(Convention::torch(), |names, (here, there)| {
            names.rename(&format!("{block}.{here}"), &format!("{block}.{there}"))
        })
}

fn session(model: &impl Model, dims: &[(&str, usize)]) -> (Session, Graph) {
    let graph = Graph::new();
    let out = model.build(&graph, dims);
    graph.output("out", out[0]);
    let mut session = Session::new(&Device::cpu(), 0).unwrap();
    session.declare(&graph).unwrap();
    (session, graph)
}

#[test]
fn a_checkpoint_of_pytorch_gives_what_pytorch_gives() {
    let (file, case) = (fixture("llama"), fixture("llama_case"));
    let (mut session, graph) = session(&Llama::new(), &[("batch", 2), ("time", 6)]);
    file.load_into(&mut session, &llama()).unwrap();
    let step = session.compile(&graph).unwrap();
    session
        .input(step, "tokens", case.u32("tokens", &[2, 6]).unwrap())
        .unwrap();
    session.run(step).unwrap();
    let found = session.output(step, "out").unwrap();
    let expected = case.f32("logits", &[2, 6, 11]).unwrap();
    let norm = |values: &mut dyn Iterator<Item = f32>| -> f64 {
        values
            .map(|value| f64::from(value).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    let off = norm(&mut found.iter().zip(expected).map(|(a, b)| a - b));
    let size = norm(&mut expected.iter().copied());
    assert!(off <= 1e-5 * size, "{off} of {size}");
    // And under the same names it goes back.
    assert_eq!(Tensors::of_session(&mut session, &llama()).unwrap(), file);
}

#[test]
fn all_that_differs_is_told_at_once() {
    let (mut session, _) = session(&Llama::new(), &[("batch", 1), ("time", 1)]);
    let mut file = fixture("llama");
    file.remove("model.norm.weight");
    let zeros = |shape: [usize; 2]| HostArray::new(shape, vec![0.0; shape[0] * shape[1]]).unwrap();
    file.insert("model.layers.1.mlp.up_proj.weight", zeros([8, 12]));
    file.insert(
        "lm_head.weight",
        HostArray::new([11, 8], vec![0u32; 88]).unwrap(),
    );
    file.insert("lm_head.bias", zeros([1, 11]));
    let before = session.variable("model.embed_tokens.weight").unwrap();
    let error = file.load_into(&mut session, &llama()).unwrap_err();
    assert!(matches!(error, WeightsError::Differ(_)));
    assert_eq!(
        error.to_string(),
        "the file and the model differ:\n\
         \x20 missing: `model.norm.weight`\n\
         \x20 unexpected: `lm_head.bias`\n\
         \x20 shape: `lm_head.weight` is u32 [11, 8], the model needs [11, 8]\n\
         \x20 shape: `model.layers.1.mlp.up_proj.weight` is [8, 12], the model needs [12, 8]"
    );
    // Nothing was loaded; the lenient form loads what fits.
    let embedding = |session: &mut Session| session.variable("model.embed_tokens.weight").unwrap();
    assert_eq!(embedding(&mut session), before);
    let difference = file.load_matching(&mut session, &llama()).unwrap();
    assert_eq!(difference.unexpected, ["lm_head.bias"]);
    let expected = file.f32("model.embed_tokens.weight", &[11, 8]).unwrap();
    assert_eq!(embedding(&mut session), expected);
}
