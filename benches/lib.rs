//! Benchmarks; see the files beside this one and `cargo bench -p meganeura-benches`.
