//! Every archetype as WGSL that a validator accepts; the device's tests run them.

pub(crate) mod reference;
pub(crate) mod samples;

use super::*;
use samples::{Sample, narrowed, samples};

fn validate(name: &str, source: &str) {
    let module = match naga::front::wgsl::parse_str(source) {
        Ok(module) => module,
        Err(error) => panic!("{name}: {}\n{source}", error.emit_to_string(source)),
    };
    let flags = naga::valid::ValidationFlags::all() ^ naga::valid::ValidationFlags::BINDINGS;
    let mut validator = naga::valid::Validator::new(flags, naga::valid::Capabilities::empty());
    if let Err(error) = validator.validate(&module) {
        panic!("{name}: {}\n{source}", error.emit_to_string(source));
    }
}

fn lowered(sample: &Sample, target: &Target) -> Lowered {
    lower(&sample.kernel, target, &|a, b| sample.same_place(a, b)).unwrap()
}

#[test]
fn every_sample_is_valid_for_both_targets() {
    let all = samples();
    let rounded: Vec<Sample> = all
        .iter()
        .filter_map(|sample| narrowed(sample, false))
        .collect();
    assert!(rounded.len() > 30, "{}", rounded.len());
    for sample in all.into_iter().chain(rounded) {
        for target in [Target::SOFTWARE, Target::GPU] {
            let lowered = lowered(&sample, &target);
            for shader in &lowered.shaders {
                validate(&shader.name, &shader.source);
                assert!(shader.groups.iter().all(|&n| (1..=65_535).contains(&n)));
                assert!(
                    shader.slots.iter().any(|slot| slot.writes),
                    "{}",
                    shader.name
                );
            }
        }
    }
}

#[test]
fn the_same_kernel_is_the_same_text() {
    for sample in samples() {
        for target in [Target::SOFTWARE, Target::GPU] {
            assert_eq!(lowered(&sample, &target), lowered(&sample, &target));
        }
    }
}

#[test]
fn adjacent_axes_are_one_and_columns_come_in_fours() {
    let sample = samples()
        .into_iter()
        .find(|sample| sample.kernel.name == "elementwise")
        .unwrap();
    let lowered = lowered(&sample, &Target::SOFTWARE);
    let source = &lowered.shaders[0].source;
    assert!(source.contains("array<vec4<f32>>"), "{source}");
    assert!(!source.contains('%'), "no index arithmetic: {source}");
}

#[test]
fn too_much_work_is_an_error() {
    let mut sample = samples().swap_remove(0);
    let Action::Loop(kernel) = &mut sample.kernel.action else {
        panic!("the first sample is a loop");
    };
    kernel.outer = vec![1 << 40; kernel.outer.len()];
    let error = lower(&sample.kernel, &Target::GPU, &|a, b| a == b).unwrap_err();
    assert!(matches!(error, LowerError::TooManyElements(_)), "{error}");
}

#[test]
fn groups_are_spread_over_two_axes_within_the_limit() {
    let split = |groups| Target::GPU.split_groups(groups);
    assert_eq!(split(65_535), Ok([65_535, 1, 1]));
    for groups in [65_536u64, 100_000, 65_535 * 3, 65_535 * 65_535] {
        let [x, y, z] = split(groups).unwrap();
        assert!(x <= 65_535 && y <= 65_535 && z == 1);
        assert!(u64::from(x) * u64::from(y) >= groups);
    }
    assert!(split(65_535 * 65_535 + 1).is_err());
}

/// The text of these kernels is kept, so that changes of the generator show as diffs. Write it
/// anew with `MEGANEURA_UPDATE_SNAPSHOTS=1`.
#[test]
fn kernels_read_as_they_were_reviewed() {
    let directory =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/codegen/tests/snapshots");
    let update = std::env::var("MEGANEURA_UPDATE_SNAPSHOTS").is_ok_and(|v| v == "1");
    for name in [
        "elementwise",
        "softmax",
        "layer norm backward",
        "product",
        "fused product",
        "scatter add",
        "attention",
        "attention backward",
    ] {
        let all = samples();
        // The last of its name is the largest, with most to see.
        let sample = all
            .iter()
            .rfind(|sample| sample.kernel.name == name)
            .unwrap();
        for (target, suffix) in [(Target::SOFTWARE, "software"), (Target::GPU, "gpu")] {
            let shaders = lowered(sample, &target).shaders.into_iter();
            let text: String = shaders
                .map(|shader| {
                    format!(
                        "// {}, {:?} workgroups\n{}\n",
                        shader.name, shader.groups, shader.source
                    )
                })
                .collect();
            let file = directory.join(format!("{}-{suffix}.wgsl", name.replace(' ', "_")));
            if update {
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(&file, text).unwrap();
                continue;
            }
            let known = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(
                known == text,
                "{} differs; now it is\n{text}",
                file.display()
            );
        }
    }
}
