// Elementwise work: one invocation per item, an item being one column, or four adjacent
// ones, of one row.
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
    $body
}
