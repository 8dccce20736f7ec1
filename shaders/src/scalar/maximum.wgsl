// The larger; NaN if either is NaN (the built-in may drop it).
fn maximum$n(a: $real, b: $real) -> $real {
    return select(max(a, b), a + b, is_nan$n(a) | is_nan$n(b));
}
