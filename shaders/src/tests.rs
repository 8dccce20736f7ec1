use super::*;

fn validate(source: &str) {
    let module = match naga::front::wgsl::parse_str(source) {
        Ok(module) => module,
        Err(error) => panic!("{}\n{source}", error.emit_to_string(source)),
    };
    let flags = naga::valid::ValidationFlags::all() ^ naga::valid::ValidationFlags::BINDINGS;
    let mut validator = naga::valid::Validator::new(flags, naga::valid::Capabilities::empty());
    if let Err(error) = validator.validate(&module) {
        panic!("{}\n{source}", error.emit_to_string(source));
    }
}

const DECLARATIONS: &str = "\
var<storage, read> b0: array<f32>;
var<storage, read_write> b1: array<f32>;";

/// Fills the placeholders that all kernels share, and some numbers.
fn instantiate(template: &str, more: &[(&str, &str)]) {
    let mut values = vec![("declarations", DECLARATIONS), ("functions", "")];
    for name in [
        "workgroup",
        "items",
        "rows",
        "threads",
        "results",
        "steps",
        "blocks",
        "k",
    ] {
        values.push((name, "8u"));
    }
    for name in [
        "groups_per_batch",
        "groups_across",
        "lanes_across",
        "lanes_down",
        "batches",
    ] {
        values.push((name, "4u"));
    }
    for name in [
        "tiles_across",
        "tiles_down",
        "works",
        "width",
        "count",
        "strips",
    ] {
        values.push((name, "4u"));
    }
    values.extend(lane_types(1));
    // Later values win, so that a test can override the shared ones.
    values.reverse();
    values.splice(0..0, more.iter().copied());
    validate(&fill(template, &values));
}

#[test]
fn elementwise_and_row_templates_are_valid() {
    instantiate(POINTWISE, &[("body", "b1[item] = b0[item];")]);
    instantiate(ROWS_SERIAL, &[("body", "b1[row] = b0[row + first];")]);
    let shared = "var<workgroup> shared0: array<f32, 8>;";
    let body = "shared0[lane] = b0[row];\nworkgroupBarrier();\nif inside && first == 0u { b1[row] = shared0[0]; }";
    instantiate(ROWS_PARALLEL, &[("shared", shared), ("body", body)]);
    instantiate(
        FOLD,
        &[
            ("before", "var sum = 0.0;"),
            (
                "loop",
                "for (var step = block; step < 8u; step += 1u) {\n    sum += b0[step];\n}",
            ),
            ("after", "b1[result] = sum;"),
        ],
    );
}

#[test]
fn contraction_templates_are_valid() {
    let before = "var sum = vec4<f32>();";
    instantiate(
        CONTRACT_REGISTERS,
        &[
            ("before", before),
            ("step", "sum += vec4<f32>(b0[k]);"),
            ("after", "b1[tile_row + tile_column + batch] = sum.x;"),
        ],
    );
    instantiate(
        CONTRACT_TILES,
        &[
            ("strip", "8u"),
            ("left_size", "64"),
            ("right_size", "64"),
            ("tile_rows", "8u"),
            ("tile_columns", "8u"),
            ("before", before),
            (
                "fill",
                "left_strip[lane] = vec4<f32>(b0[start]);\nright_strip[lane] = vec4<f32>();",
            ),
            ("step", "sum = fma(left_strip[k], right_strip[k], sum);"),
            (
                "after",
                "b1[lane_row + lane_column + batch + tile_row + tile_column] = sum.x;",
            ),
        ],
    );
}

#[test]
fn index_templates_are_valid() {
    for lanes in [1, 4] {
        let real = lane_types(lanes)[0].1;
        let declarations = format!(
            "var<storage, read> b0: array<{real}>;\nvar<storage, read> b1: array<u32>;\n\
             var<storage, read_write> b2: array<{real}>;\nvar<storage, read_write> b3: array<u32>;"
        );
        let mut more = lane_types(lanes).to_vec();
        more.extend([
            ("declarations", declarations.as_str()),
            ("table", "b0"),
            ("updates", "b0"),
            ("indices", "b1"),
            ("output", "b2"),
            ("rounded", ""),
            ("next", "b3"),
        ]);
        instantiate(GATHER, &more);
        instantiate(SCATTER_LINK, &more);
        instantiate(SCATTER_ADD, &more);
        instantiate(CLEAR, &more);
    }
}

#[test]
fn functions_are_valid_after_what_they_call() {
    for lanes in [1, 4] {
        let mut source = String::new();
        for (index, function) in FUNCTIONS.iter().enumerate() {
            for call in function.calls {
                assert!(
                    FUNCTIONS[..index]
                        .iter()
                        .any(|earlier| earlier.name == *call)
                );
            }
            source += &function.instantiate(lanes);
        }
        validate(&source);
    }
}

#[test]
fn text_of_several_lines_keeps_the_indentation() {
    let template = "fn f() {\n    $body\n}\n// $a and $b.";
    let filled = fill(template, &[("body", "x;\n\ny;"), ("a", "1"), ("b", "2")]);
    assert_eq!(filled, "fn f() {\n    x;\n\n    y;\n}\n// 1 and 2.\n");
}

#[test]
#[should_panic(expected = "$missing has no value")]
fn a_placeholder_without_a_value_is_a_defect() {
    fill("$missing", &[]);
}
