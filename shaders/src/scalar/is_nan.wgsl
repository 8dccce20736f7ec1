// Compilers may assume that NaN does not occur and fold `x != x`; they cannot fold bits.
fn is_nan$n(x: $real) -> $truth {
    return (bitcast<$word>(x) & $word(0x7fffffffu)) > $word(0x7f800000u);
}
