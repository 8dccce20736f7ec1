// Attention for devices without fast workgroup memory: an invocation keeps its own row (of a
// query, or of a key) in registers and walks along the rows of the other side that it meets.
$declarations
$ranges
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
    let own = item % $count;
    let head = item / $count % $heads;
    let batch = item / ($count * $heads);
    $before
    let start = range_start(own);
    let end = range_end(own);
    for (var member = 0u; member < $members; member += 1u) {
        let other_head = $other_head;
        for (var other = start; other < end; other += 1u) {
            $load
            $step
        }
    }
    $after
}
