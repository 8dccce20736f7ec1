// attention, [16, 1, 1] workgroups
// Attention: an invocation keeps its own row (of a query, or of a key) in registers; a
// workgroup's rows are neighbours, and walk together along tiles of the other side, which lie
// in workgroup memory.
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
const TILE = 32u;
var<workgroup> tile_k: array<f32, 32>;
var<workgroup> tile_v: array<f32, 32>;

@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Work past the end computes the last again, so that everyone reaches the barriers.
    let wanted = group.x + group.y * groups.x;
    let work = min(wanted, 16u - 1u);
    let block = work % 2u * 64u;
    let head = work / 2u % 4u;
    let batch = work / (2u * 4u);
    let own = min(block + lane, 70u - 1u);
    let inside = wanted < 16u && block + lane < 70u;
    let i0 = batch;
    let q0 = b0[i0 * 280u + own * 4u + head * 1u + 0u + 0u * 0u];
    var largest = -3.4e38f;
    var sum = 0.0f;
    var o0 = f32(0.0f);
    let start = range_start(own);
    let end = range_end(own);
    let first = range_start(block);
    let last = range_end(min(block + 64u, 70u) - 1u);
    for (var member = 0u; member < 1u; member += 1u) {
        let other_head = head / 2u + member;
        for (var tile = first; tile < last; tile += TILE) {
            for (var i = lane; i < 32u; i += 64u) {
                let row = min(tile + i / 1u, 149u);
                tile_k[i] = b1[i0 * 600u + row * 4u + other_head * 1u + 0u + (i % 1u) * 1u];
            }
            for (var i = lane; i < 32u; i += 64u) {
                let row = min(tile + i / 1u, 149u);
                tile_v[i] = b1[i0 * 600u + row * 4u + other_head * 1u + 2u + (i % 1u) * 1u];
            }
            workgroupBarrier();
            for (var place = 0u; place < TILE; place += 1u) {
                let other = tile + place;
                if other >= start && other < end {
                    let k0 = tile_k[place * 1u + 0u];
                    let v0 = tile_v[place * 1u + 0u];
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
            workgroupBarrier();
        }
    }
    if !inside {
        return;
    }
    let result = (batch * 70u + own) * 4u + head;
    let factor = select(1.0f / sum, 0.0f, sum == 0.0f);
    b3[result * 1u + 0u] = o0 * factor;
    b4[result] = select(largest + log(sum), bitcast<f32>(0x7f800000u), sum == 0.0f);
}

