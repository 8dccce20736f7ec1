// attention, [9, 1, 1] workgroups
// Attention for devices without fast workgroup memory: an invocation keeps its own row (of a
// query, or of a key) in registers and walks along the rows of the other side that it meets.
var<storage, read> b0: array<f32>;
var<storage, read> b1: array<f32>;
var<storage, read> b2: array<f32>;
var<storage, read_write> b3: array<f32>;
var<storage, read_write> b4: array<f32>;
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
    var largest = -3.4e38f;
    var sum = 0.0f;
    var o0 = f32(0.0f);
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
            score += b2[own * 150u + 0u + other * 1u];
            let most = max(largest, score);
            let fade = exp(largest - most);
            let weight = exp(score - most);
            largest = most;
            sum = sum * fade + weight;
            o0 = o0 * fade + weight * v0;
        }
    }
    let result = (batch * 70u + own) * 4u + head;
    let factor = select(1.0f / sum, 0.0f, sum == 0.0f);
    b3[result * 1u + 0u] = o0 * factor;
    b4[result] = select(largest + log(sum), bitcast<f32>(0x7f800000u), sum == 0.0f);
}

