// The error function: below 1 an odd polynomial, above it 1 − exp(P(|x|)) where P
// approximates the logarithm of the complement. Absolute error below 2e-7.
fn erf$n(x: $real) -> $real {
    let z = x * x;
    let near = x * ((((((0.00007889115 * z - 0.000802084) * z + 0.005189535) * z - 0.026854444) * z + 0.112836003) * z - 0.37612626) * z + 1.1283791);
    let a = abs(x);
    let b = min(a, $real(4.0));
    let p = (((((0.00016668106 * b - 0.002760602) * b + 0.021113478) * b - 0.10164015) * b - 0.63978213) * b - 1.1261324) * b - 0.0005703808;
    let far = 1.0 - exp(p);
    let outside = select(far, -far, x < $real(0.0));
    return select(select(outside, x, is_nan$n(x)), near, a < $real(1.0));
}
