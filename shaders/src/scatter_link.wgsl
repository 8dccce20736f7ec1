// Which occurrence of an index follows which: `next` is the following one's position, or the
// number of indices after the last; it is marked in the top bit unless the occurrence is the
// first. So each row's updates form a chain in order.
$declarations
@compute @workgroup_size($workgroup)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * $workgroup + lane;
    if item >= $count {
        return;
    }
    let index = $indices[item];
    var mark = 0u;
    for (var i = 0u; i < item; i += 1u) {
        if $indices[i] == index {
            mark = 0x80000000u;
            break;
        }
    }
    var following = $count;
    for (var i = item + 1u; i < $count; i += 1u) {
        if $indices[i] == index {
            following = i;
            break;
        }
    }
    $next[item] = following | mark;
}
