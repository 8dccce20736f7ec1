// Rows added into a table of zeros: the first occurrence of an index adds up all of its row's
// updates, in order, so that sums repeat bit by bit.
$declarations
@compute @workgroup_size($workgroup)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * $workgroup + lane;
    if item >= $items {
        return;
    }
    let first = item / $width;
    let column = item % $width;
    let row = $indices[first];
    let link = $next[first];
    if row >= $rows || (link & 0x80000000u) != 0u {
        return;
    }
    var sum = $updates[first * $width + column];
    var i = link;
    while i < $count {
        sum += $updates[i * $width + column];
        i = $next[i] & 0x7fffffffu;
    }
    $output[row * $width + column] = sum;
}
