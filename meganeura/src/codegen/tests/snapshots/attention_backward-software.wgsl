// attention backward (queries), [9, 1, 1] workgroups
// Attention for devices without fast workgroup memory: an invocation keeps its own row (of a
// query, or of a key) in registers and walks along the rows of the other side that it meets.
var<storage, read> b0: array<f32>;
var<storage, read> b1: array<f32>;
var<storage, read> b2: array<f32>;
var<storage, read> b3: array<f32>;
var<storage, read> b4: array<f32>;
var<storage, read> b5: array<f32>;
var<storage, read_write> b6: array<f32>;
fn range_start(own: u32) -> u32 {
    return u32(clamp(i32(own) + (40i), 0i, 150i));
}
fn range_end(own: u32) -> u32 {
    return u32(clamp(i32(own) + (81i), 0i, 150i));
}
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item >= 560u {
        return;
    }
    let own = item % 70u;
    let head = item / 70u % 4u;
    let batch = item / (70u * 4u);
    let i0 = batch;
    let q0 = b0[i0 * 280u + own * 4u + head * 1u + 0u + 0u * 0u];
    let u0 = b2[i0 * 280u + own * 4u + head * 1u + 0u + 0u * 0u];
    let normalizer = b4[i0 * 280u + own * 4u + head * 1u + 0u + 0u * 0u];
    let mean = b5[i0 * 280u + own * 4u + head * 1u + 0u + 0u * 0u];
    var dq0 = f32(0.0f);
    let start = range_start(own);
    let end = range_end(own);
    for (var member = 0u; member < 1u; member += 1u) {
        let other_head = head / 2u + member;
        for (var other = start; other < end; other += 1u) {
            let k0 = b1[i0 * 600u + other * 4u + other_head * 1u + 0u + 0u * 1u];
            let v0 = b1[i0 * 600u + other * 4u + other_head * 1u + 2u + 0u * 1u];
            var score_parts = q0 * k0;
            var score = score_parts;
            score *= 0.6f;
            score += b3[own * 150u + 0u + other * 1u];
            let weight = exp(score - normalizer);
            var slope_parts = u0 * v0;
            var slope = slope_parts;
            slope = weight * (slope - mean) * 0.6f;
            dq0 += slope * k0;
        }
    }
    let result = (batch * 70u + own) * 4u + head;
    b6[result * 1u + 0u] = dq0;
}

// attention backward (keys), [10, 1, 1] workgroups
// Attention for devices without fast workgroup memory: an invocation keeps its own row (of a
// query, or of a key) in registers and walks along the rows of the other side that it meets.
var<storage, read> b0: array<f32>;
var<storage, read> b1: array<f32>;
var<storage, read> b2: array<f32>;
var<storage, read> b3: array<f32>;
var<storage, read> b4: array<f32>;
var<storage, read> b5: array<f32>;
var<storage, read_write> b6: array<f32>;
var<storage, read_write> b7: array<f32>;
fn range_start(own: u32) -> u32 {
    return u32(clamp(i32(own) + (-80i), 0i, 70i));
}
fn range_end(own: u32) -> u32 {
    return u32(clamp(i32(own) + (-39i), 0i, 70i));
}
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item >= 600u {
        return;
    }
    let own = item % 150u;
    let head = item / 150u % 2u;
    let batch = item / (150u * 2u);
    let i0 = batch;
    let k0 = b1[i0 * 600u + own * 4u + head * 1u + 0u + 0u * 1u];
    let v0 = b1[i0 * 600u + own * 4u + head * 1u + 2u + 0u * 1u];
    var dk0 = f32(0.0f);
    var dv0 = f32(0.0f);
    let start = range_start(own);
    let end = range_end(own);
    for (var member = 0u; member < 2u; member += 1u) {
        let other_head = head * 2u + member;
        for (var other = start; other < end; other += 1u) {
            let q0 = b0[i0 * 280u + other * 4u + other_head * 1u + 0u + 0u * 0u];
            let u0 = b2[i0 * 280u + other * 4u + other_head * 1u + 0u + 0u * 0u];
            let normalizer = b4[i0 * 280u + other * 4u + other_head * 1u + 0u + 0u * 0u];
            let mean = b5[i0 * 280u + other * 4u + other_head * 1u + 0u + 0u * 0u];
            var score_parts = q0 * k0;
            var score = score_parts;
            score *= 0.6f;
            score += b3[other * 150u + 0u + own * 1u];
            let weight = exp(score - normalizer);
            var slope_parts = u0 * v0;
            var slope = slope_parts;
            slope = weight * (slope - mean) * 0.6f;
            dk0 += slope * q0;
            dv0 += weight * u0;
        }
    }
    let result = (batch * 150u + own) * 2u + head;
    b6[result * 1u + 0u] = dk0;
    b7[result * 1u + 0u] = dv0;
}

