// Work with reductions along rows, for devices without fast workgroup memory: one
// invocation per row, which loops over the columns once per stage.
$declarations
$functions
@compute @workgroup_size($workgroup)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = (group.x + group.y * groups.x) * $workgroup + lane;
    if row >= $rows {
        return;
    }
    const first = 0u;
    $body
}
