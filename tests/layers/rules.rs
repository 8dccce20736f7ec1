//! Shape rules: what they say, and that they say what the graph does.

use meganeura::prelude::*;

const BATCH: Dim = Dim::free("batch");

fn image(channels: usize, height: Dim) -> Dims {
    Dims::of(&[BATCH, Dim::of(channels), height, Dim::of(6)]).named("x")
}

fn rule(layer: &dyn Layer, x: &[Dims]) -> Result<String, String> {
    let out = layer.shape(&Shapes::many(x));
    match out.failed() {
        true => Err(out.problem().to_string()),
        false => Ok(out.first().to_string()),
    }
}

fn says(layer: &dyn Layer, x: &[Dims], expected: &str) {
    assert_eq!(rule(layer, x), Err(expected.to_owned()));
}

fn gives(layer: &dyn Layer, x: &[Dims], expected: &str) {
    assert_eq!(rule(layer, x), Ok(expected.to_owned()));
}

#[test]
fn free_dims_stay_free() {
    let x = image(4, Dim::free("height"));
    gives(&Upsample { factor: 3 }, &[x], "[batch, 4, 3*height, 18]");
    gives(&GlobalAveragePool, &[x], "[batch, 4]");
    gives(&SwapLast, &[x], "[batch, 4, 6, height]");
    gives(&Select { axis: 2, index: 9 }, &[x], "[batch, 4, 6]");
    gives(&BatchNorm::BASE, &[x], "[batch, 4, height, 6]");
    let more = image(3, Dim::free("height"));
    gives(&Concat::BASE, &[x, more, x], "[batch, 11, height, 6]");
}

#[test]
fn mistakes_are_told_with_both_shapes() {
    let (x, y) = (image(4, Dim::of(8)), image(4, Dim::of(9)).named("y"));
    says(
        &Concat::BASE,
        &[x, y],
        "puts [batch, 4, 8, 6] (`x`) beside [batch, 4, 9, 6] (`y`): they may differ along axis 1 only",
    );
    says(
        &Concat { axis: 4 },
        &[x],
        "works along axis 4, but is given [batch, 4, 8, 6] (`x`)",
    );
    let groups = GroupNorm {
        groups: 3,
        ..GroupNorm::BASE
    };
    says(&groups, &[x], "cannot split 4 channels into 3 groups");
    let flat = Dims::of(&[BATCH]).named("x");
    says(
        &BatchNorm::BASE,
        &[flat],
        "takes [batch, channels, ..], but is given [batch] (`x`)",
    );
    says(
        &SwapLast,
        &[flat],
        "exchanges the last two axes, but is given [batch] (`x`)",
    );
    says(
        &Select { axis: 2, index: 8 },
        &[x],
        "takes place 8 along axis 2, but is given [batch, 4, 8, 6] (`x`)",
    );
    let text = |time| Dims::of(&[BATCH, Dim::of(time), Dim::of(6)]).named("x");
    says(
        &Positions { rows: 4 },
        &[text(5)],
        "knows 4 positions but is given [batch, 5, 6] (`x`)",
    );
    let cross = |heads| CrossAttention {
        heads,
        bias: Biases::None,
    };
    says(
        &cross(4),
        &[text(5), text(3)],
        "cannot split width 6 into 4 heads",
    );
    let other = Dims::of(&[Dim::of(2), Dim::of(3), Dim::of(6)]).named("y");
    says(
        &cross(2),
        &[text(5), other],
        "looks from [batch, 5, 6] (`x`) at [2, 3, 6] (`y`): the batches differ",
    );
}

#[test]
fn rules_say_what_the_graph_does() {
    let groups = GroupNorm {
        groups: 2,
        ..GroupNorm::BASE
    };
    let select = Select { axis: 3, index: 5 };
    let layers: [&dyn Layer; 9] = [
        &BatchNorm::BASE,
        &groups,
        &Dropout::BASE,
        &Upsample::BASE,
        &Concat::BASE,
        &GlobalAveragePool,
        &SwapLast,
        &select,
        &Flatten,
    ];
    for layer in layers {
        let graph = Graph::training();
        let x = graph.input("x", [3, 4, 5, 6], DType::F32);
        let out = layer.forward(&graph, &[x])[0];
        assert_eq!(graph.errors(), [], "{}", layer.kind());
        let dims = Dims::of(&[3, 4, 5, 6].map(Dim::of)).with_dtype(DType::F32);
        gives(layer, &[dims], &out.shape().to_string());
    }
}
