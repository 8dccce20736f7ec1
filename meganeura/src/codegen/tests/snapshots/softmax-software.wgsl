// softmax, [2, 1, 1] workgroups
// Work with reductions along rows, for devices without fast workgroup memory: one
// invocation per row, which loops over the columns once per stage.
var<storage, read> b0: array<vec4<f32>>;
var<storage, read_write> b1: array<vec4<f32>>;
// Compilers may assume that NaN does not occur and fold `x != x`; they cannot fold bits.
fn is_nan1(x: f32) -> bool {
    return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
// Compilers may assume that NaN does not occur and fold `x != x`; they cannot fold bits.
fn is_nan4(x: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
// The larger; NaN if either is NaN (the built-in may drop it).
fn maximum1(a: f32, b: f32) -> f32 {
    return select(max(a, b), a + b, is_nan1(a) | is_nan1(b));
}
// The larger; NaN if either is NaN (the built-in may drop it).
fn maximum4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    return select(max(a, b), a + b, is_nan4(a) | is_nan4(b));
}
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
    var part_r1 = vec4<f32>(bitcast<f32>(0xff800000u));
    for (var start2 = first; start2 < 75u; start2 += 9u) {
        var part_r1_2 = vec4<f32>(bitcast<f32>(0xff800000u));
        let end2 = min(start2 + 9u, 75u);
        for (var q = start2; q < end2; q += 1u) {
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let v0 = b0[a0 + q];
            part_r1_2 = maximum4(part_r1_2, v0);
        }
        part_r1 = maximum4(part_r1, part_r1_2);
    }
    let r1 = maximum1(maximum1(part_r1.x, part_r1.y), maximum1(part_r1.z, part_r1.w));
    var part_r4 = vec4<f32>(0.0f);
    for (var start2 = first; start2 < 75u; start2 += 9u) {
        var part_r4_2 = vec4<f32>(0.0f);
        let end2 = min(start2 + 9u, 75u);
        for (var q = start2; q < end2; q += 1u) {
            let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let v0 = b0[a0 + q];
            let v2 = v0 - vec4<f32>(r1);
            let v3 = exp(v2);
            part_r4_2 = part_r4_2 + v3;
        }
        part_r4 = part_r4 + part_r4_2;
    }
    let r4 = (part_r4.x + part_r4.y) + (part_r4.z + part_r4.w);
    for (var q = first; q < 75u; q += 1u) {
        let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
        let v0 = b0[a0 + q];
        let v2 = v0 - vec4<f32>(r1);
        let v3 = exp(v2);
        let v5 = v3 / vec4<f32>(r4);
        b1[i0 * 75u + q] = v5;
    }
}

