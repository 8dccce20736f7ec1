// softmax, [35, 1, 1] workgroups
// Work with reductions along rows: 128u invocations share a row and combine what they
// found as a tree in workgroup memory.
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
var<workgroup> shared0: array<f32, 256>;
@compute @workgroup_size(256u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = lane % 128u;
    let wanted = (group.x + group.y * groups.x) * (256u / 128u) + lane / 128u;
    // Everyone must reach the barriers: past the end the last row is computed again.
    let row = min(wanted, 70u - 1u);
    let inside = wanted < 70u;
    let i0 = row;
    let a0 = i0 * 75u;
    var part_r1 = vec4<f32>(bitcast<f32>(0xff800000u));
    for (var q = first; q < 75u; q += 128u) {
        let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
        let v0 = b0[a0 + q];
        part_r1 = maximum4(part_r1, v0);
    }
    shared0[lane] = maximum1(maximum1(part_r1.x, part_r1.y), maximum1(part_r1.z, part_r1.w));
    workgroupBarrier();
    for (var width = 64u; width > 0u; width /= 2u) {
        if first < width {
            shared0[lane] = maximum1(shared0[lane], shared0[lane + width]);
        }
        workgroupBarrier();
    }
    let r1 = shared0[lane - first];
    workgroupBarrier();
    var part_r4 = vec4<f32>(0.0f);
    for (var q = first; q < 75u; q += 128u) {
        let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
        let v0 = b0[a0 + q];
        let v2 = v0 - vec4<f32>(r1);
        let v3 = exp(v2);
        part_r4 = part_r4 + v3;
    }
    shared0[lane] = (part_r4.x + part_r4.y) + (part_r4.z + part_r4.w);
    workgroupBarrier();
    for (var width = 64u; width > 0u; width /= 2u) {
        if first < width {
            shared0[lane] = shared0[lane] + shared0[lane + width];
        }
        workgroupBarrier();
    }
    let r4 = shared0[lane - first];
    workgroupBarrier();
    for (var q = first; q < 75u; q += 128u) {
        let c = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
        let v0 = b0[a0 + q];
        let v2 = v0 - vec4<f32>(r1);
        let v3 = exp(v2);
        let v5 = v3 / vec4<f32>(r4);
        if inside {
            b1[i0 * 75u + q] = v5;
        }
    }
}

