// Zeros.
$declarations
@compute @workgroup_size($workgroup)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let item = (group.x + group.y * groups.x) * $workgroup + lane;
    if item < $items {
        $output[item] = $real(0.0);
    }
}
