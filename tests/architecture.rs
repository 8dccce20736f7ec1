//! The house rules: no part knows a part to its right, and no pass knows an op by name.

use std::fs;
use std::path::{Path, PathBuf};

/// The line of stages, left to right. A part may use what stands before it.
const LINE: &[&str] = &[
    "nearest", "ir", "ops", "walk", "model", "layers", "autodiff", "egraph", "schedule", "codegen",
    "plan", "runtime", "data", "interop", "train",
];

/// Parts that must treat all ops alike. Rewrite lists name ops; they live in these files.
const PASSES: &[&str] = &[
    "autodiff", "egraph", "schedule", "codegen", "plan", "runtime",
];
const RULE_FILES: &[&str] = &["rules"];

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
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
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
    for (position, part) in LINE.iter().enumerate() {
        for path in sources(part) {
            let code = code(&path);
            seen += 1;
            for right in &LINE[position + 1..] {
                assert!(
                    !code.contains(&format!("crate::{right}::"))
                        && !code.contains(&format!("crate::{right};")),
                    "{} uses `{right}`, which stands to the right of `{part}`",
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
        let known = LINE.contains(&name) || ["prelude", "guide", "__private"].contains(&name);
        assert!(
            known,
            "`{name}` is in lib.rs but has no place in the line of stages"
        );
    }
}

#[test]
fn passes_know_no_op_by_name() {
    let ops: Vec<String> = meganeura::ops::all()
        .iter()
        .map(|op| format!("\"{}\"", op.name))
        .collect();
    assert!(ops.len() > 30);
    for part in PASSES {
        for path in sources(part) {
            if path.components().any(|part| {
                RULE_FILES
                    .iter()
                    .any(|file| part.as_os_str().to_string_lossy().trim_end_matches(".rs") == *file)
            }) {
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
}

#[test]
fn op_names_are_unique() {
    let mut names: Vec<&str> = meganeura::ops::all().iter().map(|op| op.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
