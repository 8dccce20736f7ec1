// x minus the nearest multiple k of π/2, with π/2 in three parts so that little is lost
// while |x| stays below some ten thousand.
fn turn$n(x: $real, k: $real) -> $real {
    return ((x - k * 1.5703125) - k * 0.00048375129699707031) - k * 0.000000075497894158615964;
}

// sin of y + quadrant · π/2 for |y| ≤ π/4. The built-ins only promise three digits.
fn wave$n(y: $real, quadrant: $word) -> $real {
    let z = y * y;
    let sine = y + y * (z * (((0.0000027243891 * z - 0.0001984004) * z + 0.008333332) * z - 0.16666667));
    let cosine = (1.0 - 0.5 * z) + z * z * (((-0.00000027295911 * z + 0.000024800562) * z - 0.0013888888) * z + 0.041666668);
    let magnitude = select(sine, cosine, (quadrant & $word(1u)) != $word(0u));
    return select(magnitude, -magnitude, (quadrant & $word(2u)) != $word(0u));
}
