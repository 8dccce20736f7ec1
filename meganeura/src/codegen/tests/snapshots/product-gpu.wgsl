// product, [6, 1, 1] workgroups
// A matrix product: a workgroup computes a tile of the result, stepping through k with both
// operands' strips in workgroup memory; each invocation keeps a small tile in registers.
var<storage, read> b0: array<vec4<f32>>;
var<storage, read> b1: array<vec4<f32>>;
var<storage, read_write> b2: array<vec4<f32>>;
const STRIP = 16u;
var<workgroup> left_strip: array<vec4<f32>, 256>;
var<workgroup> right_strip: array<vec4<f32>, 256>;

@compute @workgroup_size(256u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Work past the end computes the last tile again, so that everyone reaches the barriers.
    let wanted = group.x + group.y * groups.x;
    let work = min(wanted, 6u - 1u);
    let batch = work / 6u;
    let place = work % 6u;
    let tile_row = (place / 2u) * 64u;
    let tile_column = (place % 2u) * 64u;
    let lane_row = lane / 16u;
    let lane_column = lane % 16u;
    var sum0_0 = vec4<f32>();
    var sum1_0 = vec4<f32>();
    var sum2_0 = vec4<f32>();
    var sum3_0 = vec4<f32>();
    let k_end = 40u;
    for (var start = 0u; start < k_end; start += STRIP) {
        for (var e = lane; e < 64u; e += 256u) {
            let at_k = e % 4u;
            let at_row = e / 4u;
            let q = start / 4u + at_k;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            var left0 = vec4<f32>();
            var left1 = vec4<f32>();
            var left2 = vec4<f32>();
            var left3 = vec4<f32>();
            if q * 4u < k_end {
                let m0 = min(tile_row + at_row * 4u + 0u, 129u);
                let la0_0 = m0 * 10u;
                let lv0_0 = b0[la0_0 + q];
                left0 = lv0_0;
                let m1 = min(tile_row + at_row * 4u + 1u, 129u);
                let la0_1 = m1 * 10u;
                let lv0_1 = b0[la0_1 + q];
                left1 = lv0_1;
                let m2 = min(tile_row + at_row * 4u + 2u, 129u);
                let la0_2 = m2 * 10u;
                let lv0_2 = b0[la0_2 + q];
                left2 = lv0_2;
                let m3 = min(tile_row + at_row * 4u + 3u, 129u);
                let la0_3 = m3 * 10u;
                let lv0_3 = b0[la0_3 + q];
                left3 = lv0_3;
            }
            left_strip[(at_k * 4u + 0u) * 16u + at_row] = vec4<f32>(left0.x, left1.x, left2.x, left3.x);
            left_strip[(at_k * 4u + 1u) * 16u + at_row] = vec4<f32>(left0.y, left1.y, left2.y, left3.y);
            left_strip[(at_k * 4u + 2u) * 16u + at_row] = vec4<f32>(left0.z, left1.z, left2.z, left3.z);
            left_strip[(at_k * 4u + 3u) * 16u + at_row] = vec4<f32>(left0.w, left1.w, left2.w, left3.w);
        }
        for (var e = lane; e < 256u; e += 256u) {
            let at_k = e / 16u;
            let at_column = e % 16u;
            let k = start + at_k;
            var vector = vec4<f32>();
            if k < k_end {
                let q = min(tile_column / 4u + at_column, 17u);
                let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
                let wa0 = k * 18u;
                let wv0 = b1[wa0 + q];
                vector = wv0;
            }
            right_strip[at_k * 16u + at_column] = vector;
        }
        workgroupBarrier();
        for (var k = 0u; k < STRIP; k += 1u) {
            let right0 = right_strip[k * 16u + lane_column + 0u];
            let left0 = left_strip[k * 16u + lane_row * 1u + 0u];
            sum0_0 = fma(vec4<f32>(left0.x), right0, sum0_0);
            sum1_0 = fma(vec4<f32>(left0.y), right0, sum1_0);
            sum2_0 = fma(vec4<f32>(left0.z), right0, sum2_0);
            sum3_0 = fma(vec4<f32>(left0.w), right0, sum3_0);
        }
        workgroupBarrier();
    }
    if wanted >= 6u {
        return;
    }
    {
        let m = tile_row + lane_row * 4u + 0u;
        let g = tile_column / 4u + lane_column + 0u;
        if m < 130u && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum0_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row + lane_row * 4u + 1u;
        let g = tile_column / 4u + lane_column + 0u;
        if m < 130u && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum1_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row + lane_row * 4u + 2u;
        let g = tile_column / 4u + lane_column + 0u;
        if m < 130u && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum2_0;
            b2[m * 18u + q] = ev0;
        }
    }
    {
        let m = tile_row + lane_row * 4u + 3u;
        let g = tile_column / 4u + lane_column + 0u;
        if m < 130u && g < 18u {
            let q = g;
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let ev0 = sum3_0;
            b2[m * 18u + q] = ev0;
        }
    }
}

