// The nearest number of 8 significant bits, of two the even one.
fn bfloat16$n(x: $real) -> $real {
    let bits = bitcast<$word>(x);
    let even = (bits >> $word(16u)) & $word(1u);
    let nearest = bits + $word(0x7fffu) + even;
    let number = select(nearest, bits | $word(0x400000u), is_nan$n(x));
    return bitcast<$real>(number & $word(0xffff0000u));
}
