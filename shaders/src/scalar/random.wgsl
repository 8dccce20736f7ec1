// The high half of the product of two words, from products of halves.
fn high_product$n(a: $word, b: $word) -> $word {
    let low = $word(0xffffu);
    let half = $word(16u);
    let first = (a & low) * (b & low);
    let second = (a >> half) * (b & low) + (first >> half);
    let third = (a & low) * (b >> half) + (second & low);
    return (a >> half) * (b >> half) + (second >> half) + (third >> half);
}

// A uniform number in [0, 1): the first word of Philox4x32-10 for a counter of the bits of two
// floats. Both zeros are one.
fn random$n(a: $real, b: $real) -> $real {
    var c0 = select(bitcast<$word>(a), $word(0u), a == $real(0.0));
    var c1 = select(bitcast<$word>(b), $word(0u), b == $real(0.0));
    var c2 = $word(0u);
    var c3 = $word(0u);
    var k0 = 0u;
    var k1 = 0u;
    for (var round = 0u; round < 10u; round++) {
        let high0 = high_product$n($word(0xd2511f53u), c0);
        let high1 = high_product$n($word(0xcd9e8d57u), c2);
        let low0 = $word(0xd2511f53u) * c0;
        let low1 = $word(0xcd9e8d57u) * c2;
        c0 = high1 ^ c1 ^ $word(k0);
        c1 = low1;
        c2 = high0 ^ c3 ^ $word(k1);
        c3 = low0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    let number = $real(c0 >> $word(8u)) * $real(5.9604644775390625e-8);
    return select(number, a + b, is_nan$n(a) | is_nan$n(b));
}
