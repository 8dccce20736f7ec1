// scatter add (clear), [1, 1, 1] workgroups
// Zeros.
var<storage, read_write> b0: array<vec4<f32>>;
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item < 10u {
        b0[item] = vec4<f32>(0.0);
    }
}

// scatter add (link), [1, 1, 1] workgroups
// Which occurrence of an index follows which: `next` is the following one's position, or the
// number of indices after the last; it is marked in the top bit unless the occurrence is the
// first. So each row's updates form a chain in order.
var<storage, read> b0: array<u32>;
var<storage, read_write> b1: array<u32>;
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item >= 6u {
        return;
    }
    let index = b0[item];
    var mark = 0u;
    for (var i = 0u; i < item; i += 1u) {
        if b0[i] == index {
            mark = 0x80000000u;
            break;
        }
    }
    var following = 6u;
    for (var i = item + 1u; i < 6u; i += 1u) {
        if b0[i] == index {
            following = i;
            break;
        }
    }
    b1[item] = following | mark;
}

// scatter add, [1, 1, 1] workgroups
// Rows added into a table of zeros: the first occurrence of an index adds up all of its row's
// updates, in order, so that sums repeat bit by bit.
var<storage, read> b0: array<vec4<f32>>;
var<storage, read> b1: array<u32>;
var<storage, read> b2: array<u32>;
var<storage, read_write> b3: array<vec4<f32>>;
@compute @workgroup_size(64u)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * 64u + lane;
    if item >= 12u {
        return;
    }
    let first = item / 2u;
    let column = item % 2u;
    let row = b1[first];
    let link = b2[first];
    if row >= 5u || (link & 0x80000000u) != 0u {
        return;
    }
    var sum = b0[first * 2u + column];
    var i = link;
    while i < 6u {
        sum += b0[i * 2u + column];
        i = b2[i] & 0x7fffffffu;
    }
    b3[row * 2u + column] = sum;
}

