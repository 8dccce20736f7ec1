// The built-in may overflow into NaN and is inexact near 0. Near 0 a polynomial in x²,
// elsewhere from an exponential that cannot overflow.
fn tanh$n(x: $real) -> $real {
    let z = x * x;
    let series = (((-0.00606223 * z + 0.020975012) * z - 0.053846695) * z + 0.13332747) * z - 0.33333328;
    let e = exp(-2.0 * abs(x));
    let far = (1.0 - e) / (1.0 + e);
    return select(select(far, -far, x < $real(0.0)), x + x * (z * series), abs(x) < $real(0.6));
}
