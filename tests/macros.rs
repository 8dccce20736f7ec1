//! The derive macro as its users meet it: what compiles, and what is said when something does not.
//!
//! After a change of a message, run `TRYBUILD=overwrite cargo test --test macros` and read the
//! difference.

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
