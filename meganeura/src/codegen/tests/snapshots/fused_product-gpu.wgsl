// fused product, [8, 1, 1] workgroups
// A matrix product: a workgroup computes a tile of the result, stepping through k with both
// operands' strips in workgroup memory; each invocation keeps a small tile in registers.
var<storage, read> b0: array<f32>;
var<storage, read> b1: array<f32>;
var<storage, read> b2: array<f32>;
var<storage, read_write> b3: array<f32>;
// Compilers may assume that NaN does not occur and fold `x != x`; they cannot fold bits.
fn is_nan1(x: f32) -> bool {
    return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
const STRIP = 16u;
var<workgroup> left_strip: array<vec4<f32>, 128>;
var<workgroup> right_strip: array<vec4<f32>, 128>;

@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Work past the end computes the last tile again, so that everyone reaches the barriers.
    let wanted = group.x + group.y * groups.x;
    let work = min(wanted, 8u - 1u);
    let batch = work / 1u;
    let place = work % 1u;
    let tile_row = (place / 1u) * 32u;
    let tile_column = (place % 1u) * 32u;
    let lane_row = lane / 8u;
    let lane_column = lane % 8u;
    let i1 = batch % 2u;
    let i0 = batch / 2u;
    var sum0_0 = vec4<f32>();
    var sum1_0 = vec4<f32>();
    var sum2_0 = vec4<f32>();
    var sum3_0 = vec4<f32>();
    let k_end = min(513u, 2050u - i0 * 513u);
    for (var start = 0u; start < k_end; start += STRIP) {
        for (var e = lane; e < 128u; e += 64u) {
            let at_k = e % 16u;
            let at_row = e / 16u;
            let k = start + at_k;
            var vector = vec4<f32>();
            if k < k_end {
                let m0 = min(tile_row + at_row * 4u + 0u, 17u);
                let la0_0 = i0 * 513u + i1 * 36900u + m0 * 2050u;
                let lv0_0 = b0[la0_0 + k];
                let lv2_0 = select(max(lv0_0, 0.0f), lv0_0, is_nan1(lv0_0));
                let m1 = min(tile_row + at_row * 4u + 1u, 17u);
                let la0_1 = i0 * 513u + i1 * 36900u + m1 * 2050u;
                let lv0_1 = b0[la0_1 + k];
                let lv2_1 = select(max(lv0_1, 0.0f), lv0_1, is_nan1(lv0_1));
                let m2 = min(tile_row + at_row * 4u + 2u, 17u);
                let la0_2 = i0 * 513u + i1 * 36900u + m2 * 2050u;
                let lv0_2 = b0[la0_2 + k];
                let lv2_2 = select(max(lv0_2, 0.0f), lv0_2, is_nan1(lv0_2));
                let m3 = min(tile_row + at_row * 4u + 3u, 17u);
                let la0_3 = i0 * 513u + i1 * 36900u + m3 * 2050u;
                let lv0_3 = b0[la0_3 + k];
                let lv2_3 = select(max(lv0_3, 0.0f), lv0_3, is_nan1(lv0_3));
                vector = vec4<f32>(lv2_0, lv2_1, lv2_2, lv2_3);
            }
            left_strip[at_k * 8u + at_row] = vector;
        }
        for (var e = lane; e < 128u; e += 64u) {
            let at_k = e / 8u;
            let at_column = e % 8u;
            let k = start + at_k;
            var vector = vec4<f32>();
            if k < k_end {
                let q = min(tile_column / 4u + at_column, 2u);
                let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
                let wa0 = i0 * 5130u + i1 * 20500u + k * 10u;
                let wr1 = b2[i0 * 513u + k];
                let wv0 = vec4<f32>(b1[wa0 + c.x], b1[wa0 + c.y], b1[wa0 + c.z], b1[wa0 + c.w]);
                let wv2 = wv0 * vec4<f32>(wr1);
                vector = wv2;
            }
            right_strip[at_k * 8u + at_column] = vector;
        }
        workgroupBarrier();
        for (var k = 0u; k < STRIP; k += 1u) {
            let right0 = right_strip[k * 8u + lane_column + 0u];
            let left0 = left_strip[k * 8u + lane_row * 1u + 0u];
            sum0_0 = fma(vec4<f32>(left0.x), right0, sum0_0);
            sum1_0 = fma(vec4<f32>(left0.y), right0, sum1_0);
            sum2_0 = fma(vec4<f32>(left0.z), right0, sum2_0);
            sum3_0 = fma(vec4<f32>(left0.w), right0, sum3_0);
        }
        workgroupBarrier();
    }
    if wanted >= 8u {
        return;
    }
    {
        let m = tile_row + lane_row * 4u + 0u;
        let g = tile_column / 4u + lane_column + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum0_0;
            {
                let w = ev0;
                let at = i0 * 360u + i1 * 180u + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row + lane_row * 4u + 1u;
        let g = tile_column / 4u + lane_column + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum1_0;
            {
                let w = ev0;
                let at = i0 * 360u + i1 * 180u + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row + lane_row * 4u + 2u;
        let g = tile_column / 4u + lane_column + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum2_0;
            {
                let w = ev0;
                let at = i0 * 360u + i1 * 180u + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row + lane_row * 4u + 3u;
        let g = tile_column / 4u + lane_column + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum3_0;
            {
                let w = ev0;
                let at = i0 * 360u + i1 * 180u + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
}

// fused product (over rows), [6, 1, 1] workgroups
// Values combined over rows: one invocation per result, or per block of a result, goes
// through its share of the rows in a fixed order, so that runs repeat bit by bit.
var<storage, read> b0: array<f32>;
var<storage, read_write> b1: array<f32>;
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item >= 360u {
        return;
    }
    let block = item / 360u;
    let result = item % 360u;
    let result_column = result % 10u;
    let result_row = result / 10u;
    let i0 = result_row;
    var sum0 = 0.0f;
    for (var step = block; step < 4u; step += 1u) {
        let s0 = step;
        let a0 = s0 * 360u + i0 * 10u;
        let v0 = b0[a0 + result_column];
        sum0 = sum0 + v0;
    }
    b1[i0 * 10u + result_column] = sum0;
}

// fused product, [3, 1, 1] workgroups
// Work with reductions along rows: 16u invocations share a row and combine what they
// found as a tree in workgroup memory.
var<storage, read> b0: array<f32>;
var<storage, read> b1: array<f32>;
var<storage, read> b2: array<f32>;
var<storage, read_write> b3: array<f32>;
var<storage, read_write> b4: array<f32>;
// Compilers may assume that NaN does not occur and fold `x != x`; they cannot fold bits.
fn is_nan1(x: f32) -> bool {
    return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
// The larger; NaN if either is NaN (the built-in may drop it).
fn maximum1(a: f32, b: f32) -> f32 {
    return select(max(a, b), a + b, is_nan1(a) | is_nan1(b));
}
// The built-in may overflow into NaN and is inexact near 0. Near 0 a polynomial in x²,
// elsewhere from an exponential that cannot overflow.
fn tanh1(x: f32) -> f32 {
    let z = x * x;
    let series = (((-0.00606223 * z + 0.020975012) * z - 0.053846695) * z + 0.13332747) * z - 0.33333328;
    let e = exp(-2.0 * abs(x));
    let far = (1.0 - e) / (1.0 + e);
    return select(select(far, -far, x < f32(0.0)), x + x * (z * series), abs(x) < f32(0.6));
}
var<workgroup> shared0: array<f32, 256>;
@compute @workgroup_size(256u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = lane % 16u;
    let wanted = (group.x + group.y * groups.x) * (256u / 16u) + lane / 16u;
    // Everyone must reach the barriers: past the end the last row is computed again.
    let row = min(wanted, 36u - 1u);
    let inside = wanted < 36u;
    let i1 = row % 18u;
    let i0 = row / 18u;
    let a0 = i0 * 180u + i1 * 10u;
    let a1 = 0u;
    let a2 = i0 * 180u + i1 * 10u;
    let r3 = f32(i1);
    var part_r8 = bitcast<f32>(0xff800000u);
    for (var q = first; q < 10u; q += 16u) {
        let v0 = b0[a0 + q];
        let v1 = b1[a1 + q];
        let v2 = b2[a2 + q];
        let v4 = v0 + v1;
        let v5 = tanh1(v4);
        let v6 = v5 + v2;
        let v7 = v6 * r3;
        part_r8 = maximum1(part_r8, v0);
        if inside {
            b3[i0 * 180u + i1 * 10u + q] = v7;
        }
    }
    shared0[lane] = part_r8;
    workgroupBarrier();
    for (var width = 8u; width > 0u; width /= 2u) {
        if first < width {
            shared0[lane] = maximum1(shared0[lane], shared0[lane + width]);
        }
        workgroupBarrier();
    }
    let r8 = shared0[lane - first];
    workgroupBarrier();
    if inside && first == 0u {
        b4[i0 * 18u + i1] = r8;
    }
}

// fused product (over rows), [1, 1, 1] workgroups
// Values combined over rows: one invocation per result, or per block of a result, goes
// through its share of the rows in a fixed order, so that runs repeat bit by bit.
var<storage, read> b0: array<f32>;
var<storage, read> b1: array<f32>;
var<storage, read> b2: array<f32>;
var<storage, read_write> b3: array<f32>;
// The built-in may overflow into NaN and is inexact near 0. Near 0 a polynomial in x²,
// elsewhere from an exponential that cannot overflow.
fn tanh1(x: f32) -> f32 {
    let z = x * x;
    let series = (((-0.00606223 * z + 0.020975012) * z - 0.053846695) * z + 0.13332747) * z - 0.33333328;
    let e = exp(-2.0 * abs(x));
    let far = (1.0 - e) / (1.0 + e);
    return select(select(far, -far, x < f32(0.0)), x + x * (z * series), abs(x) < f32(0.6));
}
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item >= 10u {
        return;
    }
    let block = item / 10u;
    let result = item % 10u;
    let result_column = result;
    var sum0 = 0.0f;
    for (var start2 = block; start2 < 36u; start2 += 6u) {
        var sum0_2 = 0.0f;
        let end2 = min(start2 + 6u, 36u);
        for (var step = start2; step < end2; step += 1u) {
            let s0 = step;
            let a0 = s0 * 10u;
            let a1 = 0u;
            let a2 = s0 * 10u;
            let v0 = b0[a0 + result_column];
            let v1 = b1[a1 + result_column];
            let v2 = b2[a2 + result_column];
            let v3 = v0 + v1;
            let v4 = tanh1(v3);
            let v5 = v4 + v2;
            sum0_2 = sum0_2 + v5;
        }
        sum0 = sum0 + sum0_2;
    }
    b3[result_column] = sum0;
}

// fused product (over rows), [1, 1, 1] workgroups
// Values combined over rows: one invocation per result, or per block of a result, goes
// through its share of the rows in a fixed order, so that runs repeat bit by bit.
var<storage, read> b0: array<f32>;
var<storage, read_write> b1: array<f32>;
// Compilers may assume that NaN does not occur and fold `x != x`; they cannot fold bits.
fn is_nan1(x: f32) -> bool {
    return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
// The larger; NaN if either is NaN (the built-in may drop it).
fn maximum1(a: f32, b: f32) -> f32 {
    return select(max(a, b), a + b, is_nan1(a) | is_nan1(b));
}
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item >= 2u {
        return;
    }
    let block = item / 2u;
    let result = item % 2u;
    let result_column = result % 1u;
    let result_row = result / 1u;
    let i0 = result_row;
    var sum0 = bitcast<f32>(0xff800000u);
    for (var step = block; step < 18u; step += 1u) {
        let s0 = step;
        let r0 = b0[i0 * 18u + s0];
        sum0 = maximum1(sum0, r0);
    }
    b1[i0] = sum0;
}

