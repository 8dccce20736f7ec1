// The smaller; NaN if either is NaN (the built-in may drop it).
fn minimum$n(a: $real, b: $real) -> $real {
    return select(min(a, b), a + b, is_nan$n(a) | is_nan$n(b));
}
