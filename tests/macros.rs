//! The derive macro as its users meet it: what compiles, and what is said when something does not.
//!
//! After a change of a message, run `TRYBUILD=overwrite cargo test --test macros` and read the
//! difference.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn models() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    for class in [
        "attributes",
        "words",
        "names",
        "settings",
        "shapes",
        "arity",
        "dtypes",
        "dims",
        "generics",
        "enums",
        "ties",
        "optional",
        "init",
        "opaque",
        "layers",
        "checks",
        "unions",
    ] {
        cases.compile_fail(format!("tests/ui/{class}/*.rs"));
    }
}

/// A crate of its own around `tests/user/lib.rs`.
struct UserCrate {
    folder: PathBuf,
}

impl UserCrate {
    fn new() -> UserCrate {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("user");
        fs::create_dir_all(&folder).expect("a folder");
        let manifest = format!(
            "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
             [lib]\npath = {:?}\n\
             [dependencies]\nmeganeura = {{ path = {:?}, default-features = false }}\n\
             [workspace]\n",
            root.join("tests/user/lib.rs"),
            root.join("meganeura"),
        );
        fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).expect("a lock file");
        UserCrate { folder }
    }

    fn cargo(&self, arguments: &[&str], after: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO"));
        command.args(arguments).args(["--quiet", "--offline"]);
        command
            .arg("--manifest-path")
            .arg(self.folder.join("Cargo.toml"));
        command.arg("--target-dir").arg(self.folder.join("target"));
        command.args(after).output().expect("cargo runs")
    }
}

fn assert_silent(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn pedantic_lints_and_rustdoc_know_a_users_crate() {
    let user = UserCrate::new();
    let lints = ["--", "-W", "clippy::pedantic", "-D", "warnings"];
    assert_silent(&user.cargo(&["clippy"], &lints));
    assert_silent(&user.cargo(&["doc", "--no-deps"], &[]));
    let page = user.folder.join("target/doc/user/struct.Everything.html");
    let page = fs::read_to_string(page).expect("a page about the model");
    for line in [
        "input <code>tokens</code>: <code>[batch, time] as u32</code>",
        "input <code>bias</code>: <code>[batch, time, width]</code>",
        "layer <code>embed</code>: <code>Embedding</code> with <code>rows = vocab</code>, \
         <code>width = width</code>",
        "layers <code>blocks</code>: <code>depth</code> times <code>Block</code>",
        "layer <code>norm</code>: <code>(RmsNorm, RmsNorm)</code>",
        "layer <code>logits</code>: <code>Unembedding</code> with the parameters of \
         <code>embed</code>",
        "output: <code>[batch, time, vocab]</code>",
    ] {
        assert!(page.contains(line), "the page lacks `{line}`");
    }
}
