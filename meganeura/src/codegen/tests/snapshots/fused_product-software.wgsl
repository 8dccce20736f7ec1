// fused product, [10, 1, 1] workgroups
var<uniform> arguments: array<vec4<u32>, 12>;
// A matrix product for devices without fast workgroup memory: each invocation keeps a tile
// of the result in registers and adds one outer product per step of k.
var<storage, read> b0: array<f32>;
var<storage, read> b1: array<f32>;
var<storage, read> b2: array<f32>;
var<storage, read_write> b3: array<f32>;
// Compilers may assume that NaN does not occur and fold `x != x`; they cannot fold bits.
fn is_nan1(x: f32) -> bool {
    return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
@compute @workgroup_size(8u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let work = group.x + group.y * groups.x;
    let batch = work / arguments[0].x;
    let place = work % arguments[0].y;
    let tile_column = (place % arguments[0].z) * 2u + lane % 2u;
    let tile_row = (place / arguments[0].w) * 4u + lane / 2u;
    if batch >= arguments[1].x || tile_column >= arguments[1].y || tile_row >= arguments[1].z {
        return;
    }
    let i1 = batch % 2u;
    let i0 = batch / 2u;
    let m0 = min(tile_row * 8u + 0u, 17u);
    let la0_0 = i0 * arguments[1].w + i1 * arguments[2].x + m0 * arguments[2].y;
    let m1 = min(tile_row * 8u + 1u, 17u);
    let la0_1 = i0 * arguments[1].w + i1 * arguments[2].x + m1 * arguments[2].y;
    let m2 = min(tile_row * 8u + 2u, 17u);
    let la0_2 = i0 * arguments[1].w + i1 * arguments[2].x + m2 * arguments[2].y;
    let m3 = min(tile_row * 8u + 3u, 17u);
    let la0_3 = i0 * arguments[1].w + i1 * arguments[2].x + m3 * arguments[2].y;
    let m4 = min(tile_row * 8u + 4u, 17u);
    let la0_4 = i0 * arguments[1].w + i1 * arguments[2].x + m4 * arguments[2].y;
    let m5 = min(tile_row * 8u + 5u, 17u);
    let la0_5 = i0 * arguments[1].w + i1 * arguments[2].x + m5 * arguments[2].y;
    let m6 = min(tile_row * 8u + 6u, 17u);
    let la0_6 = i0 * arguments[1].w + i1 * arguments[2].x + m6 * arguments[2].y;
    let m7 = min(tile_row * 8u + 7u, 17u);
    let la0_7 = i0 * arguments[1].w + i1 * arguments[2].x + m7 * arguments[2].y;
    let q0 = min(tile_column * 2u + 0u, 2u);
    let c0 = min(vec4<u32>(q0 * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
    let q1 = min(tile_column * 2u + 1u, 2u);
    let c1 = min(vec4<u32>(q1 * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
    var sum0_0 = vec4<f32>();
    var sum0_1 = vec4<f32>();
    var sum1_0 = vec4<f32>();
    var sum1_1 = vec4<f32>();
    var sum2_0 = vec4<f32>();
    var sum2_1 = vec4<f32>();
    var sum3_0 = vec4<f32>();
    var sum3_1 = vec4<f32>();
    var sum4_0 = vec4<f32>();
    var sum4_1 = vec4<f32>();
    var sum5_0 = vec4<f32>();
    var sum5_1 = vec4<f32>();
    var sum6_0 = vec4<f32>();
    var sum6_1 = vec4<f32>();
    var sum7_0 = vec4<f32>();
    var sum7_1 = vec4<f32>();
    // There is one group along the third axis, so nothing is added; but Mesa's software driver
    // compiles a shader anew for each dispatch when a loop's end is an argument and no more.
    let k_end = arguments[2].z + group.z;
    for (var k = 0u; k < k_end; k += 1u) {
        let wa0_0 = i0 * arguments[2].w + i1 * arguments[3].x + k * 10u;
        let wr1_0 = b2[i0 * arguments[3].y + k];
        let wv0_0 = vec4<f32>(b1[wa0_0 + c0.x], b1[wa0_0 + c0.y], b1[wa0_0 + c0.z], b1[wa0_0 + c0.w]);
        let wv2_0 = wv0_0 * vec4<f32>(wr1_0);
        let wa0_1 = i0 * arguments[2].w + i1 * arguments[3].x + k * 10u;
        let wr1_1 = b2[i0 * arguments[3].y + k];
        let wv0_1 = vec4<f32>(b1[wa0_1 + c1.x], b1[wa0_1 + c1.y], b1[wa0_1 + c1.z], b1[wa0_1 + c1.w]);
        let wv2_1 = wv0_1 * vec4<f32>(wr1_1);
        let lv0_0 = b0[la0_0 + k];
        let lv2_0 = select(max(lv0_0, 0.0f), lv0_0, is_nan1(lv0_0));
        sum0_0 = fma(vec4<f32>(lv2_0), wv2_0, sum0_0);
        sum0_1 = fma(vec4<f32>(lv2_0), wv2_1, sum0_1);
        let lv0_1 = b0[la0_1 + k];
        let lv2_1 = select(max(lv0_1, 0.0f), lv0_1, is_nan1(lv0_1));
        sum1_0 = fma(vec4<f32>(lv2_1), wv2_0, sum1_0);
        sum1_1 = fma(vec4<f32>(lv2_1), wv2_1, sum1_1);
        let lv0_2 = b0[la0_2 + k];
        let lv2_2 = select(max(lv0_2, 0.0f), lv0_2, is_nan1(lv0_2));
        sum2_0 = fma(vec4<f32>(lv2_2), wv2_0, sum2_0);
        sum2_1 = fma(vec4<f32>(lv2_2), wv2_1, sum2_1);
        let lv0_3 = b0[la0_3 + k];
        let lv2_3 = select(max(lv0_3, 0.0f), lv0_3, is_nan1(lv0_3));
        sum3_0 = fma(vec4<f32>(lv2_3), wv2_0, sum3_0);
        sum3_1 = fma(vec4<f32>(lv2_3), wv2_1, sum3_1);
        let lv0_4 = b0[la0_4 + k];
        let lv2_4 = select(max(lv0_4, 0.0f), lv0_4, is_nan1(lv0_4));
        sum4_0 = fma(vec4<f32>(lv2_4), wv2_0, sum4_0);
        sum4_1 = fma(vec4<f32>(lv2_4), wv2_1, sum4_1);
        let lv0_5 = b0[la0_5 + k];
        let lv2_5 = select(max(lv0_5, 0.0f), lv0_5, is_nan1(lv0_5));
        sum5_0 = fma(vec4<f32>(lv2_5), wv2_0, sum5_0);
        sum5_1 = fma(vec4<f32>(lv2_5), wv2_1, sum5_1);
        let lv0_6 = b0[la0_6 + k];
        let lv2_6 = select(max(lv0_6, 0.0f), lv0_6, is_nan1(lv0_6));
        sum6_0 = fma(vec4<f32>(lv2_6), wv2_0, sum6_0);
        sum6_1 = fma(vec4<f32>(lv2_6), wv2_1, sum6_1);
        let lv0_7 = b0[la0_7 + k];
        let lv2_7 = select(max(lv0_7, 0.0f), lv0_7, is_nan1(lv0_7));
        sum7_0 = fma(vec4<f32>(lv2_7), wv2_0, sum7_0);
        sum7_1 = fma(vec4<f32>(lv2_7), wv2_1, sum7_1);
    }
    {
        let m = tile_row * 8u + 0u;
        let g = tile_column * 2u + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum0_0;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 0u;
        let g = tile_column * 2u + 1u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum0_1;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 1u;
        let g = tile_column * 2u + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum1_0;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 1u;
        let g = tile_column * 2u + 1u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum1_1;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 2u;
        let g = tile_column * 2u + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum2_0;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 2u;
        let g = tile_column * 2u + 1u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum2_1;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 3u;
        let g = tile_column * 2u + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum3_0;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 3u;
        let g = tile_column * 2u + 1u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum3_1;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 4u;
        let g = tile_column * 2u + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum4_0;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 4u;
        let g = tile_column * 2u + 1u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum4_1;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 5u;
        let g = tile_column * 2u + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum5_0;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 5u;
        let g = tile_column * 2u + 1u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum5_1;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 6u;
        let g = tile_column * 2u + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum6_0;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 6u;
        let g = tile_column * 2u + 1u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum6_1;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 7u;
        let g = tile_column * 2u + 0u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum7_0;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
                if (q * 4u + 0u) < 10u { b3[at + (q * 4u + 0u)] = w.x; }
                if (q * 4u + 1u) < 10u { b3[at + (q * 4u + 1u)] = w.y; }
                if (q * 4u + 2u) < 10u { b3[at + (q * 4u + 2u)] = w.z; }
                if (q * 4u + 3u) < 10u { b3[at + (q * 4u + 3u)] = w.w; }
            }
        }
    }
    {
        let m = tile_row * 8u + 7u;
        let g = tile_column * 2u + 1u;
        if m < 18u && g < 3u {
            let q = g;
            let c = min(vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(9u));
            let ev0 = sum7_1;
            {
                let w = ev0;
                let at = i0 * arguments[3].z + i1 * arguments[3].w + m * 10u;
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
    for (var step = block; step < 5u; step += 1u) {
        let s0 = step;
        let a0 = s0 * 360u + i0 * 10u;
        let v0 = b0[a0 + result_column];
        sum0 = sum0 + v0;
    }
    b1[i0 * 10u + result_column] = sum0;
}

// fused product, [1, 1, 1] workgroups
// Work with reductions along rows, for devices without fast workgroup memory: one
// invocation per row, which loops over the columns once per stage.
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
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = (group.x + group.y * groups.x) * 64u + lane;
    if row >= 36u {
        return;
    }
    const first = 0u;
    let i1 = row % 18u;
    let i0 = row / 18u;
    let a0 = i0 * 180u + i1 * 10u;
    let a1 = 0u;
    let a2 = i0 * 180u + i1 * 10u;
    let r3 = f32(i1);
    var part_r8 = bitcast<f32>(0xff800000u);
    for (var q = first; q < 10u; q += 1u) {
        let v0 = b0[a0 + q];
        let v1 = b1[a1 + q];
        let v2 = b2[a2 + q];
        let v4 = v0 + v1;
        let v5 = tanh1(v4);
        let v6 = v5 + v2;
        let v7 = v6 * r3;
        part_r8 = maximum1(part_r8, v0);
        b3[i0 * 180u + i1 * 10u + q] = v7;
    }
    let r8 = part_r8;
    b4[i0 * 18u + i1] = r8;
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

