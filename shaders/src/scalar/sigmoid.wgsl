// 1/(1 + e⁻ˣ) from an exponential that cannot overflow.
fn sigmoid$n(x: $real) -> $real {
    let e = exp(-abs(x));
    return select($real(1.0), e, x < $real(0.0)) / (1.0 + e);
}
