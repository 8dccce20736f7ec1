fn cos$n(x: $real) -> $real {
    let k = round(x * 0.63661977);
    return wave$n(turn$n(x, k), bitcast<$word>($int(k)) + $word(1u));
}
