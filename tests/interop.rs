//! Files of other programs: what PyTorch wrote is what we read.

#[path = "interop/checkpoints.rs"]
mod checkpoints;

use std::path::Path;

use meganeura::interop::safetensors::Tensors;

fn fixture(name: &str) -> Tensors {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    Tensors::load(folder.join(format!("{name}.safetensors"))).unwrap()
}

fn close(found: f32, expected: f64) {
    let error = (f64::from(found) - expected).abs();
    assert!(
        error <= 1e-6 * expected.abs().max(1.0),
        "{found} for {expected}"
    );
}

#[test]
fn models_have_their_parameters_by_path() {
    let norms = [("input_norm", 12), ("hidden_norm", 16), ("deep_norm", 16)];
    let linears = [("hidden.0", 12, 16), ("deep.0", 16, 16), ("scores", 16, 5)];
    for (name, norm_fields) in [
        ("layer_norm_mlp", &["weight", "bias"][..]),
        ("rms_norm_mlp", &["weight"]),
    ] {
        let model = fixture(name);
        model.f32("input/features", &[8, 12]).unwrap();
        assert!(
            model
                .u32("input/labels", &[8])
                .unwrap()
                .iter()
                .all(|&label| label < 5)
        );
        let kinds = ["parameter", "gradient", "upstream/gradient"];
        for kind in kinds
            .into_iter()
            .chain(["sgd/parameter", "adamw/parameter"])
        {
            let mut parameters = 0;
            for (path, width) in norms {
                for field in norm_fields {
                    model
                        .f32(&format!("{kind}/{path}.{field}"), &[width])
                        .unwrap();
                    parameters += 1;
                }
            }
            for (path, inputs, outputs) in linears {
                model
                    .f32(&format!("{kind}/{path}.weight"), &[inputs, outputs])
                    .unwrap();
                model
                    .f32(&format!("{kind}/{path}.bias"), &[outputs])
                    .unwrap();
                parameters += 2;
            }
            let prefix = format!("{kind}/");
            let names = model.iter().map(|(name, _)| name);
            let own =
                names.filter(|name| name.starts_with(&prefix) && !name.ends_with("/features"));
            assert_eq!(own.count(), parameters, "{kind} of {name}");
        }
    }
}

#[test]
fn losses_follow_from_the_logits_and_fall() {
    for name in ["layer_norm_mlp", "rms_norm_mlp"] {
        let model = fixture(name);
        let logits = model.f32("output/logits", &[8, 5]).unwrap();
        let labels = model.u32("input/labels", &[8]).unwrap();
        let row_losses = logits.chunks(5).zip(labels).map(|(row, &label)| {
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            sum.ln() - f64::from(row[label as usize])
        });
        let loss = row_losses.sum::<f64>() / 8.0;
        close(model.f32("output/loss", &[]).unwrap()[0], loss);
        let mean = logits.iter().map(|&logit| f64::from(logit)).sum::<f64>() / 40.0;
        close(
            model.f32("upstream/loss", &[]).unwrap()[0],
            3.0 * loss - 0.5 * mean,
        );
        for optimizer in ["sgd", "adamw"] {
            let losses = model.f32(&format!("{optimizer}/losses"), &[10]).unwrap();
            close(losses[0], loss);
            assert!(
                losses.windows(2).all(|pair| pair[1] < pair[0]),
                "{losses:?}"
            );
        }
    }
}

#[test]
fn training_moved_every_parameter() {
    for name in ["layer_norm_mlp", "rms_norm_mlp"] {
        let model = fixture(name);
        for (parameter, start) in model.iter() {
            let Some(path) = parameter.strip_prefix("parameter/") else {
                continue;
            };
            for optimizer in ["sgd", "adamw"] {
                let end = model.get(&format!("{optimizer}/parameter/{path}")).unwrap();
                assert_eq!(end.shape(), start.shape());
                assert_ne!(end, start, "{path} under {optimizer}");
            }
        }
    }
}

#[test]
fn the_embedding_gradient_counts_every_repetition() {
    let ops = fixture("ops");
    let indices = ops.u32("embedding/indices", &[2, 3]).unwrap();
    let table = ops.f32("embedding/table", &[6, 4]).unwrap();
    let out = ops.f32("embedding/out", &[2, 3, 4]).unwrap();
    let upstream = ops.f32("embedding/upstream", &[2, 3, 4]).unwrap();
    let mut gradient = [[0.0_f64; 4]; 6];
    for (position, &row) in indices.iter().enumerate() {
        for column in 0..4 {
            let at = position * 4 + column;
            assert_eq!(out[at], table[row as usize * 4 + column]);
            gradient[row as usize][column] += f64::from(upstream[at]);
        }
    }
    let found = ops.f32("embedding/gradient/table", &[6, 4]).unwrap();
    for (&found, &expected) in found.iter().zip(gradient.as_flattened()) {
        close(found, expected);
    }
}

#[test]
fn what_pytorch_wrote_survives_our_writer() {
    let path = std::env::temp_dir().join(format!("ops-{}.safetensors", std::process::id()));
    let ops = fixture("ops");
    ops.save(&path).unwrap();
    let again = Tensors::load(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(again.unwrap(), ops);
}
