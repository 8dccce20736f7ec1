// layer norm backward, [2, 1, 1] workgroups
// Work with reductions along rows, for devices without fast workgroup memory: one
// invocation per row, which loops over the columns once per stage.
var<storage, read> b0: array<vec4<f32>>;
var<storage, read> b1: array<vec4<f32>>;
var<storage, read> b2: array<vec4<f32>>;
var<storage, read_write> b3: array<vec4<f32>>;
var<storage, read_write> b4: array<f32>;
var<storage, read_write> b5: array<f32>;
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = (group.x + group.y * groups.x) * 64u + lane;
    if row >= 70u {
        return;
    }
    const first = 0u;
    let i0 = row;
    let a0 = i0 * 75u;
    let a1 = 0u;
    let a2 = i0 * 75u;
    var part_r4 = vec4<f32>(0.0f);
    var part_r19 = vec4<f32>(0.0f);
    for (var start2 = first; start2 < 75u; start2 += 9u) {
        var part_r4_2 = vec4<f32>(0.0f);
        var part_r19_2 = vec4<f32>(0.0f);
        let end2 = min(start2 + 9u, 75u);
        for (var q = start2; q < end2; q += 1u) {
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let v0 = b0[a0 + q];
            let v1 = b1[a1 + q];
            let v2 = b2[a2 + q];
            let v15 = v2 * v1;
            part_r4_2 = part_r4_2 + v0;
            part_r19_2 = part_r19_2 + v15;
        }
        part_r4 = part_r4 + part_r4_2;
        part_r19 = part_r19 + part_r19_2;
    }
    let r4 = (part_r4.x + part_r4.y) + (part_r4.z + part_r4.w);
    let r19 = (part_r19.x + part_r19.y) + (part_r19.z + part_r19.w);
    let r5 = r4 * 0.0033333334f;
    let r20 = r19 * 0.0033333334f;
    var part_r8 = vec4<f32>(0.0f);
    for (var start2 = first; start2 < 75u; start2 += 9u) {
        var part_r8_2 = vec4<f32>(0.0f);
        let end2 = min(start2 + 9u, 75u);
        for (var q = start2; q < end2; q += 1u) {
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let v0 = b0[a0 + q];
            let v6 = v0 - vec4<f32>(r5);
            let v7 = v6 * v6;
            part_r8_2 = part_r8_2 + v7;
        }
        part_r8 = part_r8 + part_r8_2;
    }
    let r8 = (part_r8.x + part_r8.y) + (part_r8.z + part_r8.w);
    let r9 = r8 * 0.0033333334f;
    let r11 = r9 + 1e-5f;
    let r12 = inverseSqrt(r11);
    var part_r17 = vec4<f32>(0.0f);
    for (var start2 = first; start2 < 75u; start2 += 9u) {
        var part_r17_2 = vec4<f32>(0.0f);
        let end2 = min(start2 + 9u, 75u);
        for (var q = start2; q < end2; q += 1u) {
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let v0 = b0[a0 + q];
            let v1 = b1[a1 + q];
            let v2 = b2[a2 + q];
            let v6 = v0 - vec4<f32>(r5);
            let v13 = v6 * vec4<f32>(r12);
            let v15 = v2 * v1;
            let v16 = v15 * v13;
            part_r17_2 = part_r17_2 + v16;
        }
        part_r17 = part_r17 + part_r17_2;
    }
    let r17 = (part_r17.x + part_r17.y) + (part_r17.z + part_r17.w);
    let r18 = r17 * 0.0033333334f;
    for (var q = first; q < 75u; q += 1u) {
        let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
        let v0 = b0[a0 + q];
        let v1 = b1[a1 + q];
        let v2 = b2[a2 + q];
        let v6 = v0 - vec4<f32>(r5);
        let v13 = v6 * vec4<f32>(r12);
        let v15 = v2 * v1;
        let v21 = v13 * vec4<f32>(r18);
        let v22 = v15 - vec4<f32>(r20);
        let v23 = v22 - v21;
        let v24 = v23 * vec4<f32>(r12);
        b3[i0 * 75u + q] = v24;
    }
    b4[i0] = r4;
    b5[i0] = r8;
}

// layer norm backward (over rows), [2, 1, 1] workgroups
// Values combined over rows: one invocation per result, or per block of a result, goes
// through its share of the rows in a fixed order, so that runs repeat bit by bit.
var<storage, read> b0: array<vec4<f32>>;
var<storage, read> b1: array<vec4<f32>>;
var<storage, read> b2: array<f32>;
var<storage, read> b3: array<f32>;
var<storage, read_write> b4: array<vec4<f32>>;
var<storage, read_write> b5: array<vec4<f32>>;
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item >= 75u {
        return;
    }
    let block = item / 75u;
    let result = item % 75u;
    let result_column = result;
    let c = vec4<u32>(result_column * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    var sum0 = vec4<f32>(0.0f);
    var sum1 = vec4<f32>(0.0f);
    for (var start2 = block; start2 < 70u; start2 += 9u) {
        var sum0_2 = vec4<f32>(0.0f);
        var sum1_2 = vec4<f32>(0.0f);
        let end2 = min(start2 + 9u, 70u);
        for (var step = start2; step < end2; step += 1u) {
            let s0 = step;
            let a0 = s0 * 75u;
            let a1 = s0 * 75u;
            let r3 = b2[s0];
            let r4 = r3 * 0.0033333334f;
            let r6 = b3[s0];
            let r7 = r6 * 0.0033333334f;
            let r9 = r7 + 1e-5f;
            let r10 = inverseSqrt(r9);
            let v0 = b0[a0 + result_column];
            let v1 = b1[a1 + result_column];
            let v5 = v0 - vec4<f32>(r4);
            let v11 = v5 * vec4<f32>(r10);
            let v12 = v1 * v11;
            sum0_2 = sum0_2 + v12;
            sum1_2 = sum1_2 + v1;
        }
        sum0 = sum0 + sum0_2;
        sum1 = sum1 + sum1_2;
    }
    b4[result_column] = sum0;
    b5[result_column] = sum1;
}

