//! Placeholder until the suite lands.
#[test]
fn links() {}
