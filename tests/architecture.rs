//! The house rules: no part knows a part to its right, and no pass knows an op by name.

use std::fs;
use std::path::{Path, PathBuf};

use meganeura::ir::Lowering;

/// The line of stages, left to right. A part may use what stands before it, and what stands in
/// the same place.
const LINE: &[&[&str]] = &[
    &["nearest"],
    &["ir"],
    &["ops"],
    &["walk", "model"],
    &["layers"],
    &["autodiff"],
    &["siblings"],
    &["egraph"],
    &["schedule"],
    &["codegen"],
    &["plan"],
    &["runtime"],
    &["data"],
    &["interop"],
    &["train"],
];

/// Parts that must treat all ops alike.
const PASSES: &[&str] = &[
    "autodiff", "siblings", "egraph", "schedule", "codegen", "plan", "runtime",
];

/// Files of passes that may hold words that are also names of ops: lists of rewrites, and the
/// spelling of scalar instructions in WGSL.
const EXEMPT: &[&str] = &["egraph/rules", "codegen/scalar.rs"];

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("meganeura/src")
}

/// All source files of a part, which is a folder or a file.
fn sources(part: &str) -> Vec<PathBuf> {
    let (file, folder) = (library().join(format!("{part}.rs")), library().join(part));
    let mut found = Vec::new();
    if file.exists() {
        found.push(file);
    }
    let mut open = vec![folder];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                // Test modules may name what they like.
                if !path.ends_with("tests") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("tests.rs")
            {
                found.push(path);
            }
        }
    }
    found
}

/// The code of a file without comments and without its test module, which stands last.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn no_part_knows_a_part_to_its_right() {
    let mut seen = 0;
    for (position, parts) in LINE.iter().enumerate() {
        for path in parts.iter().flat_map(|part| sources(part)) {
            let code = code(&path);
            seen += 1;
            for right in LINE[position + 1..].iter().copied().flatten() {
                let uses = [format!("crate::{right}::"), format!("crate::{right};")];
                assert!(
                    !uses.iter().any(|text| code.contains(text)),
                    "{} uses `{right}`, which stands further right",
                    path.display()
                );
            }
        }
    }
    assert!(
        seen > 40,
        "found only {seen} source files: has the library moved?"
    );
}

#[test]
fn every_part_stands_in_the_line() {
    let lib = code(&library().join("lib.rs"));
    for line in lib.lines() {
        let Some(name) = line.trim().trim_start_matches("pub ").strip_prefix("mod ") else {
            continue;
        };
        let name = name.trim_end_matches(';');
        let known = LINE.iter().any(|parts| parts.contains(&name))
            || ["prelude", "guide", "__private"].contains(&name);
        assert!(
            known,
            "`{name}` is in lib.rs but has no place in the line of stages"
        );
    }
}

#[test]
fn passes_know_no_op_by_name() {
    // Leaves are part of the vocabulary; everything else is an op like any other.
    let ops: Vec<String> = meganeura::ops::all()
        .iter()
        .filter(|op| {
            !matches!(
                op.lowering,
                Lowering::Leaf | Lowering::Constant | Lowering::Index
            )
        })
        .map(|op| format!("\"{}\"", op.name))
        .collect();
    assert!(ops.len() > 30);
    for path in PASSES.iter().flat_map(|part| sources(part)) {
        let own = path
            .strip_prefix(library())
            .expect("a file of the library")
            .to_string_lossy()
            .into_owned();
        if own.ends_with("tests.rs") {
            continue;
        }
        if EXEMPT.iter().any(|exempt| own.starts_with(exempt)) {
            continue;
        }
        let code = code(&path);
        for op in &ops {
            assert!(
                !code.contains(op.as_str()),
                "{} names the op {op}",
                path.display()
            );
        }
    }
}

#[test]
fn op_names_are_unique() {
    let mut names: Vec<&str> = meganeura::ops::all().iter().map(|op| op.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
