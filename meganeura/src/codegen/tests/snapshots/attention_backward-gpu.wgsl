// attention backward (queries), [16, 1, 1] workgroups
// Attention: an invocation keeps its own row (of a query, or of a key) in registers; a
// workgroup's rows are neighbours, and walk together along tiles of the other side, which lie
// in workgroup memory.
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
    let u0 = b2[i0 * 280u + own * 4u + head * 1u + 0u + 0u * 0u];
    let normalizer = b4[i0 * 280u + own * 4u + head * 1u + 0u + 0u * 0u];
    let mean = b5[i0 * 280u + own * 4u + head * 1u + 0u + 0u * 0u];
    var dq0 = f32(0.0f);
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
                    score += b3[own * 150u + 0u + other * 1u];
                    let weight = exp(score - normalizer);
                    var slope_parts = u0 * v0;
                    var slope = slope_parts;
                    slope = weight * (slope - mean) * 0.6f;
                    dq0 += slope * k0;
                }
            }
            workgroupBarrier();
        }
    }
    if !inside {
        return;
    }
    let result = (batch * 70u + own) * 4u + head;
    b6[result * 1u + 0u] = dq0;
}

// attention backward (keys), [12, 1, 1] workgroups
// Attention: an invocation keeps its own row (of a query, or of a key) in registers; a
// workgroup's rows are neighbours, and walk together along tiles of the other side, which lie
// in workgroup memory.
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
const TILE = 32u;
var<workgroup> tile_q: array<f32, 32>;
var<workgroup> tile_u: array<f32, 32>;
var<workgroup> tile_normalizer: array<f32, 32>;
var<workgroup> tile_mean: array<f32, 32>;

@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    // Work past the end computes the last again, so that everyone reaches the barriers.
    let wanted = group.x + group.y * groups.x;
    let work = min(wanted, 12u - 1u);
    let block = work % 3u * 64u;
    let head = work / 3u % 2u;
    let batch = work / (3u * 2u);
    let own = min(block + lane, 150u - 1u);
    let inside = wanted < 12u && block + lane < 150u;
    let i0 = batch;
    let k0 = b1[i0 * 600u + own * 4u + head * 1u + 0u + 0u * 1u];
    let v0 = b1[i0 * 600u + own * 4u + head * 1u + 2u + 0u * 1u];
    var dk0 = f32(0.0f);
    var dv0 = f32(0.0f);
    let start = range_start(own);
    let end = range_end(own);
    let first = range_start(block);
    let last = range_end(min(block + 64u, 150u) - 1u);
    for (var member = 0u; member < 2u; member += 1u) {
        let other_head = head * 2u + member;
        for (var tile = first; tile < last; tile += TILE) {
            for (var i = lane; i < 32u; i += 64u) {
                let row = min(tile + i / 1u, 69u);
                tile_q[i] = b0[i0 * 280u + row * 4u + other_head * 1u + 0u + (i % 1u) * 0u];
            }
            for (var i = lane; i < 32u; i += 64u) {
                let row = min(tile + i / 1u, 69u);
                tile_u[i] = b2[i0 * 280u + row * 4u + other_head * 1u + 0u + (i % 1u) * 0u];
            }
            for (var i = lane; i < 32u; i += 64u) {
                let row = min(tile + i / 1u, 69u);
                tile_normalizer[i] = b4[i0 * 280u + row * 4u + other_head * 1u + 0u + (i % 1u) * 0u];
            }
            for (var i = lane; i < 32u; i += 64u) {
                let row = min(tile + i / 1u, 69u);
                tile_mean[i] = b5[i0 * 280u + row * 4u + other_head * 1u + 0u + (i % 1u) * 0u];
            }
            workgroupBarrier();
            for (var place = 0u; place < TILE; place += 1u) {
                let other = tile + place;
                if other >= start && other < end {
                    let q0 = tile_q[place * 1u + 0u];
                    let u0 = tile_u[place * 1u + 0u];
                    let normalizer = tile_normalizer[place * 1u + 0u];
                    let mean = tile_mean[place * 1u + 0u];
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
            workgroupBarrier();
        }
    }
    if !inside {
        return;
    }
    let result = (batch * 150u + own) * 2u + head;
    b6[result * 1u + 0u] = dk0;
    b7[result * 1u + 0u] = dv0;
}

