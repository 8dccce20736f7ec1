// product, [34, 1, 1] workgroups
var<uniform> arguments: array<vec4<u32>, 12>;
// A matrix product for devices without fast workgroup memory: each invocation keeps a tile
// of the result in registers and adds one outer product per step of k.
var<storage, read> b0: array<f32>;
var<storage, read> b1: array<vec4<f32>>;
var<storage, read_write> b2: array<vec4<f32>>;
@compute @workgroup_size(8u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let work = group.x + group.y * groups.x;
    let batch = work / arguments[0].x;
    let place = work % arguments[0].y;
    let tile_column = (place % arguments[0].z) * 8u + lane % 8u;
    let tile_row = (place / arguments[0].w) * 1u + lane / 8u;
    if batch >= arguments[1].x || tile_column >= arguments[1].y || tile_row >= arguments[1].z {
        return;
    }
    let m0 = min(tile_row * 8u + 0u, arguments[1].w);
    let la0_0 = m0 * arguments[2].x;
    let m1 = min(tile_row * 8u + 1u, arguments[1].w);
    let la0_1 = m1 * arguments[2].x;
    let m2 = min(tile_row * 8u + 2u, arguments[1].w);
    let la0_2 = m2 * arguments[2].x;
    let m3 = min(tile_row * 8u + 3u, arguments[1].w);
    let la0_3 = m3 * arguments[2].x;
    let m4 = min(tile_row * 8u + 4u, arguments[1].w);
    let la0_4 = m4 * arguments[2].x;
    let m5 = min(tile_row * 8u + 5u, arguments[1].w);
    let la0_5 = m5 * arguments[2].x;
    let m6 = min(tile_row * 8u + 6u, arguments[1].w);
    let la0_6 = m6 * arguments[2].x;
    let m7 = min(tile_row * 8u + 7u, arguments[1].w);
    let la0_7 = m7 * arguments[2].x;
    let q0 = tile_column * 2u + 0u;
    let c0 = vec4<u32>(q0 * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let q1 = tile_column * 2u + 1u;
    let c1 = vec4<u32>(q1 * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
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
    let k_end = arguments[2].y + group.z;
    for (var k = 0u; k < k_end; k += 1u) {
        let wa0_0 = k * 18u;
        let wv0_0 = b1[wa0_0 + q0];
        let wa0_1 = k * 18u;
        let wv0_1 = b1[wa0_1 + q1];
        let lv0_0 = b0[la0_0 + k];
        sum0_0 = fma(vec4<f32>(lv0_0), wv0_0, sum0_0);
        sum0_1 = fma(vec4<f32>(lv0_0), wv0_1, sum0_1);
        let lv0_1 = b0[la0_1 + k];
        sum1_0 = fma(vec4<f32>(lv0_1), wv0_0, sum1_0);
        sum1_1 = fma(vec4<f32>(lv0_1), wv0_1, sum1_1);
        let lv0_2 = b0[la0_2 + k];
        sum2_0 = fma(vec4<f32>(lv0_2), wv0_0, sum2_0);
        sum2_1 = fma(vec4<f32>(lv0_2), wv0_1, sum2_1);
        let lv0_3 = b0[la0_3 + k];
        sum3_0 = fma(vec4<f32>(lv0_3), wv0_0, sum3_0);
        sum3_1 = fma(vec4<f32>(lv0_3), wv0_1, sum3_1);
        let lv0_4 = b0[la0_4 + k];
        sum4_0 = fma(vec4<f32>(lv0_4), wv0_0, sum4_0);
        sum4_1 = fma(vec4<f32>(lv0_4), wv0_1, sum4_1);
        let lv0_5 = b0[la0_5 + k];
        sum5_0 = fma(vec4<f32>(lv0_5), wv0_0, sum5_0);
        sum5_1 = fma(vec4<f32>(lv0_5), wv0_1, sum5_1);
        let lv0_6 = b0[la0_6 + k];
        sum6_0 = fma(vec4<f32>(lv0_6), wv0_0, sum6_0);
        sum6_1 = fma(vec4<f32>(lv0_6), wv0_1, sum6_1);
        let lv0_7 = b0[la0_7 + k];
        sum7_0 = fma(vec4<f32>(lv0_7), wv0_0, sum7_0);
        sum7_1 = fma(vec4<f32>(lv0_7), wv0_1, sum7_1);
    }
    {
        let m = tile_row * 8u + 0u;
        let g = tile_column * 2u + 0u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum0_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 0u;
        let g = tile_column * 2u + 1u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum0_1;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 1u;
        let g = tile_column * 2u + 0u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum1_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 1u;
        let g = tile_column * 2u + 1u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum1_1;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 2u;
        let g = tile_column * 2u + 0u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum2_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 2u;
        let g = tile_column * 2u + 1u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum2_1;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 3u;
        let g = tile_column * 2u + 0u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum3_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 3u;
        let g = tile_column * 2u + 1u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum3_1;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 4u;
        let g = tile_column * 2u + 0u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum4_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 4u;
        let g = tile_column * 2u + 1u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum4_1;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 5u;
        let g = tile_column * 2u + 0u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum5_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 5u;
        let g = tile_column * 2u + 1u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum5_1;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 6u;
        let g = tile_column * 2u + 0u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum6_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 6u;
        let g = tile_column * 2u + 1u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum6_1;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 7u;
        let g = tile_column * 2u + 0u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum7_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row * 8u + 7u;
        let g = tile_column * 2u + 1u;
        if m < arguments[2].z && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum7_1;
            b2[m * 18u + q] = ev0;
        }
    }
}

