// `value` if x is finite, else NaN: what x − x (0) and x / x (1) are, which compilers fold.
fn finite_or_nan$n(x: $real, value: $real) -> $real {
    let finite = (bitcast<$word>(x) & $word(0x7fffffffu)) < $word(0x7f800000u);
    return select(bitcast<$real>($word(0x7fc00000u)), value, finite);
}
