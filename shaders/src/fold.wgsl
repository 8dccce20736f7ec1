// Values combined over rows: one invocation per result, or per block of a result, goes
// through its share of the rows in a fixed order, so that runs repeat bit by bit.
$declarations
$functions
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
    let block = item / $results;
    let result = item % $results;
    $before
    $loop
    $after
}
